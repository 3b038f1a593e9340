"""What the name of a run's folder (`RunSpec.folder`) says: PROFILE/VARIANT/DATASET/STRATEGY/k5/eps3/POINT/seed0.

The variant is every choice that departs from the defaults. Names are taken apart here only.
"""

import hashlib
from dataclasses import asdict

from dp_bench.data import Source
from dp_bench.experiment.config import Config
from dp_bench.files.names import short
from dp_bench.strategies import STRATEGIES

LEVELS = ("profile", "variant", "dataset", "strategy", "k", "eps", "point", "seed")
DEFAULT, EMULATED = "default", "dataset.emulate_size"
_DATA, _SECURE = "data=", "seed=secure"
_LONGEST_NAME = 200  # of a folder, in characters; file systems end at 255 bytes
_CUT_OFF = "…"


def part(folder: str, level: str) -> str:
    """What the name of a folder says where no spec is at hand; "" if it does not get so far."""
    return dict(zip(LEVELS, folder.split("/"), strict=False)).get(level, "")


def variant(config: Config, source: Source) -> str:
    """Every choice that departs from the defaults, by name, so that no two protocols ever share a folder."""
    strategy = STRATEGIES[config.strategy.name]
    default = Config()
    chosen = {
        "dataset": (config.dataset, type(config.dataset)(), {"name", "stand_in"}),
        "model": (config.model, type(config.model)(), set()),
        "strategy": (config.strategy, type(config.strategy)(), {"name", *strategy.swept}),
        "grid": (config.grid, default.grid, {"k"} if strategy.private else {"k", "times"}),
        "train": (config.train, default.train, set()),
    }
    if strategy.private:
        chosen["privacy"] = (config.privacy, default.privacy, {"epsilon", "selection"})
        chosen["privacy.selection"] = (config.privacy.selection, default.privacy.selection, set())
    departures = [
        f"{group}.{key}={short(value)}"
        for group, (ours, theirs, apart) in chosen.items()
        for key, value in asdict(ours).items()
        if key not in apart and value != asdict(theirs)[key]
    ]
    if source.kind != "complete":
        departures.append(f"{_DATA}{source.kind}")
    if config.seed != default.seed:
        departures.append(f"seed={config.seed}")
    name = ",".join(departures) or DEFAULT
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}{_CUT_OFF}{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def choices(variant: str) -> list[str]:
    return [] if variant == DEFAULT else variant.split(",")


def departures(variant: str) -> list[str]:
    """The choices by which a variant departs from the default protocol, but for what the data themselves decide."""
    return [choice for choice in choices(variant) if not choice.startswith(_DATA)]


def reading(variant: str) -> list[str]:
    """The choices that read the paper, whatever data a run was trained on.

    >>> reading("dataset.emulate_size=120000,privacy.accountant=rdp_wor,data=subset")
    ['privacy.accountant=rdp_wor']
    >>> reading("default")
    []
    """
    return [choice for choice in departures(variant) if not choice.startswith(EMULATED)]


def is_emulated(variant: str) -> bool:
    return any(choice.startswith(EMULATED) for choice in choices(variant))


def may_be_secure(variant: str) -> bool:
    """A name that was cut off does not tell, so it may be."""
    return _SECURE in choices(variant) or _CUT_OFF in variant


def without_private_choices(variant: str) -> str:
    """The variant of the NoDP runs to compare with: its choices that mean something without privacy too."""
    apart = ("privacy.", "strategy.", "grid.times")
    return ",".join(choice for choice in choices(variant) if not choice.startswith(apart)) or DEFAULT

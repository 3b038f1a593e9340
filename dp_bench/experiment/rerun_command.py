"""The command that runs a spec again, as a shell and Hydra's grammar read it: it composes to the same digest."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dp_bench.experiment.config import Config, strategy_schema
from dp_bench.experiment.spec import RunSpec
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

# What conf/profile/*.yaml set, which a test holds equal: a default is said as well where it departs from the profile.
SETS_NOTHING = ("paper", "verify")
SET_BY_PROFILES = ("dataset.limit", "train.batch_size", "train.epochs", "train.evaluate_every")
_WORD = re.compile(r"[A-Za-z_][\w.-]*")  # a text that needs no quotes, unless it is one of these:
_LITERALS = ("null", "true", "false", "inf", "nan")


def command(verb: str, spec: RunSpec, seeds: Sequence[int]) -> str:
    """For a shell: `dp-bench run dataset=mnist ... 'seeds=[0,1]'`.

    Of a selection's winner its whole search, and of a halved grid all of it: which candidates continue is decided among
    all, over the seeds that they are ranked by.
    """
    words, seeds = overrides(spec), spec.ranked_seeds or seeds
    if spec.winner_only or spec.ranked_seeds:
        points = tuple(f"strategy.{name}=" for name in spec.swept)
        words = ["-m", *(word for word in words if not word.startswith(points))]
    return shlex.join(["dp-bench", verb, *words, f"seeds={_value(list(seeds))}"])


def overrides(spec: RunSpec) -> list[str]:
    """What a command must say to choose the point of a run."""
    chosen = [f"profile={spec.profile}", f"dataset={TASKS.word(spec.dataset.name)}"]
    chosen += [f"strategy={STRATEGIES.word(spec.strategy)}"]
    chosen += [f"strategy.{name}={_value(value)}" for name, value in spec.swept.items()]
    chosen += [f"grid.k={spec.grid.k}"]
    chosen += [f"privacy.epsilon={_value(spec.epsilon)}"] if spec.privacy else []
    return [*chosen, *(f"{key}={_value(value)}" for key, value in _departures(spec))]


def _departures(spec: RunSpec) -> Iterator[tuple[str, Any]]:
    """Every other choice that differs from its default, or may differ from what the profile sets."""
    default = Config()
    groups: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "dataset": (asdict(spec.dataset), asdict(type(spec.dataset)())),
        "model": (asdict(spec.model), asdict(type(spec.model)())),
        "strategy": (spec.hyperparameters, asdict(strategy_schema(spec.strategy)())),
        "privacy": (asdict(spec.privacy) if spec.privacy else {}, asdict(default.privacy)),
        "grid": (asdict(spec.grid), asdict(default.grid)),
        "train": (asdict(spec.train), asdict(default.train)),
    }
    said = {"dataset.name", "dataset.stand_in", "privacy.epsilon", "grid.k", *(f"strategy.{n}" for n in spec.swept)}
    for group, (ours, theirs) in groups.items():
        for name, value in ours.items():
            key = f"{group}.{name}"
            always = spec.profile not in SETS_NOTHING and key in SET_BY_PROFILES
            if key not in said and (always or value != theirs.get(name)):
                if key in ("grid.also", "privacy.selection"):
                    yield from ((f"{key}.{n}", v) for n, v in value.items() if v != theirs[name].get(n))
                else:
                    yield key, value
    if spec.source.synthetic:
        yield "dataset.stand_in", True
    if spec.seeding != default.seed:
        yield "seed", spec.seeding
    # Bits depend on these two.
    if spec.machine.threads != default.threads:
        yield "threads", spec.machine.threads
    if spec.machine.micro_batch != TASKS[spec.dataset.name].micro_batch:
        yield "micro_batch", spec.machine.micro_batch


def _value(value: Any) -> str:
    """In Hydra's grammar, with all its digits."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_value, value)) + "]"
    if isinstance(value, str) and not (_WORD.fullmatch(value) and value.lower() not in _LITERALS):
        return "'" + value.replace("'", "\\'") + "'"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)

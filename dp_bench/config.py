"""The configuration's schema. `DictConfig` stops here: everything behind it sees the plain dataclasses below.

Defaults are the project's readings of the paper (docs/fidelity.md); a run's folder names every choice that differs.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, get_type_hints

import omegaconf
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from dp_bench.errors import UserError
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import MAX_WORDS, TASKS

_MOST_THREADS = 1024
CALIBRATED = ("noise_multiplier", "batch_size")  # a strategy's fields that no one configures: they follow


@dataclass
class DatasetConfig:
    name: str = omegaconf.MISSING
    words: int = 25  # AG News: how many words of each text (Table 1's parameter count means 15)
    limit: int | None = None  # train on so many rows only
    # Evidence from a part of the data: steps and noise as if there were so many rows. No guarantee; only in verify.
    emulate_size: int | None = None
    stand_in: bool = False  # allow a generated data set where the real one cannot be had


@dataclass
class ModelConfig:
    output_activation: bool = False  # the appendix prints one on the logits, with which the CNN does not learn
    autoencoder_padding: int = 0  # 0 and 1 both give the printed parameter count


@dataclass
class PrivacyConfig:
    epsilon: float = 3.0  # for the whole grid
    delta: float = 1e-5
    accountant: str = "rdp"


@dataclass
class AlsoConfig:
    """Values added to an axis, and charged."""

    lr: list[float] = field(default_factory=list)
    clip: list[float] = field(default_factory=list)
    quantile: list[float] = field(default_factory=list)


@dataclass
class GridConfig:
    k: int = 5
    lr: list[float] = field(default_factory=lambda: [10**-2.5, 10**1.5])  # range, k values evenly spaced in log
    clip: list[float] = field(default_factory=lambda: [1e-2, 1e2])  # likewise
    quantile: list[float] = field(default_factory=lambda: [0.1, 0.3, 0.5, 0.7, 0.9])  # these values, whatever k
    also: AlsoConfig = field(default_factory=AlsoConfig)
    times: int = 1  # how often the grid is searched because other keys are swept as well; they are charged too


@dataclass
class TrainConfig:
    batch_size: int = 512
    epochs: float = 10.0
    evaluate_every: int = 50


@dataclass
class CheckpointConfig:
    keep: str = "none"  # none | best | all: models kept once a run is done


@dataclass
class Config:
    profile: str = "paper"
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    strategy: Any = omegaconf.MISSING
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    grid: GridConfig = field(default_factory=GridConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    # Of a sweep: all | published (only the point that the paper's tables name as best; the whole grid is charged).
    points: str = "all"
    # Of a sweep that names no privacy.epsilon: all | outer (the first and the last) of the paper's for the data set.
    epsilons: str = "all"
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    # named: batches and noise follow from the run's name, so that it can be repeated (and its noise subtracted) by
    # anyone who knows it. secure: from the operating system, forgotten when the run is done.
    seed: str = "named"
    device: str = "auto"  # auto | cpu | cuda
    threads: int = 1
    micro_batch: int | None = None  # None: what was measured fastest for the model
    runs: str = "runs"
    quiet: bool = False  # a sweep shows its jobs itself


def _schema(name: str) -> type:
    """The hyperparameters of a strategy's own dataclass, as a schema: they are declared once, there."""
    strategy = STRATEGIES[name]
    hints = get_type_hints(strategy)
    declared = [f for f in fields(strategy) if f.name not in CALIBRATED]
    schema = make_dataclass(
        f"{strategy.__name__}Config",
        [("name", str, field(default=name))]
        + [
            (f.name, hints[f.name], field(default=omegaconf.MISSING if f.default is NO_DEFAULT else f.default))
            for f in declared
        ],
    )
    # As if it were written here: launchers pickle it by name, and a class that is pickled by value loses its fields.
    schema.__module__ = __name__
    globals()[schema.__name__] = schema
    return schema


_SCHEMAS = {name: _schema(name) for name in STRATEGIES}


def strategy_schema(name: str) -> type:
    """What can be configured of a strategy."""
    return _SCHEMAS[name]


def register() -> None:
    """Tell Hydra the schema, so that a misspelt key or a wrong type is refused when a configuration is composed."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for name in STRATEGIES:
        store.store(group="strategy", name=f"{name}_schema", node=strategy_schema(name))


def parse(composed: DictConfig, point: Mapping[str, float] | None = None) -> Config:
    """A composed configuration as plain dataclasses, checked; `point` gives swept values that it leaves open."""
    for name, value in (point or {}).items():
        if OmegaConf.is_missing(composed.strategy, name):
            composed.strategy[name] = value
    unknown = sorted({str(key) for key in composed} - {f.name for f in fields(Config)})
    if unknown:
        raise UserError(f"{unknown[0]}: found a key that nothing reads, expected one that dp-bench run --help lists")
    missing = sorted(OmegaConf.missing_keys(composed))
    if missing:
        raise UserError(f"{missing[0]}: found nothing, expected a value; add {missing[0]}=VALUE to the command")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, Config)
    check(config)
    return config


def check(config: Config) -> None:
    """Refuse what no run could be made of. Each strategy checks its own hyperparameters, the budget its own numbers."""
    _one_of("dataset.name", config.dataset.name, TASKS)
    _one_of("checkpoint.keep", config.checkpoint.keep, ("none", "best", "all"))
    _one_of("points", config.points, ("all", "published"))
    _one_of("epsilons", config.epsilons, ("all", "outer"))
    _one_of("seed", config.seed, ("named", "secure"))
    _one_of("device", config.device, ("auto", "cpu", "cuda"))
    if config.dataset.emulate_size is not None and config.profile != "verify":
        raise UserError(
            f"dataset.emulate_size: found it under profile {config.profile}, expected profile=verify: its epsilon is "
            "no guarantee for the data that are there, so it serves the comparison with the paper only"
        )
    for key, value in {
        "train.batch_size": config.train.batch_size,
        "train.epochs": config.train.epochs,
        "train.evaluate_every": config.train.evaluate_every,
        "threads": config.threads,
        "micro_batch": 1 if config.micro_batch is None else config.micro_batch,
        "grid.times": config.grid.times,
    }.items():
        if not 0 < value < math.inf:
            raise UserError(f"{key}: found {value}, expected a positive number")
    if not 1 <= config.dataset.words <= MAX_WORDS:
        raise UserError(
            f"dataset.words: found {config.dataset.words}, expected 1 to {MAX_WORDS}; the paper's are 25 and 15"
        )
    if config.threads > _MOST_THREADS:
        raise UserError(f"threads: found {config.threads}, expected at most {_MOST_THREADS}; one a core is plenty")
    _one_of("strategy.name", config.strategy.name, STRATEGIES)
    if not isinstance(config.strategy, strategy_schema(config.strategy.name)):
        raise UserError(
            f"strategy.name: found {config.strategy.name!r}; choose it with strategy={config.strategy.name}"
        )
    for value in [*config.grid.quantile, *config.grid.also.quantile]:
        if not 0 < value < 1:
            raise UserError(f"grid.quantile: found {value}, expected numbers between 0 and 1")
    if not config.grid.quantile:
        raise UserError("grid.quantile: found nothing, expected a list, as in grid.quantile=[0.1,0.5,0.9]")
    for key, ends in {"grid.lr": config.grid.lr, "grid.clip": config.grid.clip}.items():
        if len(ends) != 2:
            raise UserError(f"{key}: found {ends}, expected the two ends of a range, as in {key}=[0.01,100]")
    if not config.seeds or len(set(config.seeds)) < len(config.seeds):
        raise UserError(f"seeds: found {config.seeds}, expected at least one and none twice, as in seeds=[0,1,2]")
    if config.model.autoencoder_padding not in (0, 1):
        raise UserError(f"model.autoencoder_padding: found {config.model.autoencoder_padding}, expected 0 or 1")
    if not 0 < config.privacy.delta < 1:
        raise UserError(f"privacy.delta: found {config.privacy.delta}, expected a number between 0 and 1, as 1e-5")
    if not config.privacy.epsilon > 0:
        raise UserError(f"privacy.epsilon: found {config.privacy.epsilon}, expected a positive number")


def _one_of(key: str, value: str, names: Any) -> None:
    if value not in names:
        raise UserError(f"{key}: found {value!r}, expected one of {', '.join(names)}")

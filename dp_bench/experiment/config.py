"""The configuration's schema: its keys, types and defaults, and how Hydra is told of them.

Defaults are the project's readings of the paper (docs/fidelity.md); a run's folder names every choice that differs.
What each key means is said where users read it: conf/config.yaml, and conf/grid/paper.yaml for `GridConfig`.
"""

import copyreg
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from typing import Any, get_type_hints

import omegaconf
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from dp_bench.experiment.conf import dotted, dotted_values
from dp_bench.privacy.accountants import POISSON, RDP, accountant_of
from dp_bench.privacy.allocators import COMPOSITION
from dp_bench.registry import Registry
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

_WHOLE = re.compile(r"(?<![\w.+-])(\d+)(?![\w.])")  # a number without a point or an exponent
_IMPORT_PATH = re.compile(r"[\w.]+:[\w.]+")  # my_package.my_module:MyStrategy
CALIBRATED = ("noise_multiplier", "batch_size")  # fields of a strategy that follow from the configuration
# Options of the built-in tasks, and the defaults that these declare. They are keys of every data set, as every stored
# spec has them; an option of another task is a key of that task alone (`dataset_schema`, `model_schema`).
BUILT_IN_OPTIONS: dict[str, Any] = {
    name: default
    for task in map(TASKS.__getitem__, TASKS.built_in)
    for name, default in (*task.data_options.items(), *task.model_options.items())
}


@dataclass
class DatasetConfig:
    name: str = omegaconf.MISSING
    words: int = BUILT_IN_OPTIONS["words"]
    limit: int | None = None
    emulate_size: int | None = None
    stand_in: bool = False


@dataclass
class ModelConfig:
    output_activation: bool = BUILT_IN_OPTIONS["output_activation"]
    autoencoder_padding: int = BUILT_IN_OPTIONS["autoencoder_padding"]


@dataclass
class SelectionConfig:
    distribution: str = "logarithmic"
    mean: float | None = None
    pool: bool = False


@dataclass
class PrivacyConfig:
    epsilon: float = 3.0
    delta: float = 1e-5
    accountant: str = RDP
    allocator: str = COMPOSITION
    selection: SelectionConfig = field(default_factory=SelectionConfig)


@dataclass
class AlsoConfig:
    lr: list[float] = field(default_factory=list)
    clip: list[float] = field(default_factory=list)
    quantile: list[float] = field(default_factory=list)


@dataclass
class GridConfig:
    k: int = 5
    lr: list[float] = field(default_factory=lambda: [10**-2.5, 10**1.5])
    clip: list[float] = field(default_factory=lambda: [1e-2, 1e2])
    quantile: list[float] = field(default_factory=lambda: [0.1, 0.3, 0.5, 0.7, 0.9])
    also: AlsoConfig = field(default_factory=AlsoConfig)
    axes: dict[str, list[float]] = field(default_factory=dict)
    times: int = 1


@dataclass
class TrainConfig:
    batch_size: int = 512
    epochs: float = 10.0
    evaluate_every: int = 50
    sampling: str | None = None  # never what the accountant assumes anyway: `parse` sets it to None


@dataclass
class CheckpointConfig:
    keep: str = "none"


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
    points: str = "all"
    epsilons: str = "all"
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    # named: a run can be repeated, and its noise subtracted, by anyone who knows its name; secure: by no one.
    seed: str = "named"
    device: str = "auto"  # auto | cpu | cuda
    threads: int = 1
    micro_batch: int | None = None  # None: what was measured fastest for the model
    runs: str = "runs"
    quiet: bool = False  # a sweep shows its jobs itself
    tracker: str = "none"  # none | tensorboard | mlflow: curves of released quantities, next to the folder of runs


class _SchemaType(type):
    """The class of schemas. Launchers pickle schemas: as what they are made from, so that a worker makes the same one,
    and knows a strategy or task that only the command line named."""

    group: str
    member: str


class _Schema(metaclass=_SchemaType):
    pass


@functools.cache
def dataset_schema(name: str) -> type[DatasetConfig]:
    """What can be configured of a task's data: its own options are declared once, there."""
    return DatasetConfig if name in TASKS.built_in else _task_schema("dataset", name, DatasetConfig, name=name)


@functools.cache
def model_schema(name: str) -> type[ModelConfig]:
    """What can be configured of a task's model."""
    return ModelConfig if name in TASKS.built_in else _task_schema("model", name, ModelConfig)


def _task_schema(group: str, task: str, base: type, **others: str) -> type:
    options = {**others, **declared_options(task)[group]}
    return _schema(group, task, [(key, type(default), default) for key, default in options.items()], base)


@functools.cache
def strategy_schema(name: str) -> type:
    """What can be configured of a strategy: the hyperparameters of its own dataclass, declared once, there."""
    strategy = STRATEGIES[name]
    hints = get_type_hints(strategy)
    declared: list[tuple[str, type, Any]] = [("name", str, name)]
    for key in fields(strategy):
        # What is swept has no default: it would count as chosen on the command line, and the grid would not be run.
        is_open = key.name in strategy.swept or key.default is NO_DEFAULT
        if key.name not in CALIBRATED:
            declared.append((key.name, hints[key.name], omegaconf.MISSING if is_open else key.default))
    return _schema("strategy", name, declared)


def _schema(group: str, member: str, keys: Iterable[tuple[str, type, Any]], *bases: type) -> type:
    """`keys`: their names, types and defaults."""
    declared = [(key, kind, field(default=default)) for key, kind, default in keys]
    namespace = {"group": group, "member": member, "__module__": __name__}
    schema = make_dataclass(f"{member}_{group}_config", declared, bases=(*bases, _Schema), namespace=namespace)
    globals()[schema.__name__] = schema  # cloudpickle takes a class that it cannot find apart, and loses its fields
    return schema


def _schema_in_worker(group: str, name: str, path: str) -> type:
    registry, schema = _SCHEMAS[group]
    if name not in registry:
        registry.add(path)
    return schema(name)


def _pickled(schema: _SchemaType) -> tuple[Callable[..., Any], tuple[str, str, str]]:
    return _schema_in_worker, (schema.group, schema.member, _SCHEMAS[schema.group][0].path(schema.member))


copyreg.pickle(_SchemaType, _pickled)


def register() -> None:
    """Tell Hydra the schema, so that a misspelt key or a wrong type is refused when a configuration is composed."""
    store = ConfigStore.instance()
    schema = OmegaConf.structured(Config)
    OmegaConf.set_struct(schema.grid.axes, False)  # any strategy's axes
    store.store(name="schema", node=schema)
    for name in STRATEGIES.built_in:  # conf/strategy/NAME.yaml builds on it
        store.store(group="schema", name=name, node=strategy_schema(name))
    for name in set(STRATEGIES.loadable()) - set(STRATEGIES.built_in):
        store.store(group="strategy", name=name, node=strategy_schema(name))
    for name in set(TASKS.loadable()) - set(TASKS.built_in):
        node = {"dataset": dataset_schema(name), "model": model_schema(name)}
        store.store(group="dataset", name=name, node=node, package="_global_")


_SCHEMAS: dict[str, tuple[Registry[Any], Callable[[str], type]]] = {
    "strategy": (STRATEGIES, strategy_schema),
    "dataset": (TASKS, dataset_schema),
    "model": (TASKS, model_schema),
}


def resolved(override: str) -> str:
    """A word of the command line in which each import path is replaced by the name under which it is now registered.

    `strategy=online,my_package.my_module:MyStrategy` -> `strategy=online,my_strategy`. A name that is known but cannot
    be loaded is refused here, with the reason.
    """
    key, _, values = override.partition("=")
    if key.lstrip("+") == "grid.axes":  # OmegaConf refuses a whole number there, though not in grid.axes.NAME
        return f"{key}=" + _WHOLE.sub(r"\1.0", values)
    if key.lstrip("+") not in ("strategy", "dataset"):
        return override
    (registry, _), names = _SCHEMAS[key.lstrip("+")], values.split(",")
    for place, name in enumerate(names):
        if _IMPORT_PATH.fullmatch(name):
            names[place] = registry.add(name)
            register()
        elif name in registry:
            registry[name]
    return f"{key}={','.join(names)}"


def known_keys() -> set[str]:
    """Every key that some configuration has, as it is written on a command line."""
    return set(dotted(defaults()))


def boolean_keys() -> set[str]:
    """Those that are true or false: of a number OmegaConf would make one or the other."""
    return {key for key, value in dotted_values(defaults()) if isinstance(value, bool)}


def defaults() -> dict[str, Any]:
    """Every key of some configuration, those of all strategies and tasks together."""
    strategies = [asdict(strategy_schema(name)()) for name in STRATEGIES.loadable()]
    found = asdict(Config()) | {"strategy": {name: value for each in strategies for name, value in each.items()}}
    for name in TASKS.loadable():
        for group, options in declared_options(name).items():
            found[group] |= options
    return found


def default_sampling(privacy: PrivacyConfig | None) -> str:
    """How batches are drawn unless train.sampling says otherwise: as the accountant assumes."""
    return POISSON if privacy is None else accountant_of(privacy.accountant).sampling


def declared_options(name: str) -> dict[str, Mapping[str, Any]]:
    """The options of a task and their defaults, by the group of keys that they belong to."""
    return {"dataset": TASKS[name].data_options, "model": TASKS[name].model_options}


def task_options(dataset: DatasetConfig, model: ModelConfig) -> dict[str, Any]:
    """What a task is told of the choices among its data and models."""
    chosen = chosen_options(dataset, model)
    return {"limit": dataset.limit, "stand_in": dataset.stand_in, **chosen["dataset"], **chosen["model"]}


def chosen_options(dataset: DatasetConfig, model: ModelConfig) -> dict[str, dict[str, Any]]:
    """The values of a task's own options, likewise by group."""
    chosen = {"dataset": asdict(dataset), "model": asdict(model)}
    return {
        group: {name: chosen[group].get(name, default) for name, default in options.items()}
        for group, options in declared_options(dataset.name).items()
    }

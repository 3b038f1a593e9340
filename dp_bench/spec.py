"""What a run is: everything its result depends on. No torch: planning makes thousands of these."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from dp_bench import data, grid
from dp_bench.accounting import Sampling
from dp_bench.budget import Allocation, Budget, allocate
from dp_bench.config import Config, DatasetConfig, GridConfig, ModelConfig, PrivacyConfig, TrainConfig
from dp_bench.errors import UserError
from dp_bench.strategies import STRATEGIES, Strategy
from dp_bench.tasks import TASKS

_LONGEST_NAME = 200  # of a folder; file systems end at 255 bytes


@dataclass(frozen=True)
class Machine:
    """How a run is executed. Bits depend on it, results do not mean anything else by it."""

    device: str
    threads: int
    micro_batch: int


@dataclass(frozen=True)
class RunSpec:
    """One seed of one point of one grid."""

    profile: str
    variant: str
    dataset: DatasetConfig
    model: ModelConfig
    strategy: str
    hyperparameters: Mapping[str, Any]
    grid: GridConfig
    privacy: PrivacyConfig | None  # None: not private
    train: TrainConfig
    source: data.Source
    allocation: Allocation | None
    steps: int
    seed: int
    seeding: str
    machine: Machine

    @property
    def point(self) -> str:
        return grid.point_name({n: self.hyperparameters[n] for n in STRATEGIES[self.strategy].swept})

    @property
    def grid_folder(self) -> PurePosixPath:
        epsilon = "inf" if self.privacy is None else _short(self.privacy.epsilon)
        folder = PurePosixPath(self.profile, self.variant, self.dataset.name, self.strategy)
        return folder / f"k{self.grid.k}" / f"eps{epsilon}"

    @property
    def folder(self) -> PurePosixPath:
        """Where the run is kept, and its whole identity: batches and noise are keyed by this name."""
        return self.grid_folder / self.point / f"seed{self.seed}"

    def protocol(self) -> dict[str, Any]:
        """Everything that the result means, as plain JSON: all but the machine, and where the data were found."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        # A permission that was not needed means nothing: `source` says what was used.
        del plain["machine"], plain["source"]["where"], plain["dataset"]["stand_in"]
        if self.dataset.emulate_size is None:  # so that runs from before there was such a choice keep their digest
            del plain["dataset"]["emulate_size"]
        return plain

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(comparable(self.protocol()), sort_keys=True).encode()).hexdigest()

    def build_strategy(self) -> Strategy[Any]:
        nu = self.allocation.noise_multiplier if self.allocation else 0.0
        return STRATEGIES[self.strategy](noise_multiplier=nu, batch_size=self.train.batch_size, **self.hyperparameters)


def comparable(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol without what follows from the rest of it: the last bits of an epsilon differ between machines."""
    allocation = protocol["allocation"] and {
        name: value for name, value in protocol["allocation"].items() if name not in ("epsilon_grid", "epsilon_run")
    }
    return {**protocol, "allocation": allocation}


def specs(config: Config) -> list[RunSpec]:
    """The runs of one configuration, one a seed; every number in them is checked and none is left to be found."""
    task, strategy = TASKS[config.dataset.name], STRATEGIES[config.strategy.name]
    source = data.describe(config.dataset.name, stand_in=config.dataset.stand_in, limit=config.dataset.limit)
    axes = axes_of(config.strategy.name, config.grid)
    hyperparameters = {n: v for n, v in asdict(config.strategy).items() if n != "name"}
    for name, candidates in axes.items():
        hyperparameters[name] = grid.snap(hyperparameters[name], candidates, name)
    rows = _accounted_rows(config.dataset, source)
    sampling = Sampling(config.train.batch_size, rows)
    steps = round(config.train.epochs * rows / config.train.batch_size)
    if steps < 1:
        raise UserError(f"train.epochs: found {config.train.epochs}, expected enough for at least one step")
    allocation = None
    if strategy.private:
        budget = Budget(config.privacy.epsilon, config.privacy.delta, config.privacy.accountant)
        candidates_charged = len(grid.points(axes)) * config.grid.times
        allocation = allocate(budget, sampling, candidates_charged, steps)
    first = RunSpec(
        profile=config.profile,
        variant=variant(config, source),
        dataset=config.dataset,
        model=config.model,
        strategy=config.strategy.name,
        hyperparameters=hyperparameters,
        grid=config.grid if strategy.private else replace(config.grid, times=1),  # only a budget is divided
        privacy=config.privacy if strategy.private else None,
        train=config.train,
        source=source,
        allocation=allocation,
        steps=steps,
        seed=config.seeds[0],
        seeding=config.seed,
        machine=Machine(config.device, config.threads, config.micro_batch or task.micro_batch),
    )
    first.build_strategy()  # a strategy refuses hyperparameters and budgets that cannot be
    return [replace(first, seed=seed) for seed in config.seeds]


def _accounted_rows(dataset: DatasetConfig, source: data.Source) -> int:
    """N, as steps and noise are computed from it."""
    if dataset.emulate_size is None:
        return source.train_rows
    if dataset.emulate_size <= source.train_rows:
        raise UserError(
            f"dataset.emulate_size: found {dataset.emulate_size}, expected more than the {source.train_rows} training "
            "rows that are there; leave it out, or see dataset.limit"
        )
    return dataset.emulate_size


def axes_of(strategy: str, g: GridConfig) -> dict[str, tuple[float, ...]]:
    """What a strategy's grid searches."""
    return grid.axes_for(
        STRATEGIES[strategy].swept,
        g.k,
        ranges={"lr": (g.lr[0], g.lr[1]), "clip": (g.clip[0], g.clip[1])},
        choices={"quantile": g.quantile},
        also=asdict(g.also),
    )


def variant(config: Config, source: data.Source) -> str:
    """Every choice that departs from the defaults, by name, so that no two protocols ever share a folder."""
    strategy = STRATEGIES[config.strategy.name]
    default = Config()
    chosen = {
        "dataset": (config.dataset, default.dataset, {"name", "stand_in"}),
        "model": (config.model, default.model, set()),
        "strategy": (config.strategy, type(config.strategy)(), {"name", *strategy.swept}),
        "grid": (config.grid, default.grid, {"k"} if strategy.private else {"k", "times"}),
        "train": (config.train, default.train, set()),
    }
    if strategy.private:
        chosen["privacy"] = (config.privacy, default.privacy, {"epsilon"})
    departures = [
        f"{group}.{key}={_short(value)}"
        for group, (ours, theirs, apart) in chosen.items()
        for key, value in asdict(ours).items()
        if key not in apart and value != asdict(theirs)[key]
    ]
    if source.kind != "complete":
        departures.append(f"data={source.kind}")
    if config.seed != default.seed:
        departures.append(f"seed={config.seed}")
    name = ",".join(departures) or "default"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}…{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{k}:{_short(v)}" for k, v in sorted(value.items()) if v)
    if isinstance(value, list):
        return "-".join(_short(v) for v in value)
    # All its digits: a name stands for one number only.
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)

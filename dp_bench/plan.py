"""From choices to jobs: every configuration of the chosen grids, each a checked spec before the first one starts."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from dp_bench import grid, published
from dp_bench.config import GridConfig, parse
from dp_bench.errors import UserError
from dp_bench.spec import RunSpec, axes_of, specs
from dp_bench.store import RunFolder
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

Choices = Mapping[str, Sequence[str]]  # key -> the values it takes, as they were typed
Compose = Callable[[Sequence[str]], DictConfig]

# Choices among these are no search on the same data at the same budget: other data, a grid with a budget of its own, or
# nothing that a result depends on. Every other key that takes several values is searched, hence charged.
OTHER_BUDGET = {"dataset", "strategy", "grid.k", "privacy.epsilon", "privacy.delta", "privacy.accountant"}
NO_PART_OF_A_RESULT = {
    "seeds",
    "seed",
    "device",
    "threads",
    "micro_batch",
    "checkpoint.keep",
    "runs",
    "points",
    "quiet",
}


@dataclass(frozen=True, eq=False)
class Job:
    """One configuration with its seeds: what Hydra is told, and what will be run."""

    overrides: tuple[str, ...]
    runs: tuple[RunSpec, ...]
    root: Path

    def folders(self) -> list[RunFolder]:
        return [RunFolder(self.root, run) for run in self.runs]


def jobs(choices: Choices, compose: Compose) -> list[Job]:
    """Each chosen (data set, strategy, k, epsilon) expanded into its grid; nothing twice."""
    if len(choices.get("experiment", ())) > 1:
        raise UserError(
            f"experiment: found {', '.join(choices['experiment'])}, expected one; run them one after the other, or "
            "choose dataset=..., strategy=..., grid.k=... and privacy.epsilon=... yourself"
        )
    composed = _remembering(compose)
    found: dict[str, Job] = {}
    for values in itertools.product(*choices.values()):
        for combination in _with_epsilon(dict(zip(choices, values, strict=True)), composed):
            for job in _expanded(combination, choices, composed):
                found.setdefault(str(job.runs[0].folder), job)
    return list(found.values())


def _with_epsilon(combination: dict[str, str], composed: Compose) -> list[dict[str, str]]:
    """The paper's budgets for the data set, unless others were chosen."""
    if "privacy.epsilon" in combination:
        return [combination]
    configuration = composed(_overrides(combination))
    epsilons = TASKS[configuration.dataset.name].epsilons
    if configuration.epsilons == "outer":
        epsilons = (epsilons[0], epsilons[-1])
    return [{**combination, "privacy.epsilon": f"{epsilon:g}"} for epsilon in epsilons]


def _overrides(combination: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in combination.items()]


def _expanded(combination: dict[str, str], choices: Choices, composed: Compose) -> Iterator[Job]:
    overrides = _overrides(combination)
    configuration = composed(overrides)
    strategy = STRATEGIES[configuration.strategy.name]
    fixed = [n for n in strategy.swept if not OmegaConf.is_missing(configuration.strategy, n)]
    times = math.prod(len(values) for key, values in choices.items() if _is_charged(key, strategy.swept))
    axes = axes_of(configuration.strategy.name, cast(GridConfig, OmegaConf.to_object(configuration.grid)))
    points = _wanted(grid.points(axes), configuration, fixed, axes)
    if not points:
        return
    config = parse(configuration, points[0])
    config.grid.times *= times
    first = specs(config)
    for point in points:
        runs = tuple(replace(run, hyperparameters={**run.hyperparameters, **point}) for run in first)
        runs[0].build_strategy()
        added = [f"strategy.{name}={value!r}" for name, value in point.items() if name not in fixed]
        yield Job((*overrides, *added, f"grid.times={config.grid.times}", "quiet=true"), runs, Path(config.runs))


def _wanted(
    points: Iterable[dict[str, float]],
    configuration: DictConfig,
    fixed: Sequence[str],
    axes: Mapping[str, Sequence[float]],
) -> list[dict[str, float]]:
    """The points to run; the whole grid is charged whichever they are."""
    chosen = {name: grid.snap(configuration.strategy[name], axes[name], name) for name in fixed}
    wanted = [point for point in points if all(point[name] == value for name, value in chosen.items())]
    if configuration.points == "all":
        return wanted
    named = published.best_point(
        configuration.dataset.name, configuration.strategy.name, configuration.grid.k, configuration.privacy.epsilon
    )
    if named is None:
        return []
    best = {name: grid.snap(named[name], axes[name], name) for name in axes}
    return [point for point in wanted if point == best]


def _is_charged(key: str, swept: tuple[str, ...]) -> bool:
    grid_members = {f"strategy.{name}" for name in swept}
    return key not in OTHER_BUDGET | NO_PART_OF_A_RESULT | grid_members


def _remembering(compose: Compose) -> Compose:
    """Hydra takes a tenth of a second to compose, and a sweep has many pairs of k and epsilon: those are set later."""
    numbers = ("grid.k", "privacy.epsilon")
    kept: dict[tuple[str, ...], DictConfig] = {}

    def composed(overrides: Sequence[str]) -> DictConfig:
        later = [o.partition("=") for o in overrides if o.partition("=")[0] in numbers]
        key = tuple(o for o in overrides if o.partition("=")[0] not in numbers)
        if key not in kept:
            kept[key] = compose(key)
        configuration = kept[key].copy()
        for name, _, value in later:
            OmegaConf.update(configuration, name, value)
        return configuration

    return composed


def by_grid(planned: Iterable[Job]) -> dict[str, list[Job]]:
    """Jobs by the folder of the grid that pays for them."""
    grids: dict[str, list[Job]] = {}
    for job in planned:
        grids.setdefault(str(job.runs[0].grid_folder), []).append(job)
    return grids

"""From choices to jobs: every configuration of the chosen grids, each a checked spec before the first one starts."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from dp_bench import grid, published
from dp_bench.config import Config, check, parse
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
    "epsilons",
    "quiet",
}
# Two values of these would be two runs in one folder.
ONE_RUN_WHATEVER_ITS_VALUE = {"device", "threads", "micro_batch", "checkpoint.keep", "quiet"}


@dataclass(frozen=True, eq=False)
class Job:
    """One configuration with its seeds: what Hydra is told, and what will be run."""

    overrides: tuple[str, ...]
    runs: tuple[RunSpec, ...]
    root: Path  # absolute: a worker may be started in another folder
    keep: str = "none"  # which models are wanted of it

    @property
    def identity(self) -> object:
        """What two jobs have in common only if they are the same. Thousands are made: cheaper than their folders."""
        first = self.runs[0]
        return self.root, first.grid_folder, first.point, tuple(run.seed for run in self.runs)

    @cached_property
    def folders(self) -> tuple[RunFolder, ...]:
        return tuple(RunFolder(self.root, run) for run in self.runs)


class Plan(NamedTuple):
    jobs: list[Job]
    notes: list[str]  # what was chosen and is not among the jobs


def plan(choices: Choices, compose: Compose) -> Plan:
    """Each chosen (data set, strategy, k, epsilon) expanded into its grid; nothing twice, nothing left out unsaid."""
    if len(choices.get("experiment", ())) > 1:
        raise UserError(
            f"experiment: found {', '.join(choices['experiment'])}, expected one; run them one after the other, or "
            "choose dataset=..., strategy=..., grid.k=... and privacy.epsilon=... yourself"
        )
    for key in sorted(ONE_RUN_WHATEVER_ITS_VALUE & choices.keys()):
        if len(set(choices[key])) > 1:
            raise UserError(
                f"{key}: found {', '.join(choices[key])}, expected one value: it makes no other run, so there is "
                "nothing to sweep; run one sweep after the other, each with its own runs=FOLDER"
            )
    composed = _Compositions(compose)
    combinations = [
        combination
        for values in itertools.product(*choices.values())
        for combination in _with_epsilon(dict(zip(choices, values, strict=True)), composed)
    ]
    searched: dict[object, set[str]] = {}  # by budget: what is tried besides the points of a grid
    for combination in combinations:
        budget, protocol = _budget_and_protocol(composed.of(combination).config)
        searched.setdefault(budget, set()).add(protocol)
    found: dict[object, Job] = {}
    jobs_of: Counter[str] = Counter()  # by grid
    for combination in combinations:
        config = composed.of(combination).config
        times = _times(choices, config, len(searched[_budget_and_protocol(config)[0]]))
        expanded = list(_expanded(combination, times, composed))
        jobs_of[_grid_name(config)] += len(expanded)
        for job in expanded:
            found.setdefault(job.identity, job)
    if not found:
        raise UserError(
            "points: found published, expected all: the paper's tables name no point of the chosen grids; "
            "choose others, or points=all"
        )
    left_out = [name for name, count in jobs_of.items() if not count]
    note = (
        f"note: points=published leaves out {len(left_out)} of the chosen grids, of which the paper's tables name no "
        f"chosen point as best: {', '.join(left_out)}"
    )
    return Plan(list(found.values()), [note] if left_out else [])


def _grid_name(config: Config) -> str:
    epsilon = config.privacy.epsilon if STRATEGIES[config.strategy.name].private else math.inf
    return f"{config.dataset.name}/{config.strategy.name}/k{config.grid.k}/eps{epsilon:g}"


def _budget_and_protocol(config: Config) -> tuple[object, str]:
    """Which budget pays for a configuration, and what it tries there, however that was written."""
    swept = STRATEGIES[config.strategy.name].swept
    privacy = config.privacy
    budget = (config.dataset.name, config.strategy.name, config.grid.k, *asdict(privacy).values())
    strategy = {name: value for name, value in asdict(config.strategy).items() if name not in swept}
    tried = [asdict(config.dataset), asdict(config.model), strategy, asdict(config.grid), asdict(config.train)]
    return budget, json.dumps([config.profile, config.seed, *tried], sort_keys=True)


def _times(choices: Choices, config: Config, protocols: int) -> int:
    """How often a grid is searched: for each value of every other key, or for each protocol that comes of them."""
    swept = STRATEGIES[config.strategy.name].swept
    values = math.prod(len(set(values)) for key, values in choices.items() if _is_charged(key, swept))
    return config.grid.times * max(values, protocols)


def _with_epsilon(combination: dict[str, str], composed: "_Compositions") -> list[dict[str, str]]:
    """The paper's budgets for the data set, unless others were chosen."""
    if "privacy.epsilon" in combination:
        return [combination]
    config = composed.of(combination).config
    epsilons = TASKS[config.dataset.name].epsilons
    if config.epsilons == "outer":
        epsilons = (epsilons[0], epsilons[-1])
    return [{**combination, "privacy.epsilon": f"{epsilon:g}"} for epsilon in epsilons]


def _expanded(combination: dict[str, str], times: int, composed: "_Compositions") -> Iterator[Job]:
    config, given = composed.of(combination)
    axes = axes_of(config.strategy.name, config.grid)
    points = _wanted(grid.points(axes), config, given, axes)
    if not points:
        return
    first = specs(
        replace(config, strategy=replace(config.strategy, **points[0]), grid=replace(config.grid, times=times))
    )
    root = Path(config.runs).absolute()
    for point in points:
        runs = tuple(replace(run, hyperparameters={**run.hyperparameters, **point}) for run in first)
        runs[0].build_strategy()
        settings = [f"strategy.{name}={value!r}" for name, value in point.items() if name not in given]
        settings += [f"grid.times={times}", f"runs={_quoted(root)}", "quiet=true"]
        yield Job((*_overrides(combination), *settings), runs, root, config.checkpoint.keep)


def _wanted(
    points: Iterable[dict[str, float]], config: Config, given: Sequence[str], axes: Mapping[str, Sequence[float]]
) -> list[dict[str, float]]:
    """The points to run; the whole grid is charged whichever they are."""
    chosen = {name: grid.snap(getattr(config.strategy, name), axes[name], name) for name in given}
    wanted = [point for point in points if all(point[name] == value for name, value in chosen.items())]
    if config.points == "all":
        return wanted
    named = published.best_point(config.dataset.name, config.strategy.name, config.grid.k, config.privacy.epsilon)
    if named is None:
        return []
    best = {name: grid.snap(named[name], axes[name], name) for name in axes}
    return [point for point in wanted if point == best]


def _is_charged(key: str, swept: tuple[str, ...]) -> bool:
    grid_members = {f"strategy.{name}" for name in swept}
    return key not in OTHER_BUDGET | NO_PART_OF_A_RESULT | grid_members


def _overrides(combination: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in combination.items()]


def _quoted(path: Path) -> str:
    """As Hydra's grammar wants a text that may hold anything but a reference."""
    if "${" in str(path):
        raise UserError(
            f"runs: found {path}, expected a folder without ${{ in its name: Hydra takes it for a reference; "
            "choose another runs=FOLDER, or work in another folder"
        )
    return "'" + str(path).replace("'", "\\'") + "'"


class _Composition(NamedTuple):
    config: Config  # what its grid sweeps may hold any value
    given: tuple[str, ...]  # names of what its grid sweeps but the choices set


class _Compositions:
    """Hydra takes a tenth of a second to compose, and a sweep has many pairs of k and epsilon: those are set later."""

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._kept: dict[tuple[str, ...], tuple[DictConfig, _Composition]] = {}
        self._known: dict[tuple[tuple[str, str], ...], _Composition] = {}
        self._refers = False  # whether some value is a reference to another

    def of(self, combination: Mapping[str, str]) -> _Composition:
        key = tuple(combination.items())
        if key not in self._known:
            self._known[key] = self._make(combination)
        return self._known[key]

    def _make(self, combination: Mapping[str, str]) -> _Composition:
        numbers = {key: value for key, value in combination.items() if key in ("grid.k", "privacy.epsilon")}
        if self._refers:  # to k or epsilon, maybe: then they have to be there from the start
            numbers = {}
        others = tuple(_overrides({key: value for key, value in combination.items() if key not in numbers}))
        if others not in self._kept:
            composed = self._compose(others)
            if numbers and "${" in OmegaConf.to_yaml(composed):
                self._refers = True
                return self._make(combination)
            swept = STRATEGIES[composed.strategy.name].swept
            given = tuple(name for name in swept if not OmegaConf.is_missing(composed.strategy, name))
            config = parse(composed.copy(), dict.fromkeys(swept, 1.0))
            self._kept[others] = composed, _Composition(config, given)
        composed, (config, given) = self._kept[others]
        for key, value in numbers.items():
            OmegaConf.update(composed, key, value)  # checks its type
        k, epsilon = (OmegaConf.select(composed, key) for key in ("grid.k", "privacy.epsilon"))
        config = replace(config, grid=replace(config.grid, k=k), privacy=replace(config.privacy, epsilon=epsilon))
        check(config)
        return _Composition(config, given)


def by_grid(planned: Iterable[Job]) -> dict[str, list[Job]]:
    """Jobs by the folder of the grid that pays for them."""
    grids: dict[str, list[Job]] = {}
    for job in planned:
        grids.setdefault(str(job.runs[0].grid_folder), []).append(job)
    return grids

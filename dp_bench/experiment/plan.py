"""From choices to jobs: every configuration of the chosen grids, each a checked spec before the first one starts."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from dp_bench.data.find import NOT_FETCHED
from dp_bench.errors import invalid
from dp_bench.experiment import charging, grid
from dp_bench.experiment.charging import Choices
from dp_bench.experiment.config import Config
from dp_bench.experiment.resolve import axes_of, specs
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.experiment.validation import check, parse
from dp_bench.paper import published
from dp_bench.privacy.accounting import exact
from dp_bench.privacy.allocators import COMPOSITION
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

_MOST_COMBINATIONS = 10_000  # a plan makes each of them, with all the points of its grid
Compose = Callable[[Sequence[str]], DictConfig]


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


def plan(choices: Choices, compose: Compose, *, fetch: bool = True) -> Plan:
    """Each chosen (data set, strategy, k, epsilon) expanded into its grid; nothing twice, nothing left out unsaid.

    Without `fetch` nothing is downloaded: data that is not on this machine is taken to be the official one.
    """
    if len(choices.get("experiment", ())) > 1:
        remedy = "run them one after the other, or choose dataset, strategy, grid.k and privacy.epsilon yourself"
        raise invalid("experiment", "one", ", ".join(choices["experiment"]), remedy)
    charging.refuse_sweeps_of_one_run(choices)
    if (many := math.prod(map(len, choices.values()))) > _MOST_COMBINATIONS:
        widest = max(choices, key=lambda key: len(choices[key]))
        expected = f"at most {_MOST_COMBINATIONS:,} combinations of what is swept"
        raise invalid(widest, expected, f"{many:,}", "sweep fewer values, or one key after the other")
    compositions = _Compositions(compose)
    chosen = [
        compositions.of(combination)
        for values in itertools.product(*choices.values())
        for combination in _with_epsilon(dict(zip(choices, values, strict=True)), compositions)
    ]
    times_of = charging.times_by_budget(choices, [composition.config for composition in chosen])
    found: dict[object, Job] = {}
    jobs_of: Counter[str] = Counter()  # by grid
    for composition in chosen:
        expanded = list(_expanded(composition, times_of(composition.config), fetch))
        jobs_of[_grid_name(composition.config)] += len(expanded)
        for job in expanded:
            found.setdefault(job.identity, job)
    if not found:
        expected = "all, as the paper's tables name no point of the chosen grids"
        raise invalid("points", expected, "published", "choose other grids, or points=all")
    charging.refuse_overspending(job.runs[0] for job in found.values())
    charging.refuse_a_second_release((run, job.root) for job in found.values() for run in job.runs)
    left_out = [name for name, count in jobs_of.items() if not count]
    note = (
        f"note: points=published leaves out {len(left_out)} of the chosen grids, of which the paper's tables name no "
        f"chosen point as best: {', '.join(left_out)}"
    )
    return Plan(list(found.values()), [*_not_fetched(found.values()), *([note] if left_out else [])])


def _not_fetched(jobs: Iterable[Job]) -> list[str]:
    sources = {job.runs[0].dataset.name: job.runs[0].source for job in jobs}
    return [
        f"note: {name}: {source.where}; planned for {source.train_rows:,} training rows of the official data"
        for name, source in sources.items()
        if NOT_FETCHED in source.where
    ]


def _grid_name(config: Config) -> str:
    epsilon = config.privacy.epsilon if STRATEGIES[config.strategy.name].private else math.inf
    return f"{config.dataset.name}/{config.strategy.name}/k{config.grid.k}/eps{exact(epsilon)}"


def _with_epsilon(combination: dict[str, str], compositions: "_Compositions") -> list[dict[str, str]]:
    """The paper's budgets for the data set, unless others were chosen."""
    if "privacy.epsilon" in combination:
        return [combination]
    config = compositions.of(combination).config
    epsilons = TASKS[config.dataset.name].epsilons
    if config.epsilons == "outer":
        epsilons = (epsilons[0], epsilons[-1])
    return [{**combination, "privacy.epsilon": exact(epsilon)} for epsilon in epsilons]


def _expanded(composition: "_Composition", times: int, fetch: bool) -> Iterator[Job]:
    overrides, config, given = composition
    axes = axes_of(config.strategy.name, config.grid)
    points = _wanted(grid.points(axes), config, given, axes)
    if not points:
        return
    whole, allocator = math.prod(map(len, axes.values())), config.privacy.allocator
    # Halving compares all candidates with each other, selection draws from all of them.
    if STRATEGIES[config.strategy.name].private and allocator != COMPOSITION and len(points) < whole:
        expected = f"all {whole} points of a grid for {allocator}, which compares them"
        remedy = f"leave out points and strategy.{', strategy.'.join(axes)}, or choose composition"
        raise invalid("privacy.allocator", expected, f"{len(points)} of them", remedy)
    first = specs(
        replace(config, strategy=replace(config.strategy, **points[0]), grid=replace(config.grid, times=times)),
        fetch=fetch,
    )
    root = Path(config.runs).absolute()
    for point in points:
        runs = tuple(run.at(point) for run in first)
        runs[0].build_strategy()
        settings = [f"strategy.{name}={value!r}" for name, value in point.items() if name not in given]
        settings += [f"grid.times={times}", f"runs={_quoted(root)}", "quiet=true"]
        yield Job((*overrides, *settings), runs, root, config.checkpoint.keep)


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


def _quoted(path: Path) -> str:
    """As Hydra's grammar wants a text that may hold anything but a reference."""
    if "${" in str(path):
        expected = "a folder without ${ in its name, which Hydra takes for a reference"
        raise invalid("runs", expected, path, "choose another runs=FOLDER, or work in another folder")
    return "'" + str(path).replace("'", "\\'") + "'"


class _Composition(NamedTuple):
    overrides: tuple[str, ...]
    config: Config  # what its grid sweeps may hold any value
    given: tuple[str, ...]  # names of what its grid sweeps but the choices set


class _Compositions:
    """Hydra takes a tenth of a second to compose, and a sweep has many pairs of k and epsilon: those are set later."""

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._kept: dict[tuple[str, ...], tuple[DictConfig, Config, tuple[str, ...]]] = {}
        self._refers = False  # whether some value is a reference to another

    def of(self, combination: Mapping[str, str]) -> _Composition:
        # A reference may be to k or epsilon: then they have to be there from the start.
        later = () if self._refers else ("grid.k", "privacy.epsilon")
        numbers = {key: value for key, value in combination.items() if key in later}
        others = tuple(f"{key}={value}" for key, value in combination.items() if key not in numbers)
        if others not in self._kept:
            composed = self._compose(others)
            if numbers and "${" in OmegaConf.to_yaml(composed):
                self._refers = True
                return self.of(combination)
            swept = STRATEGIES[composed.strategy.name].swept
            given = tuple(name for name in swept if not OmegaConf.is_missing(composed.strategy, name))
            config = parse(composed.copy(), dict.fromkeys(swept, 1.0))
            self._kept[others] = composed, config, given
        composed, config, given = self._kept[others]
        for key, value in numbers.items():
            OmegaConf.update(composed, key, value)  # checks its type
        k, epsilon = (OmegaConf.select(composed, key) for key in ("grid.k", "privacy.epsilon"))
        config = replace(config, grid=replace(config.grid, k=k), privacy=replace(config.privacy, epsilon=epsilon))
        check(config)
        return _Composition(tuple(f"{key}={value}" for key, value in combination.items()), config, given)


def by_grid(planned: Iterable[Job]) -> dict[str, list[Job]]:
    """Jobs by the folder of the grid that pays for them."""
    grids: dict[str, list[Job]] = {}
    for job in planned:
        grids.setdefault(str(job.runs[0].grid_folder), []).append(job)
    return grids

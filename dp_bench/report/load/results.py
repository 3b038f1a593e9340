"""What a grid search found: its points with their seeds, the best of them, and what is missing.

The best point is the paper's: the best mean over seeds of the best evaluation on the test set, among points of which
not every run diverged. A run that diverged counts with its best evaluation: leaving it out would flatter the point.
Where it has none, that cannot be helped, so a point with such a run is best only where every other has one. How many
seeds diverged is shown with every mean (`Point.seeds_in_words`), and the scorecard takes none of these for reproduced.
"""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dp_bench.errors import UserError
from dp_bench.experiment import grid
from dp_bench.experiment.config import TrainConfig
from dp_bench.experiment.record import RunRecord
from dp_bench.experiment.resolve import axes_of
from dp_bench.experiment.spec import RunSpec
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.guarantee import Guarantee, guarantee
from dp_bench.tasks import TASKS


class Key(NamedTuple):
    """Which grid: the place of a cell in the paper's tables."""

    dataset: str
    strategy: str
    k: int
    epsilon: float  # of the whole grid; infinite for a strategy that is not private


@dataclass(frozen=True)
class Point:
    """A configuration with the runs of its seeds that are done."""

    runs: tuple[RunRecord, ...]  # one per seed

    @property
    def hyperparameters(self) -> dict[str, float]:
        return self.runs[0].spec.swept

    @property
    def seeds(self) -> int:
        return len(self.runs)

    @property
    def diverged(self) -> int:
        return sum(run.status == "diverged" for run in self.runs)

    @property
    def without_value(self) -> int:
        """Seeds that no mean can count: no evaluation of theirs was finite."""
        return self.seeds - len(self.values())

    @property
    def seeds_in_words(self) -> str:
        words = f"{self.seeds}" + (f", {self.diverged} diverged" if self.diverged else "")
        return words + (f" ({self.without_value} without a value)" if self.without_value else "")

    @property
    def converged(self) -> bool:
        """Whether there is a run that did not diverge, and a value to speak of."""
        return self.diverged < self.seeds and bool(self.values())

    def values(self, which: str = "best") -> list[float]:
        """The metric of each seed; a value that is not finite is not a value."""
        values = [getattr(run.result, which).number for run in self.runs if run.result is not None]
        return [value for value in values if math.isfinite(value)]

    def mean(self, which: str = "best") -> float | None:
        values = self.values(which)
        return statistics.fmean(values) if values else None

    def sd(self, which: str = "best") -> float | None:
        values = self.values(which)
        return statistics.stdev(values) if len(values) > 1 else None


@dataclass(frozen=True)
class Grid:
    """A grid search, as far as it has been carried out."""

    key: Key
    axes: dict[str, tuple[float, ...]]
    points: tuple[Point, ...]  # those with at least a run that is done
    seeds: int  # how many runs each point should have
    unfinished: int  # runs begun and not done
    spec: RunSpec  # of its first run: but for point and seed, of all of them
    arithmetic: int | None  # the oldest of its finished runs', if any

    @property
    def allocation(self) -> Allocation | None:
        """The budget that its runs share; None without privacy."""
        return self.spec.allocation

    @property
    def private(self) -> bool:
        """Whether noise was added for a budget, whatever its epsilon proves."""
        return self.allocation is not None

    @cached_property
    def guarantee(self) -> Guarantee:
        """What its epsilon is worth; one without privacy claims none."""
        if self.allocation is None:
            return Guarantee(emulated=self.spec.accounted_rows != self.spec.source.train_rows, unproven="")
        return guarantee(self.allocation, self.spec.source.train_rows, self.arithmetic)

    @property
    def emulated(self) -> bool:
        """Whether steps and noise are those of a larger data set than the one at hand."""
        return self.guarantee.emulated

    @property
    def full_protocol(self) -> bool:
        """Whether it was trained as the paper trains, on real data: fewer rows, smaller batches and fewer epochs are
        shown with the published values, never judged."""
        paper, spec = TrainConfig(), self.spec
        same = (spec.train.batch_size, spec.train.epochs) == (paper.batch_size, paper.epochs)
        return same and spec.dataset.limit is None and not self.synthetic

    @property
    def synthetic(self) -> bool:
        return self.spec.source.synthetic

    @property
    def planned(self) -> int:
        """How many points should be there: of a search by selection, the winner."""
        return 1 if self.spec.winner_only else math.prod(len(values) for values in self.axes.values())

    @property
    def runs(self) -> int:
        return sum(point.seeds for point in self.points)

    @property
    def diverged(self) -> int:
        return sum(point.diverged for point in self.points)

    @property
    def missing(self) -> int:
        """Runs that the whole search would still have to make."""
        return self.planned * self.seeds - self.runs

    @property
    def searched(self) -> bool:
        """Whether every point was tried, so that its best point means something."""
        return len(self.points) == self.planned

    @property
    def complete(self) -> bool:
        return self.missing == 0

    @property
    def all_diverged(self) -> bool:
        return bool(self.points) and not any(point.converged for point in self.points)

    @cached_property
    def best(self) -> Point | None:
        """The first of the best points, or None if every run diverged or none is done."""
        converged = [point for point in self.points if point.converged]
        known = [point for point in converged if not point.without_value] or converged
        return max(known, key=lambda point: worth(self.key.dataset, point.mean()), default=None)

    def at(self, hyperparameters: dict[str, float]) -> Point | None:
        """The point that these values mean, if it was run."""
        try:
            wanted = {name: grid.snap(value, self.axes[name], name) for name, value in hyperparameters.items()}
        except UserError:  # a grid over other ranges
            return None
        return next((point for point in self.points if point.hyperparameters == wanted), None)


def worth(dataset: str, mean: float | None) -> float:
    """More is better; what diverged, and has no mean, is worse than all that did not."""
    if mean is None:
        return -math.inf
    return mean if TASKS[dataset].higher_is_better else -mean


Results = dict[Key, Grid]


def results(runs: Iterable[RunRecord], seeds: int) -> Results:
    """The grids in these runs, of one variant per data set. The runs are in the order that `collect` gives them."""
    found = {}
    for key, members in itertools.groupby(runs, key=key_of):
        mine = list(members)
        done = [run for run in mine if run.result is not None]
        found[key] = Grid(
            key,
            axes=axes_of(key.strategy, mine[0].spec.grid),
            points=tuple(Point(tuple(same)) for _, same in itertools.groupby(done, key=lambda run: run.spec.point)),
            seeds=seeds,
            unfinished=len(mine) - len(done),
            spec=mine[0].spec,
            # One run of an older arithmetic is enough: the grid's epsilon is of all of them.
            arithmetic=min((run.provenance.arithmetic for run in done), default=None),
        )
    return found


def most_seeds(runs: Iterable[RunRecord]) -> int:
    """How many runs the points with most of them have."""
    return max(Counter(run.spec.grid_folder / run.spec.point for run in runs).values())


def key_of(run: RunRecord) -> Key:
    return Key(run.spec.dataset.name, run.spec.strategy, run.spec.grid.k, run.spec.epsilon)


def number(value: float | None) -> float:
    """NaN for a value that is not there."""
    return math.nan if value is None else value

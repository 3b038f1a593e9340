"""What a grid search found: its points with their seeds, the best of them, and what is missing.

The best point is the paper's: the best mean over seeds of the best evaluation on the test set, among points of which
not every run diverged. A run that diverged counts with its best evaluation: leaving it out would flatter the point.
Where it has none, that cannot be helped, so a point with such a run is best only where every other has one. How many
seeds diverged stands beside every mean (`Point.seeds_in_words`), and the scorecard takes none of these for reproduced.
"""

import itertools
import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import pandas as pd

from dp_bench import grid
from dp_bench.accounting import PRIVATE_ACCOUNTANTS, Sampling
from dp_bench.budget import Allocation, Budget
from dp_bench.config import AlsoConfig, GridConfig
from dp_bench.errors import UserError
from dp_bench.spec import axes_of
from dp_bench.strategies import STRATEGIES
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

    hyperparameters: dict[str, float]
    folders: tuple[str, ...]  # one a seed, as are these:
    best: tuple[float, ...]
    final: tuple[float, ...]
    diverged: int

    @property
    def seeds(self) -> int:
        return len(self.folders)

    @property
    def without_value(self) -> int:
        """Seeds that no mean can count: no evaluation of theirs was finite."""
        return self.seeds - len(self.values())

    @property
    def seeds_in_words(self) -> str:
        words = str(self.seeds)
        words += f", {self.diverged} diverged" if self.diverged else ""
        return words + (f" ({self.without_value} without a value)" if self.without_value else "")

    @property
    def converged(self) -> bool:
        """Whether there is a run that did not diverge, and a value to speak of."""
        return self.diverged < self.seeds and bool(self.values())

    def values(self, which: str = "best") -> list[float]:
        """The metric of each seed; a value that is not finite is no value."""
        return [value for value in (self.best if which == "best" else self.final) if math.isfinite(value)]

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
    facts: dict[str, Any]  # the columns of its first run: what all of them share

    @cached_property
    def allocation(self) -> Allocation | None:
        """The budget that its runs share; None without privacy."""
        facts = self.facts
        if not facts["budgeted"]:
            return None
        return Allocation(
            Budget(self.key.epsilon, facts["delta"], facts["accountant"]),
            Sampling(facts["batch_size"], facts["accounted_rows"]),
            candidates=facts["candidates"],
            steps=facts["steps"],
            noise_multiplier=facts["noise_multiplier"],
            epsilon_grid=facts["epsilon_grid"],
            epsilon_run=facts["epsilon_run"],
        )

    @property
    def emulated(self) -> bool:
        """Whether steps and noise are those of a larger data set than the one at hand."""
        return bool(self.facts["accounted_rows"] != self.facts["train_rows"])

    @property
    def guaranteed(self) -> bool:
        """Whether its epsilon is one: counted by a proof that fits what was run, on the data that were used."""
        return self.facts["budgeted"] and not self.emulated and self.facts["accountant"] in PRIVATE_ACCOUNTANTS

    @property
    def planned(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

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

    @property
    def best(self) -> Point | None:
        """The first of the best points, or None where every run diverged or none is done."""
        converged = [point for point in self.points if point.converged]
        best = None
        for point in [point for point in converged if not point.without_value] or converged:
            if best is None or TASKS[self.key.dataset].better(_mean(point), _mean(best)):
                best = point
        return best

    def at(self, hyperparameters: dict[str, float]) -> Point | None:
        """The point that these values mean, if it was run."""
        try:
            wanted = {name: grid.snap(value, self.axes[name], name) for name, value in hyperparameters.items()}
        except UserError:  # a grid over other ranges
            return None
        return next((point for point in self.points if point.hyperparameters == wanted), None)


Results = dict[Key, Grid]


@dataclass(frozen=True)
class Section:
    """One protocol: for each data set one variant, with the NoDP runs that belong to it."""

    slug: str  # a folder's name; "" for the one that is compared first
    variants: dict[str, str]
    runs: pd.DataFrame
    results: Results


def sections(runs: pd.DataFrame, preferred: str | None = None) -> list[Section]:
    """The runs by protocol. First, for each data set, the preferred variant, else the default, else the fullest.

    An emulated data set comes first only where there is no other: its epsilons are no guarantee.
    """
    seeds = int(runs.groupby(["variant", "dataset", "strategy", "k", "epsilon", "point"])["seed"].nunique().max())
    found = {
        dataset: list(dict.fromkeys(rows.loc[rows["budgeted"], "variant"])) or list(dict.fromkeys(rows["variant"]))
        for dataset, rows in runs.groupby("dataset", sort=False)
    }
    main = {str(dataset): _main(runs, str(dataset), variants, preferred) for dataset, variants in found.items()}
    rest: dict[str, dict[str, str]] = {}
    for dataset, variants in found.items():
        for variant in variants:
            if variant != main[str(dataset)]:
                rest.setdefault(variant, {})[str(dataset)] = variant
    chosen = [("", main), *((variant, rest[variant]) for variant in sorted(rest))]
    made = [_section(slug, variants, runs, seeds) for slug, variants in chosen]
    placed = pd.concat([section.runs for section in made])["folder"]
    left = runs[~runs["folder"].isin(placed)]  # NoDP of variants that no private run has
    for variant in sorted(set(left["variant"])):
        datasets = left.loc[left["variant"] == variant, "dataset"]
        made.append(_section(f"{variant} (NoDP)", dict.fromkeys(datasets, variant), left, seeds))
    return made


def _main(runs: pd.DataFrame, dataset: str, variants: list[str], preferred: str | None) -> str:
    for wanted in (preferred, "default"):
        if wanted in variants:
            return str(wanted)
    mine = runs[(runs["dataset"] == dataset) & runs["variant"].isin(variants)]
    real = mine[mine["accounted_rows"] == mine["train_rows"]]
    counts = (mine if real.empty else real)["variant"].value_counts()
    return str(counts.index[0])


def _section(slug: str, variants: dict[str, str], runs: pd.DataFrame, seeds: int) -> Section:
    parts = []
    for dataset, variant in variants.items():
        rows = runs[runs["dataset"] == dataset]
        own = rows[rows["variant"] == variant]
        if own["budgeted"].all():  # there is no NoDP of just this variant
            public = without_private_choices(variant)
            own = pd.concat([own, rows[~rows["budgeted"] & (rows["variant"] == public)]])
        parts.append(own)
    chosen = pd.concat(parts)
    return Section(slug, variants, chosen, results(chosen, seeds))


def without_private_choices(variant: str) -> str:
    """The variant of the NoDP runs to compare with: its choices that mean something without privacy too."""
    apart = ("privacy.", "strategy.", "grid.times")
    return ",".join(choice for choice in variant.split(",") if not choice.startswith(apart)) or "default"


def _grid(plain: dict[str, Any]) -> GridConfig:
    return GridConfig(**{**plain, "also": AlsoConfig(**plain["also"])})


def results(runs: pd.DataFrame, seeds: int) -> Results:
    """The grids in these runs, of one variant a data set. Rows are in the order that `collect` gives them."""
    found = {}
    rows = cast(list[dict[str, Any]], runs.to_dict("records"))
    for key, members in itertools.groupby(rows, key=lambda r: Key(r["dataset"], r["strategy"], r["k"], r["epsilon"])):
        mine = list(members)
        done = [row for row in mine if row["status"] != "unfinished"]
        found[key] = Grid(
            key,
            axes=axes_of(key.strategy, _grid(json.loads(mine[0]["grid"]))),
            points=tuple(_point(rows) for _, rows in itertools.groupby(done, key=lambda row: row["point"])),
            seeds=seeds,
            unfinished=len(mine) - len(done),
            facts=mine[0],
        )
    return found


def _point(rows: Iterable[dict[str, Any]]) -> Point:
    seeds = list(rows)
    return Point(
        hyperparameters={name: seeds[0][name] for name in STRATEGIES[seeds[0]["strategy"]].swept},
        folders=tuple(row["folder"] for row in seeds),
        best=tuple(row["best"] for row in seeds),
        final=tuple(row["final"] for row in seeds),
        diverged=sum(row["status"] == "diverged" for row in seeds),
    )


def _mean(point: Point) -> float:
    mean = point.mean()
    return math.nan if mean is None else mean

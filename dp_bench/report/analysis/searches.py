"""What each strategy found under each way to pay for its search: whole grids only, as a part is not a search."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from dp_bench.paper.readings import SOUND, Reading
from dp_bench.privacy.allocators import COMPOSITION, HALVING, SELECTION
from dp_bench.report.analysis.resampling import winner_of
from dp_bench.report.analysis.shown_strategies import PUBLISHED
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.results import Grid, Key
from dp_bench.report.load.sections import results_of
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

# What a variant says of an allocator. Selection is known from pools: a search by itself tells nothing but its winner.
ALLOCATORS: dict[str, Reading] = {
    COMPOSITION: SOUND,
    HALVING: frozenset({f"privacy.allocator={HALVING}"}),
    SELECTION: frozenset({f"privacy.allocator={SELECTION}", "privacy.selection.pool=True"}),
}


class Found(NamedTuple):
    """What one search found, or what one by selection is expected to find."""

    grid: Grid
    mean: float
    low: float  # mean less a standard deviation over the seeds; of selection, where 95 % of its winners begin
    high: float

    @property
    def noise_multiplier(self) -> float:
        assert self.grid.allocation is not None
        return self.grid.allocation.noise_multiplier


class Searched(NamedTuple):
    """One strategy on one grid, by allocator."""

    key: Key
    found: dict[str, Found]

    @property
    def grids(self) -> list[Grid]:
        return [found.grid for found in self.found.values()]


def searches(collection: Collection) -> list[Searched]:
    """Budgets at which more was searched than the paper did: another allocator, or another strategy."""
    found: dict[Key, dict[str, Found]] = {}
    for name, reading in ALLOCATORS.items():
        for key, grid in results_of(collection.runs, reading).items():
            if grid.private and grid.searched and (one := _found(grid)) is not None:
                found.setdefault(key, {})[name] = one
    beyond = {_place(key) for key, by in found.items() if by.keys() - {COMPOSITION} or key.strategy not in PUBLISHED}
    order = {name: i for names in (TASKS, STRATEGIES) for i, name in enumerate(names)}
    keys = sorted(
        (key for key in found if _place(key) in beyond),
        key=lambda key: (order[key.dataset], key.k, key.epsilon, order[key.strategy]),
    )
    return [Searched(key, found[key]) for key in keys]


def by_place(found: list[Searched]) -> Iterator[list[Searched]]:
    """Those of one data set, k and epsilon together."""
    return (list(members) for _, members in itertools.groupby(found, key=lambda one: _place(one.key)))


def _place(key: Key) -> tuple[str, int, float]:
    return key.dataset, key.k, key.epsilon


def _found(grid: Grid) -> Found | None:
    allocation, best = grid.allocation, grid.best
    if allocation is not None and allocation.pool:
        winner = winner_of(grid)
        return Found(grid, winner.mean, *winner.interval) if winner is not None else None
    mean = best.mean() if best is not None else None
    if best is None or mean is None:
        return None
    sd = best.sd() or 0.0
    return Found(grid, mean, mean - sd, mean + sd)

"""What all grids of one data set spend together: the epsilon of a row is true of that row alone."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dp_bench.privacy.accounting import exact, rounded_up
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.calibration import total
from dp_bench.privacy.guarantee import guarantee

MEANING = (
    "The epsilon of a row holds if nothing else about the same data is released. Releasing results of several of these "
    "grids spends up to the total, not the largest of the rows."
)
_MOST_NAMES = 3


@dataclass(frozen=True)
class Listed:
    """A grid as a plan or a report lists it."""

    name: str
    dataset: str
    allocation: Allocation | None  # None: not private
    rows: int  # that batches are drawn from
    times: int  # how often its search is charged: several rows may share that
    seeds: int
    search: Hashable  # rows with an equal one, and times > 1, are charged to one budget

    @property
    def why_not(self) -> str | None:
        """Why it is not counted, if it is not."""
        if self.allocation is None:
            return "not private"
        return guarantee(self.allocation, self.rows).mark or None


@dataclass(frozen=True)
class Total:
    """What the private grids of a data set spend together, under RDP."""

    dataset: str
    grids: int
    delta: float  # the smallest of theirs
    deltas: int  # how many different ones there are
    epsilon: float
    with_seeds: float  # if every seed were charged
    not_counted: tuple[str, ...]
    left_out: int = 0  # runs that have spent, of which it is not known what

    def shown(self, epsilon: float) -> float | str:
        """One of its epsilons; in words where it is not all."""
        return f"at least {rounded_up(epsilon)}" if self.left_out else epsilon

    @property
    def omitted(self) -> str:
        """What the total leaves out, and why."""
        runs = "1 run" if self.left_out == 1 else f"{self.left_out:,} runs"
        unknown = f"{runs} begun of which it cannot be read what they spent" if self.left_out else ""
        return "; ".join(filter(None, (unknown, self.not_counted_words)))

    @property
    def delta_words(self) -> str:
        return exact(self.delta) + (", the smallest of their deltas" if self.deltas > 1 else "")

    @property
    def not_counted_words(self) -> str:
        more = len(self.not_counted) - _MOST_NAMES
        return ", ".join(self.not_counted[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def totals(listed: Iterable[Listed], left_out: Mapping[str, int] | None = None) -> list[Total]:
    """One for each data set of which a grid is private.

    `left_out`: how many runs of each data set have spent something unknown; "" for those of any data set.
    """
    by_dataset: dict[str, list[Listed]] = {}
    for grid in listed:
        by_dataset.setdefault(grid.dataset, []).append(grid)
    unknown = left_out or {}
    return [
        replace(_total(dataset, grids), left_out=unknown.get(dataset, 0) + unknown.get("", 0))
        for dataset, grids in by_dataset.items()
        if any(not grid.why_not for grid in grids)
    ]


def _total(dataset: str, listed: Sequence[Listed]) -> Total:
    counted = [grid for grid in listed if grid.why_not is None]
    allocations = [grid.allocation for grid in counted if grid.allocation is not None]
    shares = _shares(counted)
    deltas = {allocation.budget.delta for allocation in allocations}
    return Total(
        dataset,
        len(counted),
        min(deltas),
        len(deltas),
        total(allocations, shares),
        total(allocations, [share * grid.seeds for share, grid in zip(shares, counted, strict=True)]),
        tuple(f"{grid.name} ({grid.why_not})" for grid in listed if grid.why_not is not None),
    )


def _shares(counted: Sequence[Listed]) -> list[float]:
    """How much of its own charge each row adds: `times` rows of one search are charged together, once.

    More rows than that belong to several searches; the last of these is charged in full even if it lacks rows.
    """
    rows: dict[Hashable, int] = {}
    for grid in counted:
        rows[grid.search, grid.times] = rows.get((grid.search, grid.times), 0) + 1
    sharing = [rows[grid.search, grid.times] for grid in counted]
    return [1.0 if grid.times == 1 else math.ceil(n / grid.times) / n for grid, n in zip(counted, sharing, strict=True)]


def lines(listed: Sequence[Listed]) -> list[str]:
    """For a plan: one line for each data set with more than one private grid, and what it means."""
    found = [one for one in totals(listed) if one.grids > 1]
    each = [
        f"{one.dataset}: all {one.grids} private grids listed spend epsilon {rounded_up(one.epsilon)} together at "
        f"delta {one.delta_words} (RDP; {rounded_up(one.with_seeds)} with every seed charged)."
        + (f" Not counted: {one.not_counted_words}." if one.not_counted else "")
        for one in found
    ]
    return [*each, MEANING] if each else []

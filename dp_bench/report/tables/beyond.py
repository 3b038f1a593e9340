"""Beyond the paper: other ways to pay for a search, and strategies without a threshold to search for."""

from typing import Any

from dp_bench.privacy.allocators import SELECTION
from dp_bench.report import names
from dp_bench.report.analysis.searches import ALLOCATORS, Found, Searched, searches
from dp_bench.report.contents import shown
from dp_bench.report.load.collect import Collection
from dp_bench.report.table import Column, Table, printed

_WHOLE = "Grids of which every point was run; mean and standard deviation over the seeds of the best point."
_WINNERS = "Selection: the expected winner of a search, and the interval of 95 % of winners, from a pool of runs."


@shown("Results", 70, main_only=True)
def beyond_table(collection: Collection) -> Table | None:
    """One row per strategy, data set, k and epsilon."""
    rows = searches(collection)
    if not rows:
        return None
    used = [name for name in ALLOCATORS if any(name in row.found for row in rows)]
    return Table(
        "beyond",
        "Beyond the paper: the best of each whole grid under each way to pay for its search. ν is the noise "
        "multiplier that the budget allows; less noise is what a better allocator buys.",
        (
            *("data set", Column("k", "number"), Column("ε", "budget"), "strategy", Column("candidates", "number")),
            *(column for name in used for column in _columns(name)),
        ),
        [_row(row, used) for row in rows],
        notes=(_WHOLE, *([_WINNERS] if SELECTION in used else [])),
        grids=[row.grids for row in rows],
    )


def _columns(name: str) -> tuple[Column, ...]:
    value = Column("winner", "interval", name) if name == SELECTION else Column("metric", "mean and sd", name)
    expected = (Column("expected", "metric", name),) if name == SELECTION else ()
    return (Column("ν", "number", name), *expected, value)


def _row(row: Searched, used: list[str]) -> tuple[Any, ...]:
    key, grid = row.key, row.grids[0]
    allocation = grid.allocation
    assert allocation is not None
    place = (names.dataset(key.dataset), key.k, key.epsilon, names.strategy(key.strategy), allocation.candidates)
    return (*place, *(cell for name in used for cell in _cells(name, key.dataset, row.found.get(name))))


def _cells(name: str, dataset: str, found: Found | None) -> tuple[Any, ...]:
    if found is None:
        return (None,) * len(_columns(name))
    nu, mean = f"{found.noise_multiplier:.3f}", printed(dataset, found.mean)
    if name == SELECTION:
        return nu, mean, (printed(dataset, found.low), printed(dataset, found.high))
    sd = found.grid.best.sd() if found.grid.best else None
    return nu, (mean, printed(dataset, sd))

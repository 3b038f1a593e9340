"""What every private grid spends, and who says so.

RDP takes milliseconds and is always computed; the others take seconds to a quarter of a minute per grid, so they must
be asked for once, and are cached.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dp_bench.errors import UserError
from dp_bench.files.cached import NotCached
from dp_bench.privacy.accountants import ACCOUNTANTS, proven
from dp_bench.privacy.allocation import Allocation, Spent
from dp_bench.privacy.calibration import epsilon_by, seeds_charged, true_epsilon
from dp_bench.report.load.results import Grid, Results

_T = TypeVar("_T")


@dataclass(frozen=True)
class Account:
    """What a private grid spends. An opinion is None if its accountant takes long and was not asked for."""

    grid: Grid
    allocation: Allocation  # where a larger data set is emulated, with the data that batches were drawn from
    split: dict[str, float]  # query -> noise multiplier
    seeds: float | None  # epsilon of the grid if every seed were charged
    opinions: dict[str, Spent | None]

    @property
    def private(self) -> bool:
        return self.grid.guarantee.holds


def accounts(results: Results, asked: Collection[str] = ()) -> list[Account]:
    """The ledger: one account per private grid. `asked`: slow accountants to consult now; they are cached."""
    return [_account(grid, grid.allocation, asked) for grid in results.values() if grid.allocation is not None]


def _account(grid: Grid, allocation: Allocation, asked: Collection[str]) -> Account:
    if grid.emulated:
        spent = true_epsilon(allocation, rows := grid.spec.source.train_rows)
        allocation = replace(allocation.drawn_from(rows), epsilon_grid=spent.grid, epsilon_run=spent.run)
    own = allocation.budget.accountant
    opinions: dict[str, Spent | None] = {own: Spent(allocation.epsilon_grid, allocation.epsilon_run)}
    if proven(own) and not allocation.trials:  # of which RDP alone proves something
        for name in ACCOUNTANTS:
            if name != own and proven(name):
                opinions[name] = _if_known(epsilon_by, allocation, name, compute=name in asked)
    seeds = _if_known(seeds_charged, allocation, grid.seeds, compute=own in asked)
    return Account(grid, allocation, grid.spec.build_strategy().multipliers(), seeds, opinions)


def _if_known(count: Callable[..., _T], *question: Any, compute: bool) -> _T | None:
    """None: it takes long, and was neither asked for nor cached; or it finds the budget too extreme to count."""
    try:
        return count(*question, compute=compute)
    except (NotCached, UserError):
        return None

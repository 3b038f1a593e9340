"""What every private grid spends, and who says so.

RDP takes milliseconds and is always computed; the others take seconds to a quarter of a minute per grid, so they must
be asked for once, and are cached.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from dp_bench.errors import UserError
from dp_bench.files.cached import NotCached
from dp_bench.privacy.accountants import ACCOUNTANTS, proven
from dp_bench.privacy.allocation import Allocation, Spent
from dp_bench.privacy.calibration import epsilon_by, seeds_charged, true_epsilon
from dp_bench.report.load.results import Grid, Results


@dataclass(frozen=True)
class Account:
    """What a private grid spends. An opinion is None if its accountant takes long and was not asked for."""

    grid: Grid
    allocation: Allocation
    split: dict[str, float]  # query -> noise multiplier
    seeds: float | None  # epsilon of the grid if every seed were charged
    opinions: dict[str, Spent | None]

    @property
    def private(self) -> bool:
        return self.grid.guaranteed


def accounts(results: Results, asked: Collection[str] = ()) -> list[Account]:
    """The ledger: one account per private grid. `asked`: slow accountants to consult now; they are cached."""
    return [_account(grid, asked) for grid in results.values() if grid.private]


def _account(grid: Grid, asked: Collection[str]) -> Account:
    allocation = _true_allocation(grid)
    own = allocation.budget.accountant
    opinions: dict[str, Spent | None] = {own: Spent(allocation.epsilon_grid, allocation.epsilon_run)}
    if proven(own) and not allocation.trials:  # of which RDP alone proves something
        for accountant in ACCOUNTANTS:
            if accountant != own and proven(accountant):
                opinions[accountant] = _opinion(allocation, accountant, accountant in asked)
    return Account(grid, allocation, split_of(grid), _with_seeds(allocation, grid.seeds, own in asked), opinions)


def _true_allocation(grid: Grid) -> Allocation:
    """As the runs were: where a larger data set is emulated, with the data that batches were drawn from."""
    allocation = grid.allocation
    assert allocation is not None
    if not grid.emulated:
        return allocation
    rows = grid.spec.source.train_rows
    spent = true_epsilon(allocation, rows)
    return replace(allocation.drawn_from(rows), epsilon_grid=spent.grid, epsilon_run=spent.run)


def split_of(grid: Grid) -> dict[str, float]:
    """The noise multiplier of each query of the grid's strategy."""
    return grid.spec.build_strategy().multipliers()


def _opinion(allocation: Allocation, accountant: str, asked: bool) -> Spent | None:
    """None: it takes long, and was neither asked for nor cached; or it finds the budget too extreme to count."""
    try:
        return epsilon_by(allocation, accountant, compute=asked)
    except (NotCached, UserError):
        return None


def _with_seeds(allocation: Allocation, seeds: int, asked: bool) -> float | None:
    try:
        return seeds_charged(allocation, seeds, compute=asked)
    except (NotCached, UserError):
        return None

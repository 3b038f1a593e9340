"""Pools: what a search by selection is expected to find."""

from collections.abc import Sequence
from typing import Any

from dp_bench.privacy.guarantee import POOL
from dp_bench.report import names
from dp_bench.report.analysis.accounts import Account
from dp_bench.report.analysis.resampling import winner_of
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Grid
from dp_bench.report.table import Column, Table, printed
from dp_bench.tasks import TASKS

_NOTES = (
    f"NOT PRIVATE, {POOL.replace('epsilon', 'ε')}.",
    "Computed exactly, over the distribution of the number of trials, the candidates that they draw and the seeds of "
    "these. The interval holds 95 % of the winners. 'best wins': the share of searches whose winner is of the best "
    "candidate, by its mean; 'best is tried': the share that tries it at all; 'nothing': the share without a winner.",
)


@shown("Results", 16)
def expected_winners(accounts: Sequence[Account], dataset: str) -> Table | None:
    """One row per pool of a data set; None without one."""
    mine = [account.grid for account in accounts if account.grid.key.dataset == dataset and account.allocation.pool]
    if not mine:
        return None
    metric = TASKS[dataset].metric_column
    return Table(
        f"pool_{dataset}",
        f"{names.dataset(dataset)}: the winner that a search by selection is expected to release, from a pool of runs "
        "with its noise.",
        (
            *("strategy", Column("k", "number"), Column("ε budget", "budget"), "number of trials"),
            *(Column("E[K]", "number"), Column("seeds", "number"), Column(f"expected {metric}", "metric")),
            *(Column("95 % of winners", "interval"), Column("best candidate", "metric")),
            *(Column("best wins", "fraction"), Column("best is tried", "fraction"), Column("nothing", "fraction")),
        ),
        [_row(grid) for grid in mine],
        notes=_NOTES,
        grids=[[grid] for grid in mine],
    )


def _row(grid: Grid) -> tuple[Any, ...]:
    key, allocation = grid.key, grid.allocation
    assert allocation is not None
    assert allocation.trials is not None
    trials, winner = allocation.trials, winner_of(grid)
    place = (names.strategy(key.strategy), key.k, key.epsilon, trials.distribution, f"{trials.mean:g}")
    if winner is None or grid.best is None:
        return (*place, f"{len(grid.points)} of {grid.planned} points", *[None] * 6)
    low, high = (printed(key.dataset, end) for end in winner.interval)
    seeds = sorted({point.seeds for point in grid.points})
    return (
        *(*place, " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))),
        *(printed(key.dataset, winner.mean), (low, high), printed(key.dataset, grid.best.mean())),
        *(winner.best_wins, trials.chance_of(allocation.candidates), winner.nothing),
    )

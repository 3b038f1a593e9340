"""Grids that were searched by selection: what was tried of them, and what may be released."""

from collections.abc import Sequence

from dp_bench.privacy.calculator import WINNER
from dp_bench.report import names
from dp_bench.report.analysis.accounts import Account
from dp_bench.report.contents import shown
from dp_bench.report.table import Column, Table

_NOTE = (
    "How many candidates were tried is secret, and was kept nowhere: ε holds as long as nothing but the winner is "
    "released. The winner is the best trial by its best evaluation on the test set, which is public here, as in the "
    "paper."
)


@shown("Privacy", 47)
def selections(accounts: Sequence[Account], dataset: str) -> Table | None:
    """The distribution of the trials of each such grid of a data set; None without one."""
    mine = [a for a in accounts if a.grid.key.dataset == dataset and a.allocation.winner_only]
    if not mine:
        return None
    return Table(
        f"selection_{dataset}",
        f"{names.dataset(dataset)}: searched by selection. The distribution of the number of trials, the chance that "
        "the best candidate was among them, and what the budget pays for.",
        (
            *("strategy", Column("k", "number"), Column("ε budget", "budget"), "number of trials"),
            *(Column("expected", "number"), Column("best is tried", "number"), Column("ν", "number")),
            "may be released",
        ),
        [_row(account) for account in mine],
        notes=(_NOTE,),
        grids=[[account.grid] for account in mine],
    )


def _row(account: Account) -> tuple[object, ...]:
    key, allocation = account.grid.key, account.allocation
    trials = allocation.trials
    assert trials is not None
    return (
        *(names.strategy(key.strategy), key.k, key.epsilon, trials.distribution),
        *(f"{trials.mean:g}", f"{trials.chance_of(allocation.candidates):.2f}", f"{allocation.noise_multiplier:.4f}"),
        WINNER,
    )

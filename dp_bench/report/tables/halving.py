"""Grids that were searched by halving: what was trained of them."""

from collections.abc import Sequence

from dp_bench.report import names
from dp_bench.report.analysis.accounts import Account
from dp_bench.report.contents import shown
from dp_bench.report.table import Column, Table

_NOTE = (
    "Which candidates continue is chosen by the mean over the seeds of the best evaluation so far on the test set. "
    "That set is public here, as in the paper, so the choice costs nothing; for a private one it would need a budget "
    "of its own."
)


@shown("Privacy", 45)
def rungs(accounts: Sequence[Account], dataset: str) -> Table | None:
    """The schedule of each halved grid of a data set; None without one."""
    mine = [a for a in accounts if a.grid.key.dataset == dataset and a.allocation.rungs]
    if not mine:
        return None
    return Table(
        f"halving_{dataset}",
        f"{names.dataset(dataset)}: searched by halving. The candidates of each rung and the step that they were "
        "trained to; the budget pays for all of these steps.",
        (
            *("strategy", Column("k", "number"), Column("ε budget", "budget"), "candidates to step"),
            *(Column("steps", "count"), Column("runs' worth", "number"), Column("ν", "number")),
            Column("runs stopped at a rung", "number"),
        ),
        [_row(account) for account in mine],
        notes=(_NOTE,),
        grids=[[account.grid] for account in mine],
    )


def _row(account: Account) -> tuple[object, ...]:
    key, allocation = account.grid.key, account.allocation
    runs = [run for point in account.grid.points for run in point.runs]
    stopped = sum(run.result is not None and run.result.steps_charged < allocation.steps for run in runs)
    return (
        *(names.strategy(key.strategy), key.k, key.epsilon),
        ", ".join(f"{rung.candidates} to {rung.step:,}" for rung in allocation.rungs),
        *(allocation.compositions, f"{allocation.runs_worth:.1f} of {allocation.candidates}"),
        *(f"{allocation.noise_multiplier:.4f}", f"{stopped} of {len(runs)}"),
    )

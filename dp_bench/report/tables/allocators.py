"""Grids whose search was not paid for by composition: halved ones, selections, pools to resample selections from."""

from collections.abc import Callable, Sequence

from dp_bench.privacy.calculator import WINNER
from dp_bench.privacy.guarantee import POOL
from dp_bench.report import names
from dp_bench.report.analysis.accounts import Account
from dp_bench.report.analysis.resampling import winner_of
from dp_bench.report.contents import shown
from dp_bench.report.table import Column, Row, Table, budget_place, by_column, printed
from dp_bench.tasks import TASKS

_HALVING_NOTE = (
    "Which candidates continue is chosen by the mean over the seeds of the best evaluation so far on the test set. "
    "That set is public here, as in the paper, so the choice costs nothing; for a private one it would need a budget "
    "of its own."
)
_SELECTION_NOTE = (
    "How many candidates were tried is secret, and was kept nowhere: ε holds as long as nothing but the winner is "
    "released. The winner is the best trial by its best evaluation on the test set, which is public here, as in the "
    "paper."
)
_POOL_NOTES = (
    f"NOT PRIVATE, {POOL.replace('epsilon', 'ε')}.",
    "Computed exactly, over the distribution of the number of trials, the candidates that they draw and the seeds of "
    "these. The interval holds 95 % of the winners. 'best wins': the share of searches whose winner is of the best "
    "candidate, by its mean; 'best is tried': the share that tries it at all; 'nothing': the share without a winner.",
)


@shown("Privacy", 45)
def rungs(accounts: Sequence[Account], dataset: str) -> Table | None:
    """The schedule of each halved grid of a data set; None without one."""
    mine = [a for a in accounts if a.grid.key.dataset == dataset and a.allocation.rungs]
    caption = (
        "searched by halving. The candidates of each rung and the step that they were trained to; the budget pays for "
        "all of these steps."
    )
    return _table("halving", caption, mine, _halved, _HALVING_NOTE)


def _halved(account: Account) -> Row:
    allocation = account.allocation
    runs = [run for point in account.grid.points for run in point.runs]
    stopped = sum(run.result is not None and run.result.steps_charged < allocation.steps for run in runs)
    return {
        "candidates to step": ", ".join(f"{rung.candidates} to {rung.step:,}" for rung in allocation.rungs),
        Column("steps", "count"): allocation.compositions,
        Column("runs' worth", "number"): f"{allocation.runs_worth:.1f} of {allocation.candidates}",
        Column("ν", "number"): f"{allocation.noise_multiplier:.4f}",
        Column("runs stopped at a rung", "number"): f"{stopped} of {len(runs)}",
    }


@shown("Privacy", 47)
def selections(accounts: Sequence[Account], dataset: str) -> Table | None:
    """The distribution of the trials of each such grid of a data set; None without one."""
    mine = [a for a in accounts if a.grid.key.dataset == dataset and a.allocation.winner_only]
    caption = (
        "searched by selection. The distribution of the number of trials, the chance that the best candidate was among "
        "them, and what the budget pays for."
    )
    return _table("selection", caption, mine, _selected, _SELECTION_NOTE)


def _selected(account: Account) -> Row:
    allocation, trials = account.allocation, account.allocation.trials
    assert trials is not None
    return {
        "number of trials": trials.distribution,
        Column("expected", "number"): f"{trials.mean:g}",
        Column("best is tried", "number"): f"{trials.chance_of(allocation.candidates):.2f}",
        Column("ν", "number"): f"{allocation.noise_multiplier:.4f}",
        "may be released": WINNER,
    }


@shown("Results", 16)
def expected_winners(accounts: Sequence[Account], dataset: str) -> Table | None:
    """What a search by selection is expected to find: one row per pool of a data set; None without one."""
    mine = [a for a in accounts if a.grid.key.dataset == dataset and a.allocation.pool]
    caption = "the winner that a search by selection is expected to release, from a pool of runs with its noise."
    return _table("pool", caption, mine, _pooled, *_POOL_NOTES)


def _pooled(account: Account) -> Row:
    grid, allocation, dataset = account.grid, account.allocation, account.grid.key.dataset
    trials, winner, best = allocation.trials, winner_of(grid), grid.best
    assert trials is not None
    seeds = dict.fromkeys(end(point.seeds for point in grid.points) for end in (min, max)) if winner else ()
    return {
        "number of trials": trials.distribution,
        Column("E[K]", "number"): f"{trials.mean:g}",
        Column("seeds", "number"): " to ".join(map(str, seeds)) or f"{len(grid.points)} of {grid.planned} points",
        Column(f"expected {TASKS[dataset].metric_column}", "metric"): winner and printed(dataset, winner.mean),
        Column("95 % of winners", "interval"): winner and tuple(printed(dataset, end) for end in winner.interval),
        Column("best candidate", "metric"): winner and best and printed(dataset, best.mean()),
        Column("best wins", "fraction"): winner and winner.best_wins,
        Column("best is tried", "fraction"): winner and trials.chance_of(allocation.candidates),
        Column("nothing", "fraction"): winner and winner.nothing,
    }


def _table(
    name: str, caption: str, mine: Sequence[Account], row: Callable[[Account], Row], *notes: str
) -> Table | None:
    """Of one data set's grids, one row per grid, which begins with its place."""
    if not mine:
        return None
    dataset = mine[0].grid.key.dataset
    head, rows = by_column([{**budget_place(account.grid.key), **row(account)} for account in mine])
    caption = f"{names.dataset(dataset)}: {caption}"
    return Table(f"{name}_{dataset}", caption, head, rows, notes=notes, grids=[[account.grid] for account in mine])

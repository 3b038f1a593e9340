"""What the epsilons beside our results mean, in words: said of every table, every figure and every row of a CSV."""

from collections.abc import Iterable, Sequence

import pandas as pd

from dp_bench.accounting import PRIVATE_ACCOUNTANTS
from dp_bench.budget import truly
from dp_bench.report.results import Grid, Key, results
from dp_bench.report.table import in_ascii


def not_private(grids: Iterable[Grid]) -> str:
    """What a title must add where an epsilon is no guarantee."""
    private = [grid for grid in grids if grid.facts["budgeted"]]
    reasons = {"emulated" for grid in private if grid.emulated}
    reasons |= {grid.facts["accountant"] for grid in private} - set(PRIVATE_ACCOUNTANTS)
    return f" ({', '.join(sorted(reasons))}: not private)" if reasons else ""


def budget_words(grids: Iterable[Grid]) -> str:
    """What the epsilons beside these results mean."""
    private = [grid for grid in grids if grid.facts["budgeted"]]
    if not private:
        return "Nothing here is private."
    deltas = " or ".join(sorted({f"{grid.facts['delta']:g}" for grid in private}))
    words = f"ε is spent by the whole grid, at δ = {deltas}; seeds are not charged."
    return " ".join([words, *no_guarantees(private)])


def guarantees(rows: Iterable[Sequence[Grid]]) -> tuple[str, ...]:
    """What the epsilon of each row of a table means, by the grids of ours that are in it."""
    return tuple(budget_words(grids) if grids else "not run" for grids in rows)


def no_guarantees(grids: Iterable[Grid]) -> list[str]:
    """What must be said of the epsilons of these grids that are no guarantee, with the true ones."""
    found = []
    emulated = [grid for grid in grids if grid.facts["budgeted"] and grid.emulated]
    if emulated:
        rows = " or ".join(sorted({f"{grid.facts['train_rows']:,}" for grid in emulated}))
        found.append(
            "NOT PRIVATE, emulated: ε is the paper's setting, not a guarantee for this data. "
            f"{_true_epsilons(emulated)}Batches are drawn from {rows} examples."
        )
    if any(grid.facts["budgeted"] and grid.facts["accountant"] not in PRIVATE_ACCOUNTANTS for grid in grids):
        found.append("NOT PRIVATE: counted by rdp_wor, which proves no guarantee; for comparison with the paper only.")
    return found


def _true_epsilons(grids: Iterable[Grid]) -> str:
    spent: dict[float, list[float]] = {}
    for grid in grids:
        if grid.facts["accountant"] not in PRIVATE_ACCOUNTANTS:
            continue  # whose count is no epsilon
        assert grid.allocation is not None
        spent.setdefault(grid.key.epsilon, []).append(truly(grid.allocation, grid.facts["train_rows"]).grid)
    ranges = {e: sorted({f"{min(values):.2f}", f"{max(values):.2f}"}, key=float) for e, values in spent.items()}
    each = ", ".join(f"{' to '.join(ends)} where {epsilon:g} is set" for epsilon, ends in sorted(ranges.items()))
    return f"The true ε is {each}. " if each else ""


def with_guarantees(runs: pd.DataFrame) -> pd.DataFrame:
    """Every run with what the epsilon of its grid means: a file of runs may be passed on alone."""
    words = {
        (variant, *key): in_ascii(budget_words([grid]))
        for variant, rows in runs.groupby("variant", sort=False)
        for key, grid in results(rows, seeds=1).items()
    }
    places = runs[["variant", *Key._fields]].itertuples(index=False, name=None)
    return runs.assign(guarantee=[words[place] for place in places])

"""How many of the runs of each grid are there, which diverged, and what was not begun."""

from collections import Counter
from collections.abc import Iterable, Sequence

from dp_bench.paper import published
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import key_of_cell
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Grid, Key, Results
from dp_bench.report.table import Column, K, Row, Table, by_column, place


@shown("Completeness", 10)
def completeness_table(results: Results) -> Table:
    """One row per data set, strategy and k."""
    searches: dict[tuple[str, str, int], list[Grid]] = {}
    for key, grid in results.items():
        searches.setdefault((key.dataset, key.strategy, key.k), []).append(grid)
    return Table(
        "completeness",
        "The runs behind this report. Missing: what is left of the grids that were begun, with every seed.",
        *by_column([_row(grids) for grids in searches.values()]),
        grids=list(searches.values()),
    )


def _row(grids: Sequence[Grid]) -> Row:
    key, done, missing = grids[0].key, sum(grid.runs for grid in grids), sum(grid.missing for grid in grids)
    tried, planned = sum(len(grid.points) for grid in grids), sum(grid.planned for grid in grids)
    return {
        **{"data set": names.dataset(key.dataset), "strategy": names.strategy(key.strategy), K: key.k},
        "ε": ", ".join(names.epsilon(grid.key.epsilon) for grid in grids),
        Column("points tried", "number"): f"{tried:,} of {planned:,}",
        Column("runs done", "number"): f"{done:,} of {done + missing:,}",
        Column("missing", "count"): missing,
        Column("begun", "count"): sum(grid.unfinished for grid in grids),
        Column("diverged", "count"): sum(grid.diverged for grid in grids),
    }


@shown("Completeness", 20)
def divergences(results: Results) -> Table | None:
    """Which runs diverged and why, one row per grid; None if none did."""
    grids = [grid for grid in results.values() if grid.diverged]
    if not grids:
        return None
    return Table(
        "divergences",
        "Runs that diverged. Each was charged all its steps.",
        *by_column([_divergence(grid) for grid in grids]),
        grids=[[grid] for grid in grids],
    )


def _divergence(grid: Grid) -> Row:
    done = [run.result for point in grid.points for run in point.runs if run.result]
    counts = Counter(result.reason or "" for result in done if result.diverged)
    return {
        **place(grid.key),
        Column("diverged", "number"): f"{grid.diverged} of {grid.runs}",
        "reasons": "; ".join(f"{reason} ({count})" for reason, count in counts.most_common()),
    }


@shown("Completeness", 0, main_only=True)
def not_begun(results: Results) -> list[str]:
    """The paper's grids of which nothing is there, one line per data set and k."""
    planned: dict[tuple[str, int], list[Key]] = {}
    for cell in published.cells():
        planned.setdefault((cell.dataset, cell.k), []).append(key_of_cell(cell))
    lines = []
    for (dataset, k), keys in planned.items():
        absent = [key for key in keys if key not in results]
        if absent:
            none = f"none of the paper's {len(keys)} grids was begun"
            which = none if absent == keys else f"not begun: {_searches(absent)}"
            lines.append(f"{names.dataset(dataset)}, k = {k}: {which}.")
    return lines


def _searches(keys: Iterable[Key]) -> str:
    epsilons: dict[str, list[str]] = {}
    for key in keys:
        epsilons.setdefault(key.strategy, []).append(names.epsilon(key.epsilon))
    return "; ".join(f"{names.strategy(strategy)} at ε = {', '.join(each)}" for strategy, each in epsilons.items())

"""How many of the runs of each grid are there."""

from collections.abc import Sequence

from dp_bench.report import names
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Grid, Results
from dp_bench.report.table import Column, K, Row, Table, by_column


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

"""How many of the runs of each grid are there."""

from dp_bench.report import names
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Grid, Results
from dp_bench.report.table import Column, Table

_COLUMNS = (
    *("data set", "strategy", Column("k", "number"), "ε", Column("points tried", "number")),
    *(Column("runs done", "number"), Column("missing", "count"), Column("begun", "count"), Column("diverged", "count")),
)


@shown("Completeness", 10)
def completeness_table(results: Results) -> Table:
    """One row per data set, strategy and k."""
    searches: dict[tuple[str, str, int], list[Grid]] = {}
    for key, grid in results.items():
        searches.setdefault((key.dataset, key.strategy, key.k), []).append(grid)
    rows = []
    for (dataset, strategy, k), grids in searches.items():
        planned_points = sum(grid.planned for grid in grids)
        planned_runs = sum(grid.planned * grid.seeds for grid in grids)
        done, tried = sum(grid.runs for grid in grids), sum(len(grid.points) for grid in grids)
        rows.append(
            (
                *(names.dataset(dataset), names.strategy(strategy), k),
                ", ".join(names.epsilon(grid.key.epsilon) for grid in grids),
                f"{tried:,} of {planned_points:,}",
                f"{done:,} of {planned_runs:,}",
                planned_runs - done,
                sum(grid.unfinished for grid in grids),
                sum(grid.diverged for grid in grids),
            )
        )
    return Table(
        "completeness",
        "The runs behind this report. Missing: what is left of the grids that were begun, with every seed.",
        _COLUMNS,
        rows,
        grids=list(searches.values()),
    )

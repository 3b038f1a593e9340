"""How to get each number again: the command that runs a point."""

from dp_bench.experiment.rerun_command import command
from dp_bench.experiment.store import SPENDS_AGAIN
from dp_bench.report import names
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Grid, Results
from dp_bench.report.table import Table

# A whole sweep is run again by its own command, not point by point.
_WORTH_LISTING = 500


@shown("Completeness", 30)
def commands_table(results: Results) -> Table | None:
    """A command for every point and commit at which seeds of it were run."""
    rows, grids = [], []
    for grid in results.values():
        for point in grid.points:
            seeds: dict[str, list[int]] = {}
            for run in point.runs:
                seeds.setdefault(run.provenance.commit, []).append(run.spec.seed)
            for commit, members in seeds.items():
                again = command("run", point.runs[0].spec, members) + "  # spends the budget again" * _secret(grid)
                rows.append((_name(grid), names.commit(commit), again))
                grids.append([grid])
    if len(rows) > _WORTH_LISTING:
        return None
    return Table(
        "commands",
        "Every point that was run, and the command that runs it again.",
        ("grid", "commit", "command"),
        rows,
        notes=(
            "The same bits need the same commit (git checkout it first), the same versions and kind of processor; "
            "another version may draw other noise: the same within a run's own scatter.",
            *(
                [f"A run of a grid with seed=secure can only be run again as another release{SPENDS_AGAIN}."]
                if any(_secret(grid) for grid in results.values())
                else []
            ),
        ),
        grids=grids,
    )


def _secret(grid: Grid) -> bool:
    """Whether its noise cannot be drawn again."""
    return grid.private and grid.spec.secure


def _name(grid: Grid) -> str:
    key = grid.key
    return (
        f"{names.dataset(key.dataset)}, {names.strategy(key.strategy)}, k = {key.k}, ε = {names.epsilon(key.epsilon)}"
    )

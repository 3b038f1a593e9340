"""Whole grids over two hyperparameters."""

from dp_bench.paper import published
from dp_bench.privacy.accounting import exact
from dp_bench.report import names
from dp_bench.report.analysis.shown_strategies import PUBLISHED, of
from dp_bench.report.chart import Chart, HeatMap, Panel
from dp_bench.report.contents import shown
from dp_bench.report.epsilon_notes import not_private
from dp_bench.report.figures.common import several
from dp_bench.report.load.results import Grid, Point, Results, number
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS


@shown("Training", 30)
def heat_maps(results: Results, dataset: str, k: int) -> list[Chart]:
    """The whole grid of each strategy that searches both ρ and C, one panel per epsilon."""
    searched = dict.fromkeys(key.strategy for key in of(results, dataset, k))
    both = [name for name in searched if set(STRATEGIES[name].swept) == {"lr", "clip"}]
    found = [_heat_maps(results, dataset, k, name, f"_{name}" * (name not in PUBLISHED)) for name in both]
    return [chart for chart in found if chart is not None]


def _heat_maps(results: Results, dataset: str, k: int, strategy: str, suffix: str) -> Chart | None:
    mine = {key.epsilon: grid for key, grid in of(results, dataset, k).items() if key.strategy == strategy}
    panels = []
    for epsilon, grid in sorted(mine.items()):
        if len(grid.points) > 1:
            title = f"ε = {exact(epsilon)} for the grid{not_private([grid])}"
            panels.append(Panel(title, "$C$", "$ρ$", heat_map=_heat_map(grid), x_log=True, y_log=True))
    caption = f"{names.dataset(dataset)}, k = {k}: the grid of {names.strategy(strategy)}, "
    caption += f"{TASKS[dataset].metric_axis}, mean over seeds. Star: our best, ring: the published best, "
    caption += "hatched: every run diverged. "
    stem, grids = f"grid_{dataset}_k{k}{suffix}", list(mine.values())
    return several(stem, caption, panels, share_y=True, panel_size=(4.4, 3.2), grids=grids)


def _heat_map(grid: Grid) -> HeatMap:
    rows, columns = grid.axes["lr"], grid.axes["clip"]
    values: list[list[float | None]] = [[None] * len(columns) for _ in rows]
    diverged, marks = set(), {}

    def place(point: Point) -> tuple[int, int]:
        lr, clip = point.hyperparameters["lr"], point.hyperparameters["clip"]
        return rows.index(lr), columns.index(clip)

    for point in grid.points:
        row, column = place(point)
        if point.converged:
            values[row][column] = TASKS[grid.key.dataset].scale * number(point.mean())
        else:
            diverged.add((row, column))
    if grid.best:
        marks["our best"] = place(grid.best)
    named = published.best_point(*grid.key)
    if named and (theirs := grid.at(named)):
        marks["published best"] = place(theirs)
    better = TASKS[grid.key.dataset].higher_is_better
    return HeatMap(columns, rows, tuple(map(tuple, values)), frozenset(diverged), marks, better)

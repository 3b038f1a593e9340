"""Beyond the paper: what each strategy finds under each way to pay for its search."""

from dp_bench.report import names
from dp_bench.report.analysis.searches import ALLOCATORS, Searched, by_place, searches
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.contents import shown
from dp_bench.report.epsilon_notes import not_private
from dp_bench.report.load.collect import Collection
from dp_bench.tasks import TASKS

_APART = 0.22  # rows, between the marks of one strategy


@shown("Results", 71, main_only=True)
def beyond(collection: Collection) -> Chart | None:
    """One panel per data set, k and epsilon; one row per strategy, one mark per allocator."""
    found = searches(collection)
    if not found:
        return None
    used = [name for name in ALLOCATORS if any(name in one.found for one in found)]
    panels = tuple(_panel(rows, used) for rows in by_place(found))
    most = max(len(panel.y_names or ()) for panel in panels)
    caption = (
        "Beyond the paper: the best of each whole grid, by allocator. Bars: one standard deviation over the seeds; of "
        "selection, 95 % of the winners of a search."
    )
    size = (4.6, max(2.0, 1.0 + 0.26 * most))
    grids = [grid for one in found for grid in one.grids]
    return Chart("beyond", caption, panels, columns=min(2, len(panels)), panel_size=size, grids=grids)


def _panel(rows: list[Searched], used: list[str]) -> Panel:
    key = rows[0].key
    scale = TASKS[key.dataset].scale
    series = []
    for i, name in enumerate(used):
        marks = [(place, one.found[name]) for place, one in enumerate(rows) if name in one.found]
        if not marks:
            continue
        shift = (i - (len(used) - 1) / 2) * _APART
        series.append(
            Series(
                name,
                tuple(scale * found.mean for _, found in marks),
                tuple(place + shift for place, _ in marks),
                kind="points",
                look=f"epsilon{i}",
                low=tuple(scale * max(found.low, 0.0) for _, found in marks),
                high=tuple(scale * found.high for _, found in marks),
            )
        )
    title = f"{names.dataset(key.dataset)}, k = {key.k}, ε = {names.epsilon(key.epsilon)}"
    return Panel(
        title + not_private(grid for one in rows for grid in one.grids),
        TASKS[key.dataset].metric_axis,
        "",
        tuple(series),
        x_log=not TASKS[key.dataset].higher_is_better,
        y_names=tuple(names.strategy(one.key.strategy) for one in rows),
    )

"""Beyond the paper: what each strategy finds under each way to pay for its search."""

from collections.abc import Sequence

from dp_bench.privacy.allocators import COMPOSITION, HALVING, SELECTION
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
    """One panel per data set, k and epsilon; one row per strategy, one mark per allocator that tries all candidates."""
    caption = (
        "Beyond the paper: the best of each whole grid, by allocator. Bars: one standard deviation over the seeds."
    )
    return _chart("beyond", caption, searches(collection), (COMPOSITION, HALVING))


@shown("Results", 72, main_only=True)
def beyond_selection(collection: Collection) -> Chart | None:
    """Likewise, the winners of searches by selection, which may never try the best candidate."""
    caption = (
        "Selection: the winner that a search is expected to release, with the interval of 95 % of winners, beside the "
        "best of the whole grid under composition."
    )
    found = [one for one in searches(collection) if SELECTION in one.found]
    return _chart("beyond_selection", caption, found, (COMPOSITION, SELECTION))


def _chart(name: str, caption: str, found: list[Searched], allocators: Sequence[str]) -> Chart | None:
    shown_here = [one for one in found if any(allocator in one.found for allocator in allocators)]
    if not shown_here:
        return None
    panels = tuple(_panel(rows, allocators) for rows in by_place(shown_here))
    most = max(len(panel.y_names or ()) for panel in panels)
    grids = [one.found[allocator].grid for one in shown_here for allocator in allocators if allocator in one.found]
    size = (4.9, max(2.0, 1.0 + 0.26 * most))
    return Chart(name, caption, panels, columns=min(2, len(panels)), panel_size=size, grids=grids)


def _panel(rows: list[Searched], allocators: Sequence[str]) -> Panel:
    key = rows[0].key
    scale = TASKS[key.dataset].scale
    series = []
    for i, name in enumerate(allocators):
        marks = [(place, one.found[name]) for place, one in enumerate(rows) if name in one.found]
        if not marks:
            continue
        shift = (i - (len(allocators) - 1) / 2) * _APART
        series.append(
            Series(
                name,
                tuple(scale * found.mean for _, found in marks),
                tuple(place + shift for place, _ in marks),
                kind="points",
                look=f"epsilon{list(ALLOCATORS).index(name)}",
                low=tuple(scale * max(found.low, 0.0) for _, found in marks),
                high=tuple(scale * found.high for _, found in marks),
            )
        )
    title = f"{names.dataset(key.dataset)}, k = {key.k}, ε = {names.epsilon(key.epsilon)}"
    return Panel(
        title + not_private(one.found[name].grid for one in rows for name in allocators if name in one.found),
        TASKS[key.dataset].metric_axis,
        "",
        tuple(series),
        x_log=not TASKS[key.dataset].higher_is_better,
        y_names=tuple(names.strategy(one.key.strategy) for one in rows),
    )

"""How the best points learn."""

import math
from dataclasses import replace

from dp_bench.privacy.accounting import exact
from dp_bench.report import names
from dp_bench.report.analysis.shown_strategies import of
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.contents import shown
from dp_bench.report.epsilon_notes import not_private
from dp_bench.report.figures.common import curve, diverged_words, epsilons_of, several
from dp_bench.report.load.results import Results
from dp_bench.tasks import TASKS


@shown("Training", 10)
def learning_curves(results: Results, dataset: str, k: int) -> Chart | None:
    """The metric during training of the best point of every grid, one panel per epsilon."""
    mine = of(results, dataset, k)
    public = [grid for key, grid in mine.items() if math.isinf(key.epsilon)]
    panels = []
    for epsilon in epsilons_of(mine):
        grids = [grid for key, grid in mine.items() if key.epsilon == epsilon]
        series = [curve(grid, TASKS[dataset].metric, TASKS[dataset].scale) for grid in grids + public]
        found = tuple(one for one in series if one is not None)
        if found:
            title = f"ε = {exact(epsilon)} for the grid{not_private(grids)}"
            log = not TASKS[dataset].higher_is_better
            panels.append(Panel(title, "step", TASKS[dataset].metric_axis, found, y_log=log))
    caption = f"{names.dataset(dataset)}, k = {k}: learning curves of the best points; bands span the seeds. "
    if TASKS[dataset].higher_is_better and panels:
        # Where training begins tells nothing of the strategies, and would press their ends together.
        start = min(_lowest_after_a_tenth(series) for panel in panels for series in panel.series)
        panels = [replace(panel, y_from=start) for panel in panels]
        caption += "The axis begins at the lowest value after the first tenth of the steps. "
    caption += diverged_words(mine)
    return several(f"learning_{dataset}_k{k}", caption, panels, share_y=True, grids=list(mine.values()))


def _lowest_after_a_tenth(series: Series) -> float:
    return min(low for x, low in zip(series.x, series.low or series.y, strict=True) if x >= 0.1 * series.x[-1])

"""What each strategy reaches for which budget."""

from collections.abc import Sequence
from typing import Any

from dp_bench.paper import published
from dp_bench.report import names
from dp_bench.report.analysis.shown_strategies import of, private_strategies, without_privacy
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.contents import shown
from dp_bench.report.epsilon_notes import not_private
from dp_bench.report.figures.common import diverged_words
from dp_bench.report.load.results import Results, number
from dp_bench.tasks import TASKS


@shown("Results", 10)
def metric(results: Results, dataset: str, k: int) -> Chart | None:
    """The metric of the best points against epsilon, one line per strategy, with the baseline and published values."""
    mine = of(results, dataset, k)
    theirs = {(c.strategy, c.epsilon): c for c in published.cells() if (c.dataset, c.k) == (dataset, k)}
    series = []
    for strategy in private_strategies(mine):
        own = {key.epsilon: grid.best for key, grid in mine.items() if key.strategy == strategy and grid.best}
        means = [(epsilon, best.mean(), best.sd()) for epsilon, best in own.items()]
        if means:
            series.append(_bars(dataset, names.strategy(strategy), strategy, means))
    if not series:
        return None
    for strategy in private_strategies(mine):
        cells = [(e, c.mean, c.sd) for (s, e), c in theirs.items() if s == strategy and c.mean is not None]
        if cells:
            label = f"{names.strategy(strategy)}, published"
            series.append(_bars(dataset, label, strategy, cells, kind="points", hollow=True))
    for strategy, grid in without_privacy(mine).items():
        if grid and grid.best:
            value = TASKS[dataset].scale * number(grid.best.mean())
            series.append(Series(names.strategy(strategy), (0.0,), (value,), kind="level", look=strategy))
    epsilons = tuple(sorted({x for one in series if one.kind != "level" for x in one.x}))
    better = "Higher" if TASKS[dataset].higher_is_better else "Lower"
    caption = f"{names.dataset(dataset)}, k = {k}. {better} is better. Bars: one standard deviation over seeds. "
    if any(one.hollow for one in series):
        caption += "Filled: this project, hollow: published. "
    panel = Panel(
        f"{names.dataset(dataset)}, k = {k}" + not_private(mine.values()),
        "ε of the whole grid",
        TASKS[dataset].metric_axis,
        tuple(series),
        y_log=not TASKS[dataset].higher_is_better,
        x_ticks=epsilons,
    )
    caption += diverged_words(mine)
    return Chart(f"metric_{dataset}_k{k}", caption, (panel,), grids=list(mine.values()))


def _bars(
    dataset: str, label: str, look: str, points: Sequence[tuple[float, float | None, float | None]], **how: Any
) -> Series:
    """Of (epsilon, mean, standard deviation)."""
    unit = TASKS[dataset].scale
    x, y, error = zip(*((epsilon, number(mean), sd or 0.0) for epsilon, mean, sd in points), strict=True)
    return Series(
        label,
        x,
        tuple(unit * value for value in y),
        look=look,
        low=tuple(unit * (value - e) for value, e in zip(y, error, strict=True)),
        high=tuple(unit * (value + e) for value, e in zip(y, error, strict=True)),
        **({"kind": "bars"} | how),
    )

"""How far our results lie from the published ones."""

from collections.abc import Sequence

from dp_bench.privacy.accounting import exact
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import NEAR, Score
from dp_bench.report.analysis.shown_strategies import private_strategies
from dp_bench.report.chart import FAR, Chart, Panel, Series
from dp_bench.report.contents import shown
from dp_bench.report.epsilon_notes import not_private
from dp_bench.report.load.results import number


@shown("Scorecard", 20)
def deviations(scores: Sequence[Score], dataset: str) -> Chart | None:
    """How far each of our results lies from the published one, in pooled standard deviations."""
    mine = [s for s in scores if s.cell.dataset == dataset and s.deviations is not None]
    if not mine:
        return None
    strategies = private_strategies(())  # scores are of the paper's
    places = [(s, e) for s in strategies for e in sorted({m.cell.epsilon for m in mine if m.cell.strategy == s})]
    series = []
    for strategy in strategies:
        for k, hollow in ((5, False), (9, True)):
            found = [m for m in mine if (m.cell.strategy, m.cell.k) == (strategy, k)]
            if found:
                x = tuple(number(m.deviations) for m in found)
                y = tuple(float(places.index((strategy, m.cell.epsilon))) for m in found)
                label = f"{names.strategy(strategy)}, k = {k}"
                series.append(Series(label, x, y, kind="points", look=strategy, hollow=hollow))
    grids = [score.grid for score in mine if score.grid]
    panel = Panel(
        names.dataset(dataset) + not_private(grids),
        "ours less published, in pooled standard deviations (right: ours is better)",
        "",
        tuple(series),
        y_names=tuple(f"{names.strategy(strategy)}, ε = {exact(epsilon)}" for strategy, epsilon in places),
        x_band=(-NEAR, NEAR),
    )
    caption = f"{names.dataset(dataset)}: how far our results lie from the published ones, for every published value "
    caption += "that was run. Within the band a result counts as reproduced, unless seeds of it diverged. "
    caption += "Marks at an edge lie further out. " if any(abs(x) > FAR for one in series for x in one.x) else ""
    size = (6.4, max(2.0, 0.9 + 0.23 * len(places)))
    return Chart(f"deviations_{dataset}", caption, (panel,), panel_size=size, grids=grids)

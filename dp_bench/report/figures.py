"""The paper's figures and those it lacks, as plain data (`chart.Chart`); `draw` turns them into pictures."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dp_bench import published
from dp_bench.report import names
from dp_bench.report.chart import FAR, Chart, HeatMap, Panel, Series
from dp_bench.report.guarantee import budget_words, not_private
from dp_bench.report.numbers import read_metrics
from dp_bench.report.results import Grid, Key, Point, Results
from dp_bench.report.scorecard import NEAR, Score
from dp_bench.report.tables import PRIVATE
from dp_bench.report.trade_offs import TradeOff
from dp_bench.tasks import TASKS

SCALE = names.PRINTED_SCALE


def metric(results: Results, dataset: str, k: int) -> Chart | None:
    """The metric of the best points against epsilon, a line a strategy, with NoDP and the paper's values."""
    mine = _of(results, dataset, k)
    theirs = {(c.strategy, c.epsilon): c for c in published.cells() if (c.dataset, c.k) == (dataset, k)}
    series = []
    for strategy in PRIVATE:
        means = [(key.epsilon, g.best) for key, g in mine.items() if key.strategy == strategy and g.best]
        if means:
            series.append(_with_errors(names.strategy(strategy), strategy, means))
    if not series:
        return None
    for strategy in PRIVATE:
        cells = [(e, c.mean, c.sd or 0.0) for (s, e), c in theirs.items() if s == strategy and c.mean is not None]
        if cells:
            x, y, error = (tuple(column) for column in zip(*cells, strict=True))
            label = f"{names.strategy(strategy)}, published"
            series.append(_bars(label, strategy, x, y, error, kind="points", hollow=True))
    no_dp = mine.get(Key(dataset, "no_dp", k, math.inf))
    if no_dp and no_dp.best:
        value = SCALE * _number(no_dp.best.mean())
        series.append(Series("NoDP", (0.0,), (value,), kind="level", look="no_dp"))
    epsilons = tuple(sorted({x for one in series if one.kind != "level" for x in one.x}))
    better = "Higher" if TASKS[dataset].higher_is_better else "Lower"
    caption = f"{names.dataset(dataset)}, k = {k}. {better} is better. Bars: one standard deviation over seeds. "
    if any(one.hollow for one in series):
        caption += "Filled: this project, hollow: published. "
    panel = Panel(
        f"{names.dataset(dataset)}, k = {k}" + not_private(mine.values()),
        "ε of the whole grid",
        names.metric_axis(dataset),
        tuple(series),
        y_log=not TASKS[dataset].higher_is_better,
        x_ticks=epsilons,
    )
    caption += _diverged(mine) + budget_words(mine.values())
    return Chart(f"metric_{dataset}_k{k}", caption, (panel,))


def _with_errors(label: str, look: str, points: Sequence[tuple[float, Point]]) -> Series:
    x = tuple(epsilon for epsilon, _ in points)
    return _bars(label, look, x, [_number(p.mean()) for _, p in points], [p.sd() or 0.0 for _, p in points])


def _bars(label: str, look: str, x: Sequence[float], y: Sequence[float], error: Sequence[float], **how: Any) -> Series:
    return Series(
        label,
        tuple(x),
        tuple(SCALE * value for value in y),
        look=look,
        low=tuple(SCALE * (value - e) for value, e in zip(y, error, strict=True)),
        high=tuple(SCALE * (value + e) for value, e in zip(y, error, strict=True)),
        **({"kind": "bars"} | how),
    )


def deviations(scores: Sequence[Score], dataset: str) -> Chart | None:
    """How far each of our results lies from the published one, in pooled standard deviations."""
    mine = [s for s in scores if s.cell.dataset == dataset and s.deviations is not None]
    if not mine:
        return None
    places = [(s, e) for s in PRIVATE for e in sorted({m.cell.epsilon for m in mine if m.cell.strategy == s})]
    series = []
    for strategy in PRIVATE:
        for k, hollow in ((5, False), (9, True)):
            found = [m for m in mine if (m.cell.strategy, m.cell.k) == (strategy, k)]
            if found:
                x = tuple(_number(m.deviations) for m in found)
                y = tuple(float(places.index((strategy, m.cell.epsilon))) for m in found)
                label = f"{names.strategy(strategy)}, k = {k}"
                series.append(Series(label, x, y, kind="points", look=strategy, hollow=hollow))
    panel = Panel(
        names.dataset(dataset) + not_private(score.grid for score in mine if score.grid),
        "ours less published, in pooled standard deviations (right: ours is better)",
        "",
        tuple(series),
        y_names=tuple(f"{names.strategy(strategy)}, ε = {epsilon:g}" for strategy, epsilon in places),
        x_band=(-NEAR, NEAR),
    )
    caption = f"{names.dataset(dataset)}: how far our results lie from the published ones, for every published value "
    caption += "that was run. Within the band a result counts as reproduced, unless seeds of it diverged. "
    caption += "Marks at an edge lie further out. " if any(abs(x) > FAR for one in series for x in one.x) else ""
    caption += budget_words(score.grid for score in mine if score.grid)
    return Chart(f"deviations_{dataset}", caption, (panel,), panel_size=(6.4, max(2.0, 0.9 + 0.23 * len(places))))


def learning_curves(results: Results, root: Path, dataset: str, k: int) -> Chart | None:
    """The metric during training of the best point of every grid, a panel an epsilon."""
    mine = _of(results, dataset, k)
    no_dp = [grid for key, grid in mine.items() if math.isinf(key.epsilon)]
    panels = []
    for epsilon in _epsilons(mine):
        grids = [grid for key, grid in mine.items() if key.epsilon == epsilon]
        series = [_curve(grid, root, TASKS[dataset].metric, SCALE) for grid in grids + no_dp]
        found = tuple(one for one in series if one is not None)
        if found:
            title = f"ε = {epsilon:g} for the grid{not_private(grids)}"
            log = not TASKS[dataset].higher_is_better
            panels.append(Panel(title, "step", names.metric_axis(dataset), found, y_log=log))
    caption = f"{names.dataset(dataset)}, k = {k}: learning curves of the best points; bands span the seeds. "
    if TASKS[dataset].higher_is_better and panels:
        # Where training begins tells nothing of the strategies, and would press their ends together.
        start = min(_lowest_after_a_tenth(series) for panel in panels for series in panel.series)
        panels = [replace(panel, y_from=start) for panel in panels]
        caption += "The axis begins at the lowest value after the first tenth of the steps. "
    caption += _diverged(mine) + budget_words(mine.values())
    return _several(f"learning_{dataset}_k{k}", caption, panels, share_y=True)


def _lowest_after_a_tenth(series: Series) -> float:
    return min(low for x, low in zip(series.x, series.low or series.y, strict=True) if x >= 0.1 * series.x[-1])


def trajectories(results: Results, root: Path, dataset: str, k: int) -> Chart | None:
    """C_t and ρ_t of the adaptive strategies' best points."""
    mine = _of(results, dataset, k)
    looks = {epsilon: f"epsilon{i}" for i, epsilon in enumerate(_epsilons(mine))}
    panels = []
    for column, symbol in (("clip", "$C_t$"), ("lr", "$ρ_t$")):
        for strategy in ("online", "fixed_quantile"):
            grids = [grid for key, grid in mine.items() if key.strategy == strategy]
            curves = [
                _curve(grid, root, column, 1, f"ε = {grid.key.epsilon:g}", looks[grid.key.epsilon]) for grid in grids
            ]
            series = tuple(curve for curve in curves if curve is not None)
            if series:
                panels.append(Panel(names.strategy(strategy) + not_private(grids), "step", symbol, series, y_log=True))
    caption = f"{names.dataset(dataset)}, k = {k}: how the threshold Cₜ and the step size ρₜ of the best points "
    caption += f"move; bands span the seeds. {budget_words(mine.values())}"
    return _several(f"trajectories_{dataset}_k{k}", caption, panels)


def _curve(grid: Grid, root: Path, column: str, scale: float, label: str = "", look: str = "") -> Series | None:
    """A column of metrics.csv of a grid's best point: mean over the seeds that got as far, and their range."""
    if grid.best is None:
        return None
    by_step: dict[float, list[float]] = {}
    for folder in grid.best.folders:
        rows = read_metrics(root, folder) or {}
        for step, value in zip(rows.get("step", ()), rows.get(column, ()), strict=False):
            if math.isfinite(value):
                by_step.setdefault(step, []).append(scale * value)
    if not by_step:
        return None
    steps = sorted(by_step)
    return Series(
        label or names.strategy(grid.key.strategy),
        tuple(steps),
        tuple(math.fsum(by_step[step]) / len(by_step[step]) for step in steps),
        look=look or grid.key.strategy,
        low=tuple(min(by_step[step]) for step in steps),
        high=tuple(max(by_step[step]) for step in steps),
    )


def heat_maps(results: Results, dataset: str, k: int) -> Chart | None:
    """The whole grid of FixedThreshold, a panel an epsilon."""
    mine = {key.epsilon: grid for key, grid in _of(results, dataset, k).items() if key.strategy == "fixed_threshold"}
    panels = []
    for epsilon, grid in sorted(mine.items()):
        if len(grid.points) > 1:
            title = f"ε = {epsilon:g} for the grid{not_private([grid])}"
            panels.append(Panel(title, "$C$", "$ρ$", heat_map=_heat_map(grid), x_log=True, y_log=True))
    caption = f"{names.dataset(dataset)}, k = {k}: the grid of FixedThreshold, {names.metric_axis(dataset)}, mean over "
    caption += "seeds. Star: our best, ring: the published best, hatched: every run diverged. "
    return _several(
        f"grid_{dataset}_k{k}", caption + budget_words(mine.values()), panels, share_y=True, panel_size=(4.4, 3.2)
    )


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
            values[row][column] = SCALE * _number(point.mean())
        else:
            diverged.add((row, column))
    if grid.best:
        marks["our best"] = place(grid.best)
    named = published.best_point(*grid.key)
    if named and (theirs := grid.at(named)):
        marks["published best"] = place(theirs)
    better = TASKS[grid.key.dataset].higher_is_better
    return HeatMap(columns, rows, tuple(map(tuple, values)), frozenset(diverged), marks, better)


def trade_off(found: TradeOff, name: str) -> Chart:
    """The clipping trade-off: similarity of sanitised and true gradient against C, a line a step."""
    by_step: dict[int, list[tuple[float, float]]] = {}
    for t, clip, cosine in zip(*(found.columns[column] for column in ("t", "C", "cosine")), strict=True):
        by_step.setdefault(int(t), []).append((clip, cosine))
    series = tuple(
        Series(f"t = {t}", tuple(c for c, _ in points), tuple(cosine for _, cosine in points), look=f"epsilon{i}")
        for i, (t, points) in enumerate((t, sorted(by_step[t])) for t in sorted(by_step))
    )
    title = names.dataset(found.dataset)
    panel = Panel(
        f"{title} (not private: it reads true gradients)",
        "clipping threshold $C$",
        "cosine similarity",
        series,
        x_log=True,
    )
    caption = "The choice of the clipping threshold trades bias, at small C, for noise, at large C. Cosine similarity "
    caption += "of the sanitised and the true gradient during training. NOT PRIVATE: it reads true gradients."
    return Chart(name, f"{title}. {caption} {found.measured_on}", (panel,))


def _diverged(grids: Results) -> str:
    """What a figure of best points cannot show."""
    gone = [
        f"{names.strategy(key.strategy)} at ε = {names.epsilon(key.epsilon)}"
        for key, grid in grids.items()
        if grid.points and grid.best is None
    ]
    return f"Not shown, as every run diverged: {', '.join(gone)}. " if gone else ""


def _several(name: str, caption: str, panels: Sequence[Panel], **how: Any) -> Chart | None:
    if not panels:
        return None
    how = {"panel_size": (3.6, 2.5)} | how
    return Chart(name, caption, tuple(panels), columns=min(2, len(panels)), **how)


def _of(results: Results, dataset: str, k: int) -> Results:
    return {key: grid for key, grid in results.items() if (key.dataset, key.k) == (dataset, k)}


def _epsilons(results: Results) -> list[float]:
    return sorted({key.epsilon for key in results if not math.isinf(key.epsilon)})


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def charts(results: Results, scores: Sequence[Score], root: Path) -> list[Chart]:
    """Every figure that these results have data for, but those of the privacy page."""
    found: list[Chart | None] = []
    for dataset in dict.fromkeys(key.dataset for key in results):
        ks = sorted({key.k for key in results if key.dataset == dataset})
        found += [metric(results, dataset, k) for k in ks]
        found.append(deviations(scores, dataset))
        found += [learning_curves(results, root, dataset, k) for k in ks]
        found += [trajectories(results, root, dataset, k) for k in ks]
        found += [heat_maps(results, dataset, k) for k in ks]
    return [chart for chart in found if chart is not None]

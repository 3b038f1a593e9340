"""What several figures share."""

import math
from collections.abc import Sequence
from typing import Any

from dp_bench.report import names
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.load.results import Grid, Results


def diverged_words(grids: Results) -> str:
    """What a figure of best points cannot show."""
    gone = [
        f"{names.strategy(key.strategy)} at ε = {names.epsilon(key.epsilon)}"
        for key, grid in grids.items()
        if grid.points and grid.best is None
    ]
    return f"Not shown, as every run diverged: {', '.join(gone)}. " if gone else ""


def several(name: str, caption: str, panels: Sequence[Panel], **how: Any) -> Chart | None:
    if not panels:
        return None
    how = {"panel_size": (3.6, 2.5)} | how
    return Chart(name, caption, tuple(panels), columns=min(2, len(panels)), **how)


def epsilons_of(results: Results) -> list[float]:
    return sorted({key.epsilon for key in results if not math.isinf(key.epsilon)})


def curve(grid: Grid, column: str, scale: float, label: str = "", look: str = "") -> Series | None:
    """A column of the metrics of a grid's best point: mean over the seeds that got as far, and their range."""
    if grid.best is None:
        return None
    by_step: dict[float, list[float]] = {}
    for run in grid.best.runs:
        rows = run.columns()
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

"""The best hyperparameters of each grid and what they reach, in the paper's layout."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from dp_bench.report import names
from dp_bench.report.analysis.shown_strategies import of, private_strategies, without_privacy
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Grid, Key, Results
from dp_bench.report.table import Column, Marked, Table, mean_and_sd, printed, printed_pair
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

NOT_RUN = "n.r."
_INCOMPLETE, _SEEDS_DIVERGED = "†", "‡"


@shown("Results", 11)
def best_table(results: Results, dataset: str, k: int) -> Table:
    """One row per epsilon, the strategies side by side."""
    mine = of(results, dataset, k)
    strategies = private_strategies(mine)
    epsilons = sorted({key.epsilon for key in mine if STRATEGIES[key.strategy].private})
    rows = []
    for epsilon in epsilons:
        cells = (_cells(mine.get(Key(dataset, name, k, epsilon)), name) for name in strategies)
        rows.append((names.epsilon(epsilon), *itertools.chain(*cells)))
    by_epsilon = [[grid for key, grid in mine.items() if key.epsilon == epsilon] for epsilon in epsilons]
    return Table(
        f"best_{dataset}_k{k}",
        f"{names.dataset(dataset)}, k = {k}: the best hyperparameters of each grid and their "
        f"{TASKS[dataset].metric_words}, mean and standard deviation over {_seeds(mine.values())}; {_baselines(mine)}.",
        ("ε", *(column for name in strategies for column in _columns(name, dataset))),
        rows,
        notes=tuple(_marks(rows, mine.values())),
        grids=by_epsilon,
        remarks=tuple(_remark(grids) for grids in by_epsilon),
        in_paper=True,
    )


def _columns(strategy: str, dataset: str) -> list[Column]:
    group = names.strategy(strategy)
    axes = [Column(names.axis(strategy, axis), "hyperparameter", group) for axis in STRATEGIES[strategy].swept]
    return [*axes, Column(TASKS[dataset].metric_column, "metric", group), Column("std dev", "metric", group)]


def _cells(grid: Grid | None, strategy: str) -> list[Any]:
    """The cells of one strategy in one row."""
    others = [None] * (len(STRATEGIES[strategy].swept) + 1)
    if grid is None or not grid.points:
        return [NOT_RUN, *others]
    incomplete = "" if grid.complete else _INCOMPLETE
    best = grid.best
    if best is None:
        return [Marked("-", incomplete), *["-" for _ in others]]
    mark = incomplete + (_SEEDS_DIVERGED if best.diverged else "")
    mean, sd = printed(grid.key.dataset, best.mean()), printed(grid.key.dataset, best.sd())
    return [*best.hyperparameters.values(), Marked(mean, mark, opens=str(grid.spec.grid_folder)), sd]


def _remark(grids: Sequence[Grid]) -> str:
    """What the marks in a row say, in words."""
    incomplete = [names.strategy(grid.key.strategy) for grid in grids if grid.points and not grid.complete]
    words = [f"Points or seeds are missing: {', '.join(incomplete)}."] if incomplete else []
    words += [f"Seeds diverged: {diverged}."] if (diverged := _diverged_seeds(grids)) else []
    return " ".join(words)


def _marks(rows: Iterable[Sequence[Any]], grids: Iterable[Grid]) -> list[str]:
    cells = [cell if isinstance(cell, Marked) else Marked(cell) for row in rows for cell in row]
    notes = {
        "-": "-: every run of the grid diverged.",
        NOT_RUN: f"{NOT_RUN}: not run.",
        _INCOMPLETE: f"{_INCOMPLETE}: points or seeds of the grid are missing, so its best may be another.",
        _SEEDS_DIVERGED: f"{_SEEDS_DIVERGED}: seeds of the point diverged; each counts with its best evaluation, if it "
        f"has one. {_diverged_seeds(grids)}.",
    }
    found = {cell.value for cell in cells} | {letter for cell in cells for letter in cell.mark}
    return [note for mark, note in notes.items() if mark in found]


def _diverged_seeds(grids: Iterable[Grid]) -> str:
    return "; ".join(
        f"{names.strategy(grid.key.strategy)} at ε = {names.epsilon(grid.key.epsilon)}: of {grid.best.seeds_in_words}"
        for grid in grids
        if grid.best and grid.best.diverged
    )


def _seeds(grids: Iterable[Grid]) -> str:
    counts = {grid.best.seeds for grid in grids if grid.best}
    if not counts:
        return "seeds"
    few, many = min(counts), max(counts)
    return names.plural(many, "seed") if few == many else f"{few} to {many} seeds"


def _baselines(mine: Results) -> str:
    return "; ".join(_baseline(names.strategy(name), name, grid) for name, grid in without_privacy(mine).items())


def _baseline(label: str, strategy: str, grid: Grid | None) -> str:
    if grid is None or grid.best is None:
        return f"{label} was not run" if grid is None or not grid.points else f"every run of {label} diverged"
    dataset, best = grid.key.dataset, grid.best
    value = mean_and_sd(printed_pair(dataset, best.mean(), best.sd()))
    return f"best {label} for {names.point(strategy, best.hyperparameters)} ({value})"

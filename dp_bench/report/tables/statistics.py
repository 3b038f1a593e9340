"""Strategies compared over all cells of a data set, what the seeds of each cell say, and what choosing on the test set
adds."""

import itertools
from functools import partial

from dp_bench.report import names
from dp_bench.report.analysis.shown_strategies import private_strategies
from dp_bench.report.analysis.statistics import Comparison, compare, holm, mean_interval
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Grid, Key, Point, Results, worth
from dp_bench.report.table import EPSILON, Column, K, Row, Table, by_column, printed
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

_BEST, _LAST = "best on the test set", "last step"


@shown("Statistics", 20)
def statistics_table(results: Results, dataset: str) -> Table | None:
    """One row per cell, by k and epsilon, as one reads across strategies."""
    order = list(STRATEGIES)
    mine = [(key, grid) for key, grid in results.items() if key.dataset == dataset and grid.best]
    mine.sort(key=lambda item: (item[0].k, item[0].epsilon, order.index(item[0].strategy)))
    if not mine:
        return None
    return Table(
        f"statistics_{dataset}",
        f"{names.dataset(dataset)}: {TASKS[dataset].metric_words} of the best point of each grid, at the checkpoint "
        "that is best on the test set (the paper's choice: optimistic, and not charged) and at the last step.",
        *by_column([_row(key, grid.best) for key, grid in mine if grid.best]),
        notes=(
            "Intervals for the mean, from five seeds on: bootstrap percentiles, widened as Student's t is for so few; "
            "of five normal values they hold the true mean in about 92 % of cases.",
        ),
        grids=[[grid] for _, grid in mine],
    )


def _row(key: Key, best: Point) -> Row:
    unit, interval = partial(printed, key.dataset), mean_interval(best.values())
    return {
        **{K: key.k, EPSILON: key.epsilon, "strategy": names.strategy(key.strategy)},
        Column("seeds", "number"): best.seeds_in_words,
        Column("mean", "metric", _BEST): unit(best.mean()),
        Column("std dev", "metric", _BEST): unit(best.sd()),
        Column("interval", "interval", _BEST): interval and tuple(map(unit, interval)),
        Column("mean", "metric", _LAST): unit(best.mean("final")),
        Column("std dev", "metric", _LAST): unit(best.sd("final")),
        Column("gain by selection", "metric"): unit(_selection_effect(best, key.dataset)),
    }


def _selection_effect(point: Point, dataset: str) -> float | None:
    best, final = point.mean("best"), point.mean("final")
    if best is None or final is None or len(point.values("final")) < len(point.values("best")):
        return None
    return worth(dataset, best) - worth(dataset, final)


@shown("Statistics", 10)
def comparisons_table(results: Results) -> Table | None:
    """Every pair of strategies on every data set, over all cells that both have."""
    found: list[tuple[str, str, str, Comparison]] = []
    for dataset in dict.fromkeys(key.dataset for key in results):
        for a, b in itertools.combinations(private_strategies(results), 2):
            comparison = compare(_pairs(results, dataset, a, b))
            if comparison is not None:
                found.append((dataset, a, b, comparison))
    if not found:
        return None
    corrected = holm([comparison.p for *_, comparison in found])
    rows: list[Row] = [
        {
            "data set": names.dataset(dataset),
            "strategies": f"{names.strategy(a)} – {names.strategy(b)}",
            Column("ahead in", "number"): f"{c.ahead} of {c.cells}",
            Column("difference", "metric"): printed(dataset, c.difference),
            Column("95 % interval", "interval"): c.interval and tuple(printed(dataset, end) for end in c.interval),
            Column("superiority", "fraction"): c.superiority,
            Column("p (Holm)", "probability"): p,
        }
        for (dataset, a, b, c), p in zip(found, corrected, strict=True)
    ]
    return Table(
        "comparisons",
        "Strategies compared over all k and ε of a data set. Positive differences favour the first; "
        f"{'; '.join(sorted({TASKS[dataset].metric_words for dataset, *_ in found}))}.",
        *by_column(rows),
        notes=(
            "Superiority: the chance that a run of the first beats one of the second in the same cell; it counts every "
            "cell alike, while a few cells with large differences move the mean. p, of the superiority: seeds are "
            "unpaired; the values of each cell are dealt anew to the two strategies, in all cells together (a "
            "stratified permutation test); corrected by Holm over all rows, and empty where the "
            "cells are too few. The best point of each grid was chosen on these same seeds, which flatters the larger "
            "grids. A seed without a value, and a grid of which every run diverged, lose to any number; "
            "such cells are not part of the mean difference and its interval, which is Welch's.",
        ),
        grids=[[g for key, g in results.items() if key.dataset == dataset] for dataset, *_ in found],
    )


def _pairs(results: Results, dataset: str, a: str, b: str) -> list[tuple[list[float], list[float]]]:
    pairs = []
    for key, grid in results.items():
        other = results.get(key._replace(strategy=b))
        if (key.dataset, key.strategy) == (dataset, a) and other and (grid.best or other.best):
            pairs.append((_with_losses(grid), _with_losses(other)))
    return pairs


def _with_losses(grid: Grid) -> list[float]:
    """What the best point's seeds are worth; of a grid that diverged, what that is."""
    if grid.best is None:
        return [worth(grid.key.dataset, None)] * grid.seeds if grid.points else []
    values = [*grid.best.values(), *[None] * grid.best.without_value]
    return [worth(grid.key.dataset, value) for value in values]

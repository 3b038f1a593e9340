"""What the runs can carry: statistics of each cell, strategies compared over all cells, and what is missing."""

import itertools
import math

from dp_bench.report import names
from dp_bench.report.guarantee import budget_words, guarantees
from dp_bench.report.results import Grid, Key, Point, Results
from dp_bench.report.statistics import Comparison, compare, holm, mean_interval
from dp_bench.report.table import Table
from dp_bench.report.tables import PRIVATE, metric_words
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS


def statistics_table(results: Results, dataset: str) -> Table:
    """Every cell of a data set: what its seeds say, and what choosing the checkpoint on the test set adds."""
    rows, grids = [], []
    for key, grid in _in_order(results, dataset):
        best = grid.best
        if best is None:
            continue
        grids.append([grid])
        interval = mean_interval(best.values())
        rows.append(
            (
                str(key.k),
                names.epsilon(key.epsilon),
                names.strategy(key.strategy),
                best.seeds_in_words,
                *_mean_and_sd(best, "best"),
                f"{names.metric(interval[0])} to {names.metric(interval[1])}" if interval else "",
                *_mean_and_sd(best, "final"),
                _selection_effect(best, dataset),
            )
        )
    return Table(
        f"statistics_{dataset}",
        f"{names.dataset(dataset)}: {metric_words(dataset)} of the best point of each grid, at the checkpoint that is "
        "best on the test set (the paper's choice: optimistic, and not charged) and at the last step.",
        ("k", "ε", "strategy", "seeds", "mean", "std dev", "interval", "mean", "std dev", "gain by selection"),
        tuple(rows),
        (("", 4), ("best on the test set", 3), ("last step", 2), ("", 1)),
        notes=(
            "Intervals for the mean, from five seeds on: bootstrap percentiles, widened as Student's t is for so few; "
            "of five normal values they hold the true mean in about 92 % of cases. "
            + budget_words(grid for _, grid in _in_order(results, dataset)),
        ),
        text_columns=frozenset({2}),
        guarantees=guarantees(grids),
    )


def _in_order(results: Results, dataset: str) -> list[tuple[Key, Grid]]:
    """The grids of a data set by k and epsilon, as one reads across strategies."""
    order = {name: i for i, name in enumerate(STRATEGIES)}
    mine = [(key, grid) for key, grid in results.items() if key.dataset == dataset]
    return sorted(mine, key=lambda item: (item[0].k, item[0].epsilon, order[item[0].strategy]))


def _mean_and_sd(point: Point, which: str) -> tuple[str, str]:
    return names.metric(point.mean(which)), names.metric(point.sd(which))


def _selection_effect(point: Point, dataset: str) -> str:
    best, final = point.mean("best"), point.mean("final")
    if best is None or final is None or len(point.values("final")) < len(point.values("best")):
        return ""
    return names.metric(best - final if TASKS[dataset].higher_is_better else final - best)


def comparisons_table(results: Results) -> Table:
    """Every pair of strategies on every data set, over all cells that both have."""
    found: list[tuple[str, str, str, Comparison]] = []
    for dataset in dict.fromkeys(key.dataset for key in results):
        for a, b in itertools.combinations(PRIVATE, 2):
            pairs = _pairs(results, dataset, a, b)
            comparison = compare(pairs, TASKS[dataset].higher_is_better)
            if comparison is not None:
                found.append((dataset, a, b, comparison))
    corrected = holm([comparison.p for *_, comparison in found])
    rows = tuple(
        (
            names.dataset(dataset),
            f"{names.strategy(a)} – {names.strategy(b)}",
            f"{c.ahead} of {c.cells}",
            names.metric(c.difference),
            f"{names.metric(c.interval[0])} to {names.metric(c.interval[1])}" if c.interval else "",
            f"{c.superiority:.2f}",
            "" if p is None else ("< 0.001" if p < 0.001 else f"{p:.3f}"),
        )
        for (dataset, a, b, c), p in zip(found, corrected, strict=True)
    )
    return Table(
        "comparisons",
        "Strategies compared over all k and ε of a data set. Positive differences favour the first; accuracy in "
        "percentage points, mse ×10².",
        ("data set", "strategies", "ahead in", "difference", "95 % interval", "superiority", "p (Holm)"),
        rows,
        notes=(
            "Superiority: the chance that a run of the first beats one of the second in the same cell; it counts every "
            "cell alike, while a few cells with large differences move the mean. p, of the superiority: seeds are "
            "unpaired; the values of each cell are dealt anew to the two strategies, in all cells at once (a "
            "stratified permutation test); corrected by Holm over all rows, and empty where the "
            "cells are too few. The best point of each grid was chosen on these same seeds, which flatters the larger "
            "grids. A seed without a value, and a grid of which every run diverged, lose to any number; "
            "such cells are no part of the mean difference and of its interval, which is Welch's.",
            budget_words(results.values()),
        ),
        text_columns=frozenset({0, 1}),
        guarantees=guarantees([g for key, g in results.items() if key.dataset == dataset] for dataset, *_ in found),
    )


def _pairs(results: Results, dataset: str, a: str, b: str) -> list[tuple[list[float], list[float]]]:
    pairs = []
    for key, grid in results.items():
        other = results.get(key._replace(strategy=b))
        if (key.dataset, key.strategy) == (dataset, a) and other and (grid.best or other.best):
            pairs.append((_with_losses(grid), _with_losses(other)))
    return pairs


def _with_losses(grid: Grid) -> list[float]:
    """The best point's values, worse than any number where a seed has none, or where the whole grid diverged."""
    worst = -math.inf if TASKS[grid.key.dataset].higher_is_better else math.inf
    if grid.best is None:
        return [worst] * grid.seeds if grid.points else []
    return grid.best.values() + [worst] * grid.best.without_value


def completeness_table(results: Results) -> Table:
    """How much of each search is there: a row a data set, strategy and k."""
    rows = []
    searches = _by_search(results)
    for (dataset, strategy, k), members in searches:
        planned_points = sum(grid.planned for grid in members)
        planned_runs = sum(grid.planned * grid.seeds for grid in members)
        done, tried = sum(grid.runs for grid in members), sum(len(grid.points) for grid in members)
        rows.append(
            (
                names.dataset(dataset),
                names.strategy(strategy),
                str(k),
                ", ".join(names.epsilon(grid.key.epsilon) for grid in members),
                f"{tried:,} of {planned_points:,}",
                f"{done:,} of {planned_runs:,}",
                f"{planned_runs - done:,}",
                f"{sum(grid.unfinished for grid in members):,}",
                f"{sum(grid.diverged for grid in members):,}",
            )
        )
    columns = ("data set", "strategy", "k", "ε", "points tried", "runs done", "missing", "begun", "diverged")
    caption = "The runs behind this report. Missing: what is left of the grids that were begun, with every seed."
    return Table(
        "completeness",
        caption,
        columns,
        tuple(rows),
        notes=(budget_words(results.values()),),
        text_columns=frozenset({0, 1, 3}),
        guarantees=guarantees(members for _, members in searches),
    )


def _by_search(results: Results) -> list[tuple[tuple[str, str, int], list[Grid]]]:
    groups: dict[tuple[str, str, int], list[Grid]] = {}
    for key, grid in results.items():
        groups.setdefault((key.dataset, key.strategy, key.k), []).append(grid)
    return list(groups.items())

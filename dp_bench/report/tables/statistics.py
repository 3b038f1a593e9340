"""What the seeds of each cell say, and what choosing the checkpoint on the test set adds."""

from functools import partial

from dp_bench.report import names
from dp_bench.report.analysis.statistics import mean_interval
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Key, Point, Results
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
    return best - final if TASKS[dataset].higher_is_better else final - best

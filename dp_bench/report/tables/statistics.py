"""What the seeds of each cell say, and what choosing the checkpoint on the test set adds."""

from dp_bench.report import names
from dp_bench.report.analysis.statistics import mean_interval
from dp_bench.report.contents import shown
from dp_bench.report.load.results import Point, Results
from dp_bench.report.table import Column, Table, printed
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

_BEST, _LAST = "best on the test set", "last step"
_COLUMNS = (
    *(Column("k", "number"), Column("ε", "budget"), Column("strategy"), Column("seeds", "number")),
    *(Column("mean", "metric", _BEST), Column("std dev", "metric", _BEST), Column("interval", "interval", _BEST)),
    *(Column("mean", "metric", _LAST), Column("std dev", "metric", _LAST)),
    Column("gain by selection", "metric"),
)


@shown("Statistics", 20)
def statistics_table(results: Results, dataset: str) -> Table | None:
    """One row per cell, by k and epsilon, as one reads across strategies."""
    order = {name: i for i, name in enumerate(STRATEGIES)}
    mine = [(key, grid) for key, grid in results.items() if key.dataset == dataset]
    mine.sort(key=lambda item: (item[0].k, item[0].epsilon, order[item[0].strategy]))
    found = [(key, grid.best) for key, grid in mine if grid.best]
    if not found:
        return None
    rows = []
    for key, best in found:
        numbers = [best.mean("best"), best.sd("best"), *(mean_interval(best.values()) or (None, None))]
        mean, sd, low, high, *last = (
            printed(dataset, value) for value in (*numbers, best.mean("final"), best.sd("final"))
        )
        place = (key.k, key.epsilon, names.strategy(key.strategy), best.seeds_in_words)
        interval = None if low is None else (low, high)
        rows.append((*place, mean, sd, interval, *last, printed(dataset, _selection_effect(best, dataset))))
    return Table(
        f"statistics_{dataset}",
        f"{names.dataset(dataset)}: {TASKS[dataset].metric_words} of the best point of each grid, at the checkpoint "
        "that is best on the test set (the paper's choice: optimistic, and not charged) and at the last step.",
        _COLUMNS,
        rows,
        notes=(
            "Intervals for the mean, from five seeds on: bootstrap percentiles, widened as Student's t is for so few; "
            "of five normal values they hold the true mean in about 92 % of cases.",
        ),
        grids=[[grid] for _, grid in mine if grid.best],
    )


def _selection_effect(point: Point, dataset: str) -> float | None:
    best, final = point.mean("best"), point.mean("final")
    if best is None or final is None or len(point.values("final")) < len(point.values("best")):
        return None
    return best - final if TASKS[dataset].higher_is_better else final - best

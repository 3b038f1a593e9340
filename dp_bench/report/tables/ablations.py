"""Where Online's gain comes from: its updates frozen one by one, and strategies that search as few candidates."""

from collections.abc import Sequence
from typing import NamedTuple

from dp_bench.paper.readings import FROZEN, FROZEN_RATE, FROZEN_THRESHOLD, SOUND, Reading
from dp_bench.report import names
from dp_bench.report.contents import shown
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.results import Grid, Key
from dp_bench.report.load.sections import results_of
from dp_bench.report.table import EPSILON, Column, K, Row, Table, by_column, printed_pair
from dp_bench.tasks import TASKS


class Contender(NamedTuple):
    """A column: a strategy under a reading."""

    heading: str
    strategy: str
    reading: Reading = SOUND


CONTENDERS = (
    Contender("Online", "online"),
    Contender("threshold frozen", "online", FROZEN_THRESHOLD),
    Contender("rate frozen", "online", FROZEN_RATE),
    Contender("both frozen", "online", FROZEN),
    Contender("FixedLine", "fixed_line"),
    Contender("AUTO-S", "auto_s"),
    Contender("FixedThreshold", "fixed_threshold"),
)
_ABLATED = CONTENDERS[1:6]  # a table without any of these would only repeat the results


@shown("Results", 60, main_only=True)
def ablations_table(collection: Collection) -> Table | None:
    """What makes the difference: one row per data set, k and epsilon of which an ablation was run."""
    by_reading = {c.reading: results_of(collection.runs, c.reading) for c in CONTENDERS}
    ablated = {
        key._replace(strategy="online") for c in _ABLATED for key in by_reading[c.reading] if key.strategy == c.strategy
    }
    order = list(TASKS)
    keys = sorted(ablated, key=lambda key: (order.index(key.dataset), key.k, key.epsilon))
    rows = [
        [by_reading[contender.reading].get(key._replace(strategy=contender.strategy)) for contender in CONTENDERS]
        for key in keys
    ]
    if not rows:
        return None
    return Table(
        "ablations",
        "What makes the difference: Online, Online with its threshold, its rate or both frozen at their first values, "
        "and strategies that search a line of the grid instead of a square; best point of those run.",
        *by_column([_row(key, grids) for key, grids in zip(keys, rows, strict=True)]),
        notes=(
            "Both frozen is FixedLine that pays for a second query which nothing uses. Points beyond the paper's best "
            "and its neighbors may be missing: the Experiments part says how many of each grid were run.",
        ),
        grids=[[grid for grid in grids if grid] for grids in rows],
    )


def _row(key: Key, grids: Sequence[Grid | None]) -> Row:
    found = zip(CONTENDERS, grids, strict=True)
    values: Row = {Column(c.heading, "mean and sd"): _value(key.dataset, grid) for c, grid in found}
    return {"data set": names.dataset(key.dataset), K: key.k, EPSILON: key.epsilon, **values}


def _value(dataset: str, grid: Grid | None) -> object:
    if grid is None:
        return None
    if grid.best is None:
        return "diverged" if grid.points else None
    return printed_pair(dataset, grid.best.mean(), grid.best.sd())

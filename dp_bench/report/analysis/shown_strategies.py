"""Which strategies a table or figure shows: the paper's, run or not, and whichever others were run."""

import math
from collections.abc import Iterable

from dp_bench.paper import published
from dp_bench.report.load.results import Grid, Key, Results
from dp_bench.strategies import STRATEGIES

PUBLISHED = frozenset(cell.strategy for cell in published.cells())


def private_strategies(keys: Iterable[Key]) -> list[str]:
    shown = PUBLISHED | {key.strategy for key in keys}
    return [name for name in STRATEGIES if name in shown and STRATEGIES[name].private]


def without_privacy(mine: Results) -> dict[str, Grid | None]:
    """The grids that cost no budget, by strategy."""
    run = {key.strategy: grid for key, grid in mine.items() if math.isinf(key.epsilon)}
    return {
        name: run.get(name) for name in STRATEGIES if name in PUBLISHED | run.keys() if not STRATEGIES[name].private
    }


def of(results: Results, dataset: str, k: int) -> Results:
    return {key: grid for key, grid in results.items() if (key.dataset, key.k) == (dataset, k)}

"""What a search by selection would have found, from a pool of runs: exactly, without simulating searches.

A pool is a whole grid, trained at the noise of a selection with several seeds. A trial draws a candidate uniformly, and
one of its runs uniformly in place of fresh randomness. Order the runs from the worst to the best, and let F_i be the
probability that a trial is no better than the i-th. All of K trials are no better than it with probability F_i^K, so
with G(x) = E[x^K] over the secret K, the i-th run wins with probability G(F_i) - G(F_(i-1)); none does with G(0), which
is P[K = 0]. Runs that rank the same share what they win by their weights, as the first of equals wins.
"""

import itertools
import math
from dataclasses import dataclass

from dp_bench.privacy.selection import Trials
from dp_bench.report.load.results import Grid
from dp_bench.tasks import TASKS
from dp_bench.tasks.base import ranked

_ENDS = (0.025, 0.975)


@dataclass(frozen=True)
class PoolRun:
    """One run of a pool."""

    point: str
    value: float  # of its best evaluation; NaN if it has none
    diverged: bool
    weight: float  # the probability that a trial draws it


@dataclass(frozen=True)
class Winner:
    """What the winner of a search is, over the draws of the number of trials, of candidates and of their runs.

    Expectation and interval are given that there is a winner with a value.
    """

    mean: float
    interval: tuple[float, float]  # 95 % of winners
    best_wins: float  # the probability that the winner is of the pool's best candidate
    nothing: float  # the probability that no winner has a value: without a trial, or with runs that have none


def pool_of(grid: Grid) -> list[PoolRun]:
    """The runs of a grid, one trial's weight over all of them."""
    found = []
    for point in grid.points:
        for run in point.runs:
            value = run.result.best.number if run.result else math.nan
            weight = 1 / (len(grid.points) * point.seeds)
            found.append(PoolRun(run.spec.point, value, run.status == "diverged", weight))
    return found


def resampled(pool: list[PoolRun], trials: Trials, best: str, higher_is_better: bool) -> Winner:
    """The winner of searches that draw from this pool; `best`: the point of its best candidate."""
    wins = winning(pool, trials, higher_is_better)
    valued = sorted((run.value, chance) for run, chance in zip(pool, wins, strict=True) if math.isfinite(run.value))
    found = math.fsum(chance for _, chance in valued)
    return Winner(
        math.fsum(value * chance for value, chance in valued) / found if found else math.nan,
        (_quantile(valued, _ENDS[0] * found), _quantile(valued, _ENDS[1] * found)),
        math.fsum(chance for run, chance in zip(pool, wins, strict=True) if run.point == best),
        max(0.0, 1 - found),
    )


def winning(pool: list[PoolRun], trials: Trials, higher_is_better: bool) -> list[float]:
    """The probability of each run to win."""

    def rank(place: int) -> tuple[bool, float]:
        return ranked(pool[place].diverged, pool[place].value, higher_is_better)

    chances = [0.0] * len(pool)
    below = 0.0
    for _, members in itertools.groupby(sorted(range(len(pool)), key=rank, reverse=True), key=rank):
        equals = list(members)
        weight = math.fsum(pool[place].weight for place in equals)
        upto = min(1.0, below + weight)
        wins = trials.generating(upto) - trials.generating(below)
        for place in equals:
            chances[place] = wins * pool[place].weight / weight
        below = upto
    return chances


def _quantile(valued: list[tuple[float, float]], probability: float) -> float:
    reached = 0.0
    for value, chance in valued:
        reached += chance
        if reached >= probability:
            return value
    return valued[-1][0] if valued else math.nan


def winner_of(grid: Grid) -> Winner | None:
    """The expected winner of a pool; None while a candidate is missing, or none has a value."""
    allocation, best = grid.allocation, grid.best
    if allocation is None or allocation.trials is None or best is None or not grid.searched:
        return None
    higher = TASKS[grid.key.dataset].higher_is_better
    return resampled(pool_of(grid), allocation.trials, best.runs[0].spec.point, higher)

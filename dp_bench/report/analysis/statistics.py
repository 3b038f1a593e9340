"""What five seeds can carry: means with honest intervals, and differences pooled over many cells.

Seeds share initial weights only, so strategies are compared unpaired. A single cell has five values a side; no p-value
is taken from that. All cells of a data set together are another matter: under the null hypothesis that two strategies
do equally well, the values of a cell could as well have been dealt to either of them, in every cell independently, and
that can be done in far more ways than are needed to judge.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = Sequence[float]
Pair = tuple[Values, Values]  # the seeds of two strategies in one cell

CONFIDENCE = 0.95
_FEWEST = 5  # values from which an interval is given: of two, one of 95 % would cover the truth in every other case
RESAMPLES = 9999
# All resamples of up to so many values are listed; of more, RESAMPLES are drawn.
_LISTED = 6
# With fewer distinct deals than this, no p-value is given at all.
_ENOUGH_DEALS = 10_000
_SEED = 20240214  # the same report from the same runs


@dataclass(frozen=True)
class Comparison:
    """Strategy A against B over the cells of a data set. Positive: A is better."""

    cells: int
    ahead: int  # cells in which A's mean is the better one
    difference: float | None  # of the metric, mean over the cells in which all seeds have a value
    interval: tuple[float, float] | None  # None: the values are too few
    superiority: float  # chance that a run of A beats one of B in the same cell, ties counted half
    p: float | None  # None: the cells are too few


def mean_interval(values: Values) -> tuple[float, float] | None:
    """A bootstrap interval for the mean; None for fewer than five values, which a resampled mean cannot do justice to.

    Percentiles of the resampled means, widened for the small sample (the percentiles are those at which the interval
    of normal data would be Student's). Of five values it is nearly their whole range, and no less is honest.
    """
    n = len(values)
    if n < _FEWEST:
        return None
    means = np.asarray(values, dtype=float)[_resamples(n)].mean(axis=1)
    low, high = np.quantile(means, [_tail(n), 1 - _tail(n)])
    return float(low), float(high)


def compare(pairs: Sequence[Pair]) -> Comparison | None:
    """A against B over the given cells, those with two values or more on both sides; None if there are none.

    Of the values more is better.
    """
    usable = [(np.asarray(a, dtype=float), np.asarray(b, dtype=float)) for a, b in pairs if min(len(a), len(b)) > 1]
    if not usable:
        return None
    whole = [(a, b) for a, b in usable if np.isfinite(a).all() and np.isfinite(b).all()]
    superiority = float(np.mean([_superiority(a, b) for a, b in usable]))
    freedom = min((sum(len(side) - 1 for side in sides) for sides in zip(*whole, strict=True)), default=0)
    return Comparison(
        cells=len(usable),
        ahead=sum(_mean(a) > _mean(b) for a, b in usable),
        difference=math.fsum(_mean(a) - _mean(b) for a, b in whole) / len(whole) if whole else None,
        interval=_difference_interval(whole) if freedom >= _FEWEST - 1 else None,
        superiority=superiority,
        p=_permutation_p(usable, superiority),
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction over those that are there: the chance of any false alarm among them stays below the level."""
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, i) in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p))
        adjusted[i] = running
    return adjusted


def pooled_sd(a: float | None, b: float | None) -> float | None:
    """sqrt((a^2 + b^2) / 2), or the one that is there."""
    known = [sd for sd in (a, b) if sd is not None]
    return math.sqrt(sum(sd**2 for sd in known) / len(known)) if known else None


@functools.cache
def _resamples(n: int) -> NDArray[np.intp]:
    """Which of n values each resample holds, a row each."""
    if n <= _LISTED:
        return np.array(list(itertools.product(range(n), repeat=n)), dtype=np.intp)
    return np.random.default_rng(_SEED).integers(n, size=(RESAMPLES, n), dtype=np.intp)


@functools.cache
def _tail(n: int) -> float:
    """The tail to cut off on either side, for the confidence that Student's t has with n values."""
    from scipy.stats import norm, t

    return float(norm.cdf(-math.sqrt(n / (n - 1)) * t.ppf((1 + CONFIDENCE) / 2, n - 1)))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean())


def _difference_interval(pairs: Sequence[tuple[NDArray[np.float64], ...]]) -> tuple[float, float]:
    """Welch's for the mean over the cells: resampling two or five values would give too narrow a one."""
    from scipy.stats import t

    center = math.fsum(_mean(a) - _mean(b) for a, b in pairs) / len(pairs)
    sides = [side for pair in pairs for side in pair]
    squares = [float(side.var(ddof=1)) / len(side) for side in sides]
    if not any(squares):
        return center, center
    freedom = sum(squares) ** 2 / sum(v**2 / (len(side) - 1) for v, side in zip(squares, sides, strict=True))
    half = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(sum(squares)) / len(pairs)
    return center - half, center + half


def _superiority(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float((a[:, None] > b).mean() + (a[:, None] == b).mean() / 2)


def _permutation_p(pairs: Sequence[tuple[NDArray[np.float64], ...]], superiority: float) -> float | None:
    """Two-sided, by dealing the values of each cell anew: how often is `superiority` as far from one half?"""
    if math.prod(math.comb(len(a) + len(b), len(a)) for a, b in pairs) < _ENOUGH_DEALS:
        return None
    generator = np.random.default_rng(_SEED)
    total = np.zeros(RESAMPLES)
    for a, b in pairs:
        together = np.concatenate([a, b])
        # Of a deal only the ranks matter: the superiority of a hand is its rank sum, shifted and scaled.
        ranks = (together[:, None] > together).sum(axis=1) + ((together[:, None] == together).sum(axis=1) + 1) / 2
        hands = generator.permuted(np.tile(ranks, (RESAMPLES, 1)), axis=1)[:, : len(a)]
        total += (hands.sum(axis=1) - len(a) * (len(a) + 1) / 2) / (len(a) * len(b))
    as_far = np.abs(total / len(pairs) - 0.5) >= abs(superiority - 0.5) - 1e-12
    return float((1 + as_far.sum()) / (1 + RESAMPLES))

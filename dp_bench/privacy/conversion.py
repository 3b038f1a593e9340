"""From RDP to the smallest epsilon over many orders, of which few have to be looked at."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

# Looked at before any choice, where they are among the orders: a whole order costs as many terms as it is large.
_FIRST = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32)
_SLACK = 1e-9  # of epsilon: what rounding may do to a bound


def smallest_epsilon(rdp: Callable[[float], float], orders: Sequence[float], steps: float, delta: float) -> float:
    """The smallest epsilon, at `delta`, of so many compositions of a mechanism of which `rdp` is the RDP by order.

    The same as over all of the ascending `orders`. With f(a) = (a - 1) rdp(a), the logarithm of a moment, f is convex
    and f(1) = 0. So f lies above every line through two known values of it, outside of these two, and an order at which
    such a line gives no smaller epsilon than the best so far need not be looked at: a fractional order takes a hundred
    times as long to compute as to rule out. Lines are drawn through whole orders only, whose RDP is a finite sum; that
    of others is a series, which dp_accounting may overstate. Were f not convex, the result would be larger, and hold.
    """
    import numpy as np
    from dp_accounting.rdp import compute_epsilon

    every, added = _converted(tuple(orders), delta)
    looked_at, known = np.zeros(len(every), dtype=bool), np.zeros(len(every), dtype=bool)
    f = np.zeros(len(every))
    best = math.inf

    def look(place: int) -> None:
        nonlocal best
        spent = rdp(orders[place])
        looked_at[place] = True
        known[place] = orders[place].is_integer()
        f[place] = (orders[place] - 1) * spent
        if math.isfinite(spent):  # else dp_accounting did not find it
            best = min(best, float(compute_epsilon([orders[place]], [steps * spent], delta)[0]))

    for first in np.flatnonzero(np.isin(every, _FIRST)).tolist():
        look(first)
    while True:
        bound = np.where(looked_at, math.inf, steps * _below(np, every, f, known) / (every - 1) + added)
        place = int(bound.argmin())
        if looked_at.all() or not bound[place] < best * (1 + _SLACK):
            return best
        look(place)


@functools.lru_cache(maxsize=64)
def _converted(orders: tuple[float, ...], delta: float) -> tuple[Any, Any]:
    """The orders, and what the conversion to epsilon adds at each (dp_accounting's; Canonne et al., 2020)."""
    import numpy as np

    a = np.array(orders)
    return a, np.log1p(-1 / a) - np.log(delta * a) / (a - 1)


def _below(np: Any, a: Any, f: Any, known: Any) -> Any:
    """A lower bound of f at every order: the larger of the lines through the two known orders on either side."""
    x, y = np.append(1.0, a[known]), np.append(0.0, f[known])
    slope = np.diff(y) / np.diff(x)
    after = np.searchsorted(x, a)  # the first known order that is not below
    left = np.clip(after - 1, 1, len(x) - 1)
    from_left = y[left] + slope[left - 1] * (a - x[left])
    right = np.clip(after, 0, len(x) - 2)
    from_right = np.where(after < len(x) - 1, y[right] + slope[right] * (a - x[right]), -math.inf)
    # Below the first known order beyond 1 there is one line on the left: f >= 0.
    return np.maximum(np.where(after >= 2, from_left, 0.0), from_right)

"""The search for the smallest noise multiplier that keeps to a budget."""

import functools
import math
from collections.abc import Callable

# A noise multiplier is the smallest decimal of this many significant digits that keeps to the budget: a definition that
# does not depend on the path of the search, so that machines whose last bits differ still agree on it. It leaves less
# than 0.01 % of epsilon unspent.
MULTIPLIER_DIGITS = 6


class NotFound(Exception):
    """No multiplier spends the target; says between which two was looked."""


def smallest_multiplier(spent: Callable[[float], float], target: float, start: float) -> float:
    """The smallest decimal of `MULTIPLIER_DIGITS` digits of which `spent`, which decreases, is at most the target."""
    spent = functools.cache(spent)
    low, high = _bracket(spent, target, start)
    root = _root(spent, target, low, high)

    exponent = math.floor(math.log10(root)) - MULTIPLIER_DIGITS + 1

    def decimal(index: int) -> float:
        return float(f"{index}e{exponent}")

    # The root is good to its last digits only, and on either side: what is returned has been checked itself.
    index = math.ceil(root / 10.0**exponent)
    while spent(decimal(index)) > target:
        index += 1
    while spent(decimal(index - 1)) <= target:
        index -= 1
    return decimal(index)


def _bracket(spent: Callable[[float], float], target: float, start: float) -> tuple[float, float]:
    """Two multipliers near each other, of which the first overspends and the second does not."""
    lowest, highest = start / 1000, start * 1000
    low, high, stride = start, start, 1.25  # the further off, the longer the stride
    while spent(high) > target and high < highest:
        low, high, stride = high, high * stride, 1.25 * stride
    while spent(low) <= target and low > lowest:
        low, high, stride = low / stride, low, 1.25 * stride
    if not spent(high) <= target < spent(low):
        raise NotFound(f"{lowest:.3g} and {highest:.3g}")
    return low, high


def _root(spent: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The multiplier between `low` and `high` that spends `target`, to about seven digits."""
    from scipy.optimize import brentq

    def excess(log_multiplier: float) -> float:
        # exp(log(x)) need not be x, and the ends of the bracket must keep their signs.
        ratio = spent(min(max(math.exp(log_multiplier), low), high)) / target
        return math.log(min(max(ratio, 0.1), 10))  # almost linear; capped, as nothing interpolates from infinity

    return math.exp(brentq(excess, math.log(low), math.log(high), xtol=1e-7))

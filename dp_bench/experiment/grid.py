"""The configurations that a search tries: a few values per swept hyperparameter (an axis), and every combination.

What is searched is charged, so a grid says exactly what it contains: a value that means a member is taken to be that
member (`snap`), and any other must be added to the grid (`widen`), where it counts against the privacy budget.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from dp_bench.errors import invalid

# A search of more than this could not be carried out, and listing it would take minutes and gigabytes.
MOST_VALUES, MOST_POINTS = 1_000, 100_000
IN_EVERY_GRID = ("lr", "clip", "quantile")  # axes with keys of their own, as grid.also.lr; others: +grid.axes.NAME


def log_spaced(low: float, high: float, k: int) -> tuple[float, ...]:
    """`k` values from `low` to `high`, both included: 10^x at evenly spaced x."""
    if not 0 < low < high < math.inf:
        raise invalid("grid", "ranges with 0 < low < high", f"[{low:g}, {high:g}]", "correct the range")
    if k < 2:
        # A single value could be either end or the middle, and leaves nothing to search: there is no right guess.
        raise invalid("grid.k", "at least 2, for the two ends of each range", k, "set it, for example, to 5")
    if k > MOST_VALUES:
        raise invalid("grid.k", f"at most {MOST_VALUES:,} values on an axis", k, "set it, for example, to 5")
    first, last = math.log10(low), math.log10(high)
    exponents = (first + i * (last - first) / (k - 1) for i in range(k))
    # Twelve digits: powers differ in their last bits from one machine to the next, and these values name a run.
    return tuple(float(f"{10**exponent:.12g}") for exponent in exponents)


def widen(candidates: Iterable[float], extra: Iterable[float]) -> tuple[float, ...]:
    """Both together, ascending; an extra value that means one that is already there adds nothing."""
    members, extra = list(candidates), list(extra)
    for value in (*members, *extra):
        if not 0 < value < math.inf:
            raise invalid("grid", "positive and finite values", f"{value:g}", "remove it from the grid")
    for value in extra:
        if not any(_same(value, member) for member in members):
            members.append(value)
    return tuple(sorted(members))


def snap(value: float, candidates: Sequence[float], name: str) -> float:
    """The member of the grid that `value` means: the nearest, if their first three digits agree."""
    nearest = min(candidates, key=lambda member: abs(value - member))
    if not _same(value, nearest):
        wider, instead = f"grid.also.{name}=[{value:g}]", f"+grid.axes.{name}=[{value:g},...]"
        if name not in IN_EVERY_GRID:
            wider = f"+grid.axes.{name}=[{','.join(f'{c:.4g}' for c in sorted([*candidates, value]))}]"
        raise invalid(
            f"strategy.{name}",
            f"a value of the grid ({', '.join(f'{c:.4g}' for c in candidates)})",
            f"{value:g}",
            f"choose one, or widen the grid with {wider}, which the privacy budget then pays for "
            f"({instead} for a grid of your own)",
        )
    return nearest


def points(axes: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Every combination of the axes' values, the last axis varying fastest; one empty point where nothing is swept."""
    if (count := math.prod(len(values) for values in axes.values())) > MOST_POINTS:
        raise invalid("grid", f"at most {MOST_POINTS:,} points", f"{count:,}", "lower grid.k")
    for name, values in axes.items():
        labels: dict[str, float] = {}
        for value in values:
            label = _label(value)
            if label in labels:
                expected = f"values of {name} that differ in their first four digits"
                raise invalid("grid", expected, f"{labels[label]!r} and {value!r}", "drop one, or lower grid.k")
            labels[label] = value
        if not values:
            raise invalid("grid", f"values for {name}", "none", f"add 'grid.axes={{{name}:[VALUE,...]}}'")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def point_name(point: Mapping[str, float]) -> str:
    """A readable folder name: {"lr": 0.31622, "clip": 1.0} -> "lr=0.3162,clip=1". `points` sees to it that no two of a
    grid are the same."""
    return ",".join(f"{name}={_label(value)}" for name, value in point.items()) or "fixed"


def _label(value: float) -> str:
    return f"{value:.4g}".replace("e+", "e")


def _same(value: float, member: float) -> bool:
    """People write 0.316 for 10^-0.5; but 0.99 and 0.999, as momenta, are a factor of ten apart."""
    return f"{value:.3g}" == f"{member:.3g}" or _label(value) == _label(member)

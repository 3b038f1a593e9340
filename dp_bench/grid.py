"""The configurations that a search tries: a few values per swept hyperparameter (an axis), and every combination.

What is searched is charged, so a grid says exactly what it contains: a value that means a member is taken to be that
member (`snap`), and any other must be added to the grid (`widen`), where it counts against the privacy budget.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from dp_bench.errors import UserError

# Values this near each other are the same grid point: people write 0.316 for 10^-0.5.
SAME = 0.01


def log_spaced(low: float, high: float, k: int) -> tuple[float, ...]:
    """`k` values from `low` to `high`, both included: 10^x at evenly spaced x."""
    if not 0 < low < high < math.inf:
        raise UserError(f"A range of values needs 0 < low < high. Found [{low:g}, {high:g}]. Correct the range.")
    if k < 2:
        # A single value could be either end or the middle, and leaves nothing to search: there is no right guess.
        raise UserError(f"grid.k must be at least 2, for the two ends of each range. Found {k}. Set grid.k, say to 5.")
    first, last = math.log10(low), math.log10(high)
    exponents = (first + i * (last - first) / (k - 1) for i in range(k))
    # Twelve digits: powers differ in their last bits from one machine to the next, and these values name a run.
    return tuple(float(f"{10**exponent:.12g}") for exponent in exponents)


def widen(candidates: Iterable[float], extra: Iterable[float]) -> tuple[float, ...]:
    """Both together, ascending; an extra value within 1 % of one that is already there adds nothing."""
    members = list(candidates)
    for value in extra:
        if not 0 < value < math.inf:
            raise UserError(f"A grid's values must be positive and finite. Found {value:g}. Remove it from the grid.")
        if not any(_same(value, member) for member in members):
            members.append(value)
    return tuple(sorted(members))


def snap(value: float, candidates: Sequence[float], name: str) -> float:
    """The member of the grid that `value` means: the nearest, if it is within 1 %."""
    nearest = min(candidates, key=lambda member: abs(value - member))
    if not _same(value, nearest):
        raise UserError(
            f"{name} = {value:g} is not in the grid. Expected one of {', '.join(f'{c:.4g}' for c in candidates)}. "
            f"Choose one, or widen the grid with grid.also.{name}=[{value:g}] (which the privacy budget then pays for)."
        )
    return nearest


def axes_for(
    swept: tuple[str, ...],
    k: int,
    ranges: Mapping[str, tuple[float, float]],
    choices: Mapping[str, Sequence[float]],
    also: Mapping[str, Sequence[float]],
) -> dict[str, tuple[float, ...]]:
    """The axis of each hyperparameter in `swept`: its `choices`, else `k` values over its range, and its `also`."""
    for name, extra in also.items():
        if extra and name not in swept:
            raise UserError(
                f"grid.also.{name} widens an axis that this strategy does not sweep. Found {list(extra)}, expected "
                f"values for {' or '.join(swept) or 'none'} only. Remove it, or choose a strategy that sweeps {name}."
            )
    axes = {}
    for name in swept:
        if name in choices:
            candidates = widen((), choices[name])
        elif name in ranges:
            candidates = log_spaced(*ranges[name], k)
        else:
            raise UserError(f"The grid has no values for {name}. Give it a range or a list of choices.")
        axes[name] = widen(candidates, also.get(name, ()))
    return axes


def points(axes: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Every combination of the axes' values, the last axis varying fastest; one empty point where nothing is swept."""
    for name, values in axes.items():
        labels: dict[str, float] = {}
        for value in values:
            label = _label(value)
            if label in labels:
                raise UserError(
                    f"Two values of {name} have the same name, {label}. Found {labels[label]!r} and {value!r}. "
                    "Drop one, or lower grid.k."
                )
            labels[label] = value
        if not values:
            raise UserError(f"The grid has no values for {name}. Give it a range or a list of choices.")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def point_name(point: Mapping[str, float]) -> str:
    """A readable folder name: {"lr": 0.31622, "clip": 1.0} -> "lr=0.3162,clip=1". `points` sees to it that no two of a
    grid are the same."""
    return ",".join(f"{name}={_label(value)}" for name, value in point.items()) or "fixed"


def _label(value: float) -> str:
    return f"{value:.4g}".replace("e+", "e")


def _same(value: float, member: float) -> bool:
    return abs(value - member) <= SAME * abs(member)

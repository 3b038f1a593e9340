"""What a hyperparameter may be, declared with it: `lr: Positive`, `momentum: Decay = 0.9`.

A declaration is part of the field's type (`Annotated`), so that a strategy's dataclass says everything there is to say
about its hyperparameters: `Strategy` refuses other values, the contract tests that it does, and a grid finds its axis.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints


@dataclass(frozen=True)
class Range:
    """Finite numbers that are more than `above`, at least `least` and less than `below`; `words` say so."""

    words: str
    above: float = -math.inf
    least: float = -math.inf
    below: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.above < value < self.below and value >= self.least

    def outside(self) -> list[float]:
        """Values to refuse: the nearest, and those that are never valid."""
        low = [self.above] if self.above > self.least else [self.least - 1]
        return [value for value in (*low, self.below) if math.isfinite(value)] + [math.inf, -math.inf, math.nan]

    def example(self) -> float:
        """A value well within: the middle, or one half above the lower end."""
        low = max(self.above, self.least)
        if not math.isfinite(low):
            return min(0.5, self.below - 1)
        return low + (0.5 if math.isinf(self.below) else (self.below - low) / 2)


@dataclass(frozen=True)
class OneOf:
    """One of a few names."""

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"one of {', '.join(self.names)}"

    def __contains__(self, value: object) -> bool:
        return value in self.names

    def outside(self) -> list[str]:
        return ["", "no such name"]

    def example(self) -> str:
        return self.names[0]


@dataclass(frozen=True)
class Axis:
    """What a grid tries of a swept hyperparameter: k values evenly spaced in log over `span`, or just `values`.

    `lr`, `clip` and `quantile` have theirs in the configuration (grid.lr and so on); others declare one.
    """

    span: tuple[float, float] | None = None
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if (self.span is None) == (not self.values):
            raise TypeError(f"Axis: expected either a span or values, got {self}")


Positive = Annotated[float, Range("a positive number", above=0)]
NonNegative = Annotated[float, Range("0 or more", least=0)]
Decay = Annotated[float, Range("0 (none) or more, and less than 1", least=0, below=1)]
Fraction = Annotated[float, Range("a number between 0 and 1", above=0, below=1)]


@functools.cache
def ranges(strategy: type) -> Mapping[str, Range | OneOf]:
    """The declared range of each hyperparameter that has one."""
    return {name: item for name, item in _declared(strategy) if isinstance(item, Range | OneOf)}


@functools.cache
def declared_axes(strategy: type) -> Mapping[str, Axis]:
    """The axis of each hyperparameter that declares one."""
    return {name: item for name, item in _declared(strategy) if isinstance(item, Axis)}


def _declared(strategy: type) -> list[tuple[str, Any]]:
    hints = get_type_hints(strategy, include_extras=True)
    return [(name, item) for name, hint in hints.items() for item in getattr(hint, "__metadata__", ())]

"""FixedThreshold on a line: the threshold that Online starts from, never moved, so that only the step is searched.

Of the k candidates that Online pays for, with neither of its updates: what is left of Online's advantage over
FixedThreshold when both search the same few points.
"""

from dataclasses import dataclass

from dp_bench.strategies.fixed_threshold import FixedThreshold
from dp_bench.strategies.ranges import Positive


@dataclass(frozen=True, kw_only=True)
class FixedLine(FixedThreshold):
    clip: Positive = 0.1  # Online's C_0

    swept = ("lr",)
    label = "FixedLine"
    color = "#56B4E9"

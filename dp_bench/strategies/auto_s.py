"""DP-SGD without a threshold to choose (Bu et al. 2023, AUTO-S): every gradient is scaled to a norm just below R.

w(n) = R / (n + s). R only scales the step, so it is 1 and not searched; s > 0 keeps some of the difference between long
gradients and short ones, without which the method need not converge.
"""

from dataclasses import dataclass

from dp_bench.privacy.query import Query
from dp_bench.strategies.fixed_threshold import FixedThreshold, FixedThresholdState
from dp_bench.strategies.ranges import Positive


@dataclass(frozen=True, kw_only=True)
class AutoS(FixedThreshold):
    """FixedThreshold's update with other weights: n w(n) = R n / (n + s) < R for every n."""

    clip: Positive = 1.0  # R
    stabiliser: Positive = 0.01  # s

    swept = ("lr",)
    label = "AUTO-S"
    color = "#E69F00"
    symbols = {"clip": "R"}  # noqa: RUF012
    reference = "Bu et al. 2023, Automatic Clipping: Differentially Private Deep Learning Made Easier and Stronger"

    def queries(self, state: FixedThresholdState) -> tuple[Query, ...]:
        clip, stabiliser = self.clip, self.stabiliser
        return (Query("gradient", "vector", lambda n: clip / (n + stabiliser), clip, self.noise_multiplier),)

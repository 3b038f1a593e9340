"""DP-SGD with per-sample adaptive clipping (Xia et al. 2023, PSAC): short gradients are not blown up as in AUTO-S.

w(n) = C / (n + r / (n + r)). For long gradients this is C / n; for short ones it tends to C, where AUTO-S's R / (n + s)
tends to R / s, a hundred times as much. C only scales the step, so it is 1 and not searched.
"""

from dataclasses import dataclass

from dp_bench.privacy.query import Query
from dp_bench.strategies.fixed_threshold import FixedThreshold, FixedThresholdState
from dp_bench.strategies.ranges import Positive


@dataclass(frozen=True, kw_only=True)
class PSAC(FixedThreshold):
    """FixedThreshold's update with other weights: n w(n) = C n / (n + r / (n + r)) < C for every n."""

    clip: Positive = 1.0  # C; absorbed in the step
    stabiliser: Positive = 0.1  # r, the authors'

    swept = ("lr",)
    label = "PSAC"
    color = "#8C564B"
    symbols = {"stabiliser": "r"}  # noqa: RUF012
    reference = "Xia et al. 2023, Differentially Private Learning with Per-Sample Adaptive Clipping"

    def queries(self, state: FixedThresholdState) -> tuple[Query, ...]:
        clip, r = self.clip, self.stabiliser
        return (Query("gradient", "vector", lambda n: clip / (n + r / (n + r)), clip, self.noise_multiplier),)

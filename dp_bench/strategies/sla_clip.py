"""DP-SGD whose threshold follows the slack of the gradient norms below it (Zou et al. 2026, SlaClip).

A gradient that is shorter than C leaves room under the bound: its slack. The K numbers

    w_k(n) = clamp(√K (C - n)_+ - k ℓ, 0, ℓ),    ℓ = C/√K,    k = 0..K-1,

fill up one after the other as a gradient gets shorter. Together with the clipped gradient they cost nothing: for n <= C
they add up to √K (C - n) and none exceeds ℓ, so that Σ_k w_k(n)^2 <= ℓ √K (C - n) = C (C - n), and

    n^2 + Σ_k w_k(n)^2 <= n^2 + C (C - n) = C^2 - n (C - n) <= C^2.

So noise of ν C on every coordinate, the gradient's and the slacks', is one release of multiplier ν: a slack's own bound
is ℓ, and its noise multiplier ν √K.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from dp_bench.errors import invalid
from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy, clipped_gradient, scalar
from dp_bench.strategies.ranges import Decay, NonNegative, Positive

_QUANTILE = 2.576  # 99 % of a normal distribution is within so many deviations


class SlaClipState(NamedTuple):
    clip: Tensor  # C_t
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class SlaClip(Strategy[SlaClipState]):
    lr: Positive
    # The authors' values; Fashion-MNIST's autoencoder has gradients that need a lower clip_min.
    clip_init: Positive = 0.1  # C_0
    clip_lr: NonNegative = 0.2  # η
    clip_min: Positive = 0.1
    clip_max: Positive = 20.0
    momentum: Decay = 0.9

    swept = ("lr",)
    label = "SlaClip"
    color = "#BCBD22"
    symbols = {"clip_lr": "η"}  # noqa: RUF012
    reference = "Zou et al. 2026, SlaClip: Gradient Norm Slacks can be Indicator for Adaptive Clipping in DP-SGD"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip_min > self.clip_max:
            expected = f"at most strategy.clip_max = {self.clip_max:g}"
            raise invalid("strategy.clip_min", expected, f"{self.clip_min:g}", "lower it, or raise strategy.clip_max")

    @property
    def slacks(self) -> int:
        """K = max(1, ⌊(B / (2 · 2.576 ν))^(2/3)⌋): as many as stand out of the noise. It never changes in a run."""
        ratio = self.batch_size / (2 * _QUANTILE * self.noise_multiplier)
        return max(1, int(math.pow(ratio, 2 / 3)))

    def multipliers(self) -> dict[str, float]:
        shared = self.noise_multiplier * math.sqrt(self.slacks)  # ν C / ℓ
        return {"gradient": self.noise_multiplier} | {f"slack_{k}": shared for k in range(self.slacks)}

    def init(self, params: Tensor) -> SlaClipState:
        return SlaClipState(clip=scalar(self.clip_init, params), velocity=params.new_zeros(params.shape))

    def queries(self, state: SlaClipState) -> tuple[Query, ...]:
        z, clip, root = self.multipliers(), state.clip, math.sqrt(self.slacks)

        def slack(k: int) -> Query:
            width = clip / root  # ℓ
            return Query(
                f"slack_{k}",
                "scalar",
                lambda n: (root * (clip - n).clamp(min=0) - k * width).clamp(min=0).minimum(width),
                width,
                z[f"slack_{k}"],
            )

        return (clipped_gradient(clip, z["gradient"]), *(slack(k) for k in range(self.slacks)))

    def update(self, state: SlaClipState, params: Tensor, released: Released) -> tuple[Tensor, SlaClipState]:
        """C <- clip(C exp(η (γ - s_0)), C_min, C_max), s_k = released_k / ℓ."""
        velocity = released["gradient"].add(state.velocity, alpha=self.momentum)
        width = state.clip / math.sqrt(self.slacks)
        first, last = released["slack_0"] / width, released[f"slack_{self.slacks - 1}"] / width
        target = self._target(last, state.clip)
        clip = (state.clip * (self.clip_lr * (target - first)).exp()).clamp(self.clip_min, self.clip_max)
        return params.sub(velocity, alpha=self.lr), SlaClipState(clip, velocity)

    def _target(self, last: Tensor, clip: Tensor) -> Tensor | float:
        """γ = 1 - (1 - r)/2, r = clip(s_{K-1} / C, 0, 1): the more gradients are tiny, the more stay unclipped."""
        return 1 - (1 - (last / clip).clamp(0, 1)) / 2

    def trajectory(self, state: SlaClipState) -> dict[str, float | Tensor]:
        return {"clip": state.clip, "lr": self.lr}


@dataclass(frozen=True, kw_only=True)
class SlaClipQ(SlaClip):
    """SlaClip-Q: half of the gradients stay unclipped, γ = 1/2, as for the median of Andrew et al., at no cost."""

    label = "SlaClip-Q"
    color = "#6B7A1E"

    def _target(self, last: Tensor, clip: Tensor) -> Tensor | float:
        return 0.5

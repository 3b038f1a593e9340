"""DP-SGD whose threshold tracks a quantile of the gradient norms (Andrew et al. 2021).

With `clip_min` it is bounded adaptive clipping (arXiv 2506.01396): C <- max(C_LB, .), so that the threshold does not
vanish with the gradients of the examples that are already learned, while those of a minority are still long.
"""

from dataclasses import dataclass
from typing import NamedTuple

from dp_bench.errors import invalid
from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy, clipped_gradient, scalar
from dp_bench.strategies.ranges import Decay, Fraction, NonNegative, Positive


class FixedQuantileState(NamedTuple):
    clip: Tensor  # C_t
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class FixedQuantile(Strategy[FixedQuantileState]):
    lr: Positive
    quantile: Fraction  # γ: the share of gradients that should stay unclipped
    clip_init: Positive = 0.1  # C_0
    clip_lr: NonNegative = 0.2  # η_C
    count_noise: Positive = 0.05  # σ_b / B; Andrew et al. recommend B/20
    momentum: Decay = 0.9
    clip_min: NonNegative = 0.0  # C_LB; 0: none

    swept = ("lr", "quantile")
    label = "FixedQuantile"
    color = "#009E73"
    symbols = {"quantile": "γ"}  # noqa: RUF012
    added = {"clip_min": 0.0}  # noqa: RUF012
    reference = "Andrew et al. 2021, Differentially Private Learning with Adaptive Clipping"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_multiplier >= self.count_multiplier:
            raise invalid(
                "strategy.count_noise",
                f"a noise multiplier below 2 sigma_b = {self.count_multiplier:.4g}, which the noisy count alone spends",
                f"{self.noise_multiplier:.4g}",
                "raise strategy.count_noise, train.batch_size or privacy.epsilon",
            )

    @property
    def count_multiplier(self) -> float:
        """σ_b over the count's bound of 1/2."""
        return 2 * self.count_noise * self.batch_size

    def multipliers(self) -> dict[str, float]:
        """ν_g = (ν^-2 - (2 σ_b)^-2)^(-1/2); a ν of 0 stays 0."""
        ratio = self.noise_multiplier / self.count_multiplier
        return {"gradient": self.noise_multiplier / (1 - ratio**2) ** 0.5, "unclipped": self.count_multiplier}

    def init(self, params: Tensor) -> FixedQuantileState:
        return FixedQuantileState(clip=scalar(self.clip_init, params), velocity=params.new_zeros(params.shape))

    def queries(self, state: FixedQuantileState) -> tuple[Query, ...]:
        z = self.multipliers()
        clip = state.clip
        return (
            clipped_gradient(clip, z["gradient"]),
            # Centred, which halves the bound: one example moves the sum by 1/2.
            Query("unclipped", "scalar", lambda n: (n <= clip).to(n.dtype) - 0.5, 0.5, z["unclipped"]),
        )

    def update(
        self, state: FixedQuantileState, params: Tensor, released: Released
    ) -> tuple[Tensor, FixedQuantileState]:
        velocity = released["gradient"].add(state.velocity, alpha=self.momentum)
        unclipped = released["unclipped"] + 0.5  # b~
        clip = (state.clip * (-self.clip_lr * (unclipped - self.quantile)).exp()).clamp(min=self.clip_min)
        return params.sub(velocity, alpha=self.lr), FixedQuantileState(clip, velocity)

    def trajectory(self, state: FixedQuantileState) -> dict[str, float | Tensor]:
        return {"clip": state.clip, "lr": self.lr}

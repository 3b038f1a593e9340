"""DP-SGD whose threshold tracks a quantile of the gradient norms (Andrew et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dp_bench.errors import UserError
from dp_bench.queries import Query, Released
from dp_bench.strategies.base import Strategy, clipped_gradient, scalar

if TYPE_CHECKING:
    from torch import Tensor


class FixedQuantileState(NamedTuple):
    clip: Tensor  # C_t
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class FixedQuantile(Strategy[FixedQuantileState]):
    lr: float
    quantile: float  # γ: the share of gradients that should stay unclipped
    clip_init: float = 0.1  # C_0
    clip_lr: float = 0.2  # η_C
    count_noise: float = 0.05  # σ_b / B; Andrew et al. recommend B/20
    momentum: float = 0.9

    swept = ("lr", "quantile")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.quantile < 1:
            raise UserError(f"strategy.quantile: found {self.quantile}, expected a number between 0 and 1")
        if self.noise_multiplier >= self.count_multiplier:
            raise UserError(
                f"FixedQuantile's noisy count alone spends the budget: found a noise multiplier of "
                f"{self.noise_multiplier:.4g}, expected less than 2 sigma_b = {self.count_multiplier:.4g}; "
                "raise strategy.count_noise, train.batch_size or privacy.epsilon"
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
        clip = state.clip * (-self.clip_lr * (unclipped - self.quantile)).exp()
        return params.sub(velocity, alpha=self.lr), FixedQuantileState(clip, velocity)

    def trajectory(self, state: FixedQuantileState) -> dict[str, float | Tensor]:
        return {"clip": state.clip, "lr": self.lr}

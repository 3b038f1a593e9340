"""OSO-DPSGD, the paper's contribution: the threshold C and the step ρ descend their own gradients during training."""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy, clipped_gradient, scalar
from dp_bench.strategies.ranges import Decay, NonNegative, OneOf, Positive, Range

UPDATES = ("exponential_sign", "additive", "cosine")
_MORE_THAN_ONE = Range("more than 1 (the paper's is 1.01): at 1 no budget is left for the second query", above=1)


class OnlineState(NamedTuple):
    clip: Tensor  # C_t
    lr: Tensor  # ρ_t
    gradient: Tensor  # g~_{t-1}
    direction: Tensor  # q~_{t-1}
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class Online(Strategy[OnlineState]):
    lr: Positive  # ρ_0
    clip_init: Positive = 0.1  # C_0
    clip_lr: NonNegative = 2.5e-3  # ρ_c
    lr_lr: NonNegative = 2.5e-3  # ρ_r
    # ν_g / ν: what the gradient pays in noise for the second query
    gradient_share: Annotated[float, _MORE_THAN_ONE] = 1.01
    update_rule: Annotated[str, OneOf(UPDATES)] = "exponential_sign"
    momentum: Decay = 0.9

    swept = ("lr",)
    label = "Online"
    color = "#0072B2"
    reference = "Galli et al. 2024, Online Sensitivity Optimization in Differentially Private Learning"

    def multipliers(self) -> dict[str, float]:
        """ν_g = 1.01 ν and ν_q = ν / sqrt(1 - 1.01^-2) = 7.124 ν, so that ν_g^-2 + ν_q^-2 = ν^-2."""
        return {
            "gradient": self.gradient_share * self.noise_multiplier,
            "direction": self.noise_multiplier / math.sqrt(1 - self.gradient_share**-2),
        }

    def init(self, params: Tensor) -> OnlineState:
        zeros = params.new_zeros(params.shape)
        return OnlineState(
            clip=scalar(self.clip_init, params),
            lr=scalar(self.lr, params),
            gradient=zeros,
            direction=zeros,
            velocity=zeros,
        )

    def queries(self, state: OnlineState) -> tuple[Query, ...]:
        z = self.multipliers()
        clip = state.clip
        return (
            clipped_gradient(clip, z["gradient"]),
            # d(clipped gradient)/dC: g_i / n_i where it is clipped, 0 elsewhere, hence of norm 0 or 1.
            Query("direction", "vector", lambda n: (n > clip) / n, 1.0, z["direction"], clipped_only=True),
        )

    def update(self, state: OnlineState, params: Tensor, released: Released) -> tuple[Tensor, OnlineState]:
        gradient = released["gradient"]
        velocity = gradient.add(state.velocity, alpha=self.momentum)
        return params.addcmul(velocity, state.lr, value=-1), OnlineState(
            clip=self._descend(state.clip, self.clip_lr, state.lr, gradient, state.direction),
            lr=self._descend(state.lr, self.lr_lr, state.lr, gradient, state.gradient),
            gradient=gradient,
            direction=released["direction"],
            velocity=velocity,
        )

    def _descend(self, value: Tensor, rate: float, lr: Tensor, now: Tensor, before: Tensor) -> Tensor:
        """One step of C_t or ρ_t along -dℓ/dvalue ∝ g~_t · before; `before` is 0 at the first step."""
        dot: Tensor = now.dot(before).double()
        if self.update_rule == "additive":
            return value + rate * lr * dot
        if self.update_rule == "cosine":
            norms: Tensor = now.norm().double() * before.norm().double()
            return value * (1 + rate * dot / norms.clamp(min=1e-300))
        return value * (rate * dot.sign()).exp()

    def trajectory(self, state: OnlineState) -> dict[str, float | Tensor]:
        return {"clip": state.clip, "lr": state.lr}

"""DP-SGD with adaptive sigmoid clipping (AdaSig, NeurIPS 2025): the slope α descends its own gradient during training.

A gradient of norm n becomes one of norm tanh(α n / 2) in its own direction: 2 sigmoid(α n) - 1. Where Online learns how
long a gradient may be, AdaSig learns how soon it saturates at 1; ρ takes care of the scale. What α needs to know is
the derivative of the sum by it, Σ g_i / (2 cosh^2(α n_i / 2)), a second private sum.

The second sum is nearly free. With x = α n an example adds tanh(x/2) to the first sum and x / (2 α cosh^2(x/2)) to the
second, which is at most b/α, b = 0.44774. With noise ν and ν_r b/α its joint influence is

    tanh^2(x/2) / ν^2 + (x / (2 b ν_r cosh^2(x/2)))^2 <= ν^-2    if and only if    ν_r / ν >= x / (2 b cosh(x/2)),

by 1 - tanh^2 = cosh^-2. The right side is largest at x/2 tanh(x/2) = 1: 1.48017. So the gradient keeps all of its
budget, ν_s = ν, and the slope's noise is 1.48017 ν. The authors add the costs up as if one example could have both
maxima, and give ν_s = 1.01 ν and ν_r = 7.124 ν.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy, scalar
from dp_bench.strategies.ranges import Decay, NonNegative, Positive

_PEAK = 1.5434046384182085  # x tanh(x/2) = 1, where x / (2 cosh^2(x/2)) is largest
_JOINT_PEAK = 2.3993572805154676  # x/2 tanh(x/2) = 1, where x / cosh(x/2) is largest
SLOPE_BOUND = _PEAK / (2 * math.cosh(_PEAK / 2) ** 2)  # b = 0.44774
SLOPE_NOISE = _JOINT_PEAK / (2 * SLOPE_BOUND * math.cosh(_JOINT_PEAK / 2))  # ν_r / ν = 1.48017


class AdaSigState(NamedTuple):
    slope: Tensor  # α_t
    derivative: Tensor  # r~_{t-1}
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class AdaSig(Strategy[AdaSigState]):
    lr: Positive
    slope_init: Positive = 5.0  # α_0, the authors' for MNIST; for Fashion-MNIST theirs is 1
    slope_lr: NonNegative = 0.01  # λ, the authors'
    momentum: Decay = 0.9

    swept = ("lr",)
    label = "AdaSig"
    color = "#9467BD"
    symbols = {"slope": "α", "slope_init": "α_0", "slope_lr": "λ"}  # noqa: RUF012
    reference = (
        "Adaptive Sigmoid Clipping for Balancing the Direction-Magnitude Mismatch Trade-off "
        "in Differentially Private Learning, NeurIPS 2025"
    )

    def multipliers(self) -> dict[str, float]:
        return {"gradient": self.noise_multiplier, "derivative": SLOPE_NOISE * self.noise_multiplier}

    def init(self, params: Tensor) -> AdaSigState:
        zeros = params.new_zeros(params.shape)
        return AdaSigState(slope=scalar(self.slope_init, params), derivative=zeros, velocity=zeros)

    def queries(self, state: AdaSigState) -> tuple[Query, ...]:
        z, slope = self.multipliers(), state.slope

        def steepness(n: Tensor) -> Tensor:
            """1 / (2 cosh^2(α n / 2)), written so that nothing overflows."""
            decay = (-slope * n).exp()
            return 2 * decay / (1 + decay).square()

        return (
            Query("gradient", "vector", lambda n: (slope * n / 2).tanh() / n, 1.0, z["gradient"]),
            Query("derivative", "vector", steepness, SLOPE_BOUND / slope, z["derivative"]),
        )

    def update(self, state: AdaSigState, params: Tensor, released: Released) -> tuple[Tensor, AdaSigState]:
        """α <- α exp(λ sign(s~_t · r~_{t-1})): against dℓ/dα, which is -ρ s~_t · r~_{t-1}; r~_0 = 0."""
        gradient = released["gradient"]
        velocity = gradient.add(state.velocity, alpha=self.momentum)
        direction = gradient.dot(state.derivative).double().sign()
        slope = state.slope * (self.slope_lr * direction).exp()
        return params.sub(velocity, alpha=self.lr), AdaSigState(slope, released["derivative"], velocity)

    def trajectory(self, state: AdaSigState) -> dict[str, float | Tensor]:
        """No gradient is longer than 1 once it is clipped; what moves is the slope."""
        return {"clip": 1.0, "lr": self.lr, "slope": state.slope}

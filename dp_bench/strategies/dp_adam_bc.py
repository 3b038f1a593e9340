"""DP-Adam with bias correction (Tang et al. 2024, DP-AdamBC): the noise's variance is taken off the second moment.

Noise of variance φ in every coordinate adds φ to Adam's second moment, which under privacy is nearly all of it: the
denominator becomes a constant, and DP-Adam becomes DP-SGD with momentum (AdamWOSM is exactly that).
"""

from dataclasses import dataclass
from typing import NamedTuple

from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.privacy.rounding import ROUNDING
from dp_bench.strategies.base import Strategy, clipped_gradient
from dp_bench.strategies.ranges import Decay, Positive


class DPAdamBCState(NamedTuple):
    step: int
    first: Tensor  # m_t
    second: Tensor  # v_t


@dataclass(frozen=True, kw_only=True)
class DPAdamBC(Strategy[DPAdamBCState]):
    clip: Positive
    lr: Positive = 1e-3  # as AdamWOSM's, so that both search the threshold alone
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    # γ' / φ. The authors tune γ' for each task, which would have to be paid for; tied to the noise it needs no search.
    # The tie and its value are this project's choice.
    variance_floor: Positive = 0.01

    swept = ("clip",)
    label = "DP-AdamBC"
    color = "#DC267F"
    symbols = {"variance_floor": "γ'/φ"}  # noqa: RUF012
    reference = "Tang et al. 2024, DP-AdamBC: Your DP-Adam Is Actually DP-SGD (Unless You Apply Bias Correction)"

    @property
    def noise_variance(self) -> float:
        """φ = (ν C / B)^2 of the noise that is added, which is larger by what pays for rounding (2 % of φ)."""
        return ((1 + ROUNDING) * self.noise_multiplier * self.clip / self.batch_size) ** 2

    def multipliers(self) -> dict[str, float]:
        return {"gradient": self.noise_multiplier}

    def init(self, params: Tensor) -> DPAdamBCState:
        zeros = params.new_zeros(params.shape)
        return DPAdamBCState(step=0, first=zeros, second=zeros)

    def queries(self, state: DPAdamBCState) -> tuple[Query, ...]:
        return (clipped_gradient(self.clip, self.noise_multiplier),)

    def update(self, state: DPAdamBCState, params: Tensor, released: Released) -> tuple[Tensor, DPAdamBCState]:
        """θ -= ρ m^ / sqrt(max(v^ - φ, γ')), m^ and v^ Adam's moments, unbiased."""
        step, gradient, noise = state.step + 1, released["gradient"], self.noise_variance
        first = self.beta1 * state.first + (1 - self.beta1) * gradient
        second = self.beta2 * state.second + (1 - self.beta2) * gradient.square()
        unbiased_first = first / (1 - self.beta1**step)
        unbiased_second = second / (1 - self.beta2**step)
        denominator = (unbiased_second - noise).clamp(min=self.variance_floor * noise).sqrt()
        return params - self.lr * unbiased_first / denominator, DPAdamBCState(step, first, second)

    def trajectory(self, state: DPAdamBCState) -> dict[str, float | Tensor]:
        return {"clip": self.clip, "lr": self.lr}

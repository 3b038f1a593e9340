"""DP-Adam without second moment (Mohapatra et al. 2022): Adam's denominator under pure noise, a constant."""

from dataclasses import dataclass
from typing import NamedTuple

from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy, clipped_gradient
from dp_bench.strategies.ranges import Decay, Positive


class AdamWOSMState(NamedTuple):
    step: int
    moment: Tensor  # m_t


@dataclass(frozen=True, kw_only=True)
class AdamWOSM(Strategy[AdamWOSMState]):
    clip: Positive
    lr: Positive = 1e-3  # α
    beta: Decay = 0.9
    stabiliser: Positive = 1e-8

    swept = ("clip",)
    label = "AdamWOSM"
    color = "#CC79A7"
    reference = "Mohapatra et al. 2022, The Role of Adaptive Optimizers for Honest Private Hyperparameter Selection"

    @property
    def step_size(self) -> float:
        """α / (ν C / B + 1e-8): sqrt of the second moment of a gradient that is all noise."""
        return self.lr / (self.noise_multiplier * self.clip / self.batch_size + self.stabiliser)

    def multipliers(self) -> dict[str, float]:
        return {"gradient": self.noise_multiplier}

    def init(self, params: Tensor) -> AdamWOSMState:
        return AdamWOSMState(step=0, moment=params.new_zeros(params.shape))

    def queries(self, state: AdamWOSMState) -> tuple[Query, ...]:
        return (clipped_gradient(self.clip, self.noise_multiplier),)

    def update(self, state: AdamWOSMState, params: Tensor, released: Released) -> tuple[Tensor, AdamWOSMState]:
        step = state.step + 1
        moment = self.beta * state.moment + (1 - self.beta) * released["gradient"]
        unbiased = moment / (1 - self.beta**step)
        return params - self.step_size * unbiased, AdamWOSMState(step, moment)

    def trajectory(self, state: AdamWOSMState) -> dict[str, float | Tensor]:
        return {"clip": self.clip, "lr": self.step_size}

"""NSGD (Yang et al. 2022): gradients are normalized, not clipped; w(n) = C / (n + r) is finite as n -> 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dp_bench import Query, Released, Strategy
from dp_bench.strategies.ranges import Decay, Positive

if TYPE_CHECKING:
    from torch import Tensor


class NSGDState(NamedTuple):
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class NSGD(Strategy[NSGDState]):
    lr: Positive
    clip: Positive = 1.0  # C, which only scales the step
    r: Positive = 0.01
    momentum: Decay = 0.9

    swept = ("lr",)
    label = "NSGD"
    color = "#332288"
    reference = "Yang et al. 2022, Normalized/Clipped SGD with Perturbation for Differentially Private Optimization"

    def multipliers(self) -> dict[str, float]:
        return {"gradient": self.noise_multiplier}

    def init(self, params: Tensor) -> NSGDState:
        return NSGDState(velocity=params.new_zeros(params.shape))

    def queries(self, state: NSGDState) -> tuple[Query, ...]:
        clip, r = self.clip, self.r
        return (Query("gradient", "vector", lambda n: clip / (n + r), clip, self.noise_multiplier),)

    def update(self, state: NSGDState, params: Tensor, released: Released) -> tuple[Tensor, NSGDState]:
        velocity = self.momentum * state.velocity + released["gradient"]
        return params - self.lr * velocity, NSGDState(velocity)

    def trajectory(self, state: NSGDState) -> dict[str, float | Tensor]:
        return {"clip": self.clip, "lr": self.lr}

"""The non-private baseline, on the same path: an unbounded query released without noise."""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy
from dp_bench.strategies.ranges import Decay, OneOf, Positive


class NoDPState(NamedTuple):
    step: int
    first: Tensor  # Adam's first moment; SGD's velocity
    second: Tensor


@dataclass(frozen=True, kw_only=True)
class NoDP(Strategy[NoDPState]):
    lr: Positive
    optimiser: Annotated[str, OneOf(("adam", "sgd"))] = "adam"
    momentum: Decay = 0.9  # SGD's; Adam's β_1
    beta2: Decay = 0.999
    stabiliser: Positive = 1e-8

    swept = ("lr",)
    private = False
    label = "NoDP"
    color = "#333333"
    reference = "Kingma and Ba 2015, Adam: A Method for Stochastic Optimization"

    def multipliers(self) -> dict[str, float]:
        return {"gradient": 0.0}

    def init(self, params: Tensor) -> NoDPState:
        zeros = params.new_zeros(params.shape)
        return NoDPState(step=0, first=zeros, second=zeros)

    def queries(self, state: NoDPState) -> tuple[Query, ...]:
        return (Query("gradient", "vector", lambda n: n.new_ones(n.shape), math.inf, 0.0),)

    def update(self, state: NoDPState, params: Tensor, released: Released) -> tuple[Tensor, NoDPState]:
        step, gradient = state.step + 1, released["gradient"]
        if self.optimiser == "sgd":
            velocity = self.momentum * state.first + gradient
            return params - self.lr * velocity, NoDPState(step, velocity, state.second)
        first = self.momentum * state.first + (1 - self.momentum) * gradient
        second = self.beta2 * state.second + (1 - self.beta2) * gradient.square()
        unbiased_first = first / (1 - self.momentum**step)
        unbiased_second = second / (1 - self.beta2**step)
        return params - self.lr * unbiased_first / (unbiased_second.sqrt() + self.stabiliser), NoDPState(
            step, first, second
        )

    def trajectory(self, state: NoDPState) -> dict[str, float | Tensor]:
        return {"lr": self.lr}

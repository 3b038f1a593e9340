"""The non-private baseline, on the same path: an unbounded query released without noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dp_bench.errors import UserError
from dp_bench.queries import Query, Released
from dp_bench.strategies.base import Strategy

if TYPE_CHECKING:
    from torch import Tensor

OPTIMISERS = ("adam", "sgd")


class NoDPState(NamedTuple):
    step: int
    first: Tensor  # Adam's first moment; SGD's velocity
    second: Tensor


@dataclass(frozen=True, kw_only=True)
class NoDP(Strategy[NoDPState]):
    lr: float
    optimiser: str = "adam"
    momentum: float = 0.9  # SGD's; Adam's β_1
    beta2: float = 0.999
    stabiliser: float = 1e-8

    swept = ("lr",)
    private = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimiser not in OPTIMISERS:
            raise UserError(f"strategy.optimiser: found {self.optimiser!r}, expected one of {', '.join(OPTIMISERS)}")

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

"""DP-SGD with a threshold chosen beforehand (Song et al. 2013, Abadi et al. 2016)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy, clipped_gradient
from dp_bench.strategies.ranges import Decay, Positive


class FixedThresholdState(NamedTuple):
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class FixedThreshold(Strategy[FixedThresholdState]):
    lr: Positive
    clip: Positive
    momentum: Decay = 0.9

    swept: ClassVar[tuple[str, ...]] = ("lr", "clip")
    label = "FixedThreshold"
    color = "#D55E00"
    reference = "Abadi et al. 2016, Deep Learning with Differential Privacy"

    def multipliers(self) -> dict[str, float]:
        return {"gradient": self.noise_multiplier}

    def init(self, params: Tensor) -> FixedThresholdState:
        return FixedThresholdState(velocity=params.new_zeros(params.shape))

    def queries(self, state: FixedThresholdState) -> tuple[Query, ...]:
        return (clipped_gradient(self.clip, self.noise_multiplier),)

    def update(
        self, state: FixedThresholdState, params: Tensor, released: Released
    ) -> tuple[Tensor, FixedThresholdState]:
        velocity = released["gradient"].add(state.velocity, alpha=self.momentum)
        return params.sub(velocity, alpha=self.lr), FixedThresholdState(velocity)

    def trajectory(self, state: FixedThresholdState) -> dict[str, float | Tensor]:
        return {"clip": self.clip, "lr": self.lr}

"""DP-SGD whose threshold is computed from a private histogram of the gradient norms (DC-SGD, TIFS 2025).

20 bins of width h count the norms of each batch, the last one open. An example is in one bin, so that the whole
histogram moves by 1 in the 2-norm: with noise s_H on every bin and s_T C on the gradient, where s_T^-2 + s_H^-2 = ν^-2,
the step is one release of multiplier ν, not the sum of 21.

-P takes a percentile of the histogram as the next threshold; -E minimises the expected squared error of a sanitised
gradient, noise and clipping bias together. The width follows the norms by factors of 2.
"""

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.base import Strategy, clipped_gradient, scalar
from dp_bench.strategies.ranges import Decay, Fraction, Positive, Range

BINS = 20  # the authors'
_MOST_SEARCHES = 32  # of -E in one step: far beyond what a threshold moves, so that none runs forever
_MORE_THAN_ONE = Range("more than 1 (1.01, say): at 1 no budget is left for the histogram", above=1)


class DCSGDState(NamedTuple):
    clip: Tensor  # C_t
    width: Tensor  # h_t
    velocity: Tensor


@dataclass(frozen=True, kw_only=True)
class DCSGD(Strategy[DCSGDState]):
    """What both have in common; `_threshold` tells them apart."""

    lr: Positive
    clip_init: Positive = 0.1  # C_0, as the others'; the first histogram replaces it
    width_init: Positive = 1.0  # h_0
    gradient_share: Annotated[float, _MORE_THAN_ONE] = 1.01  # s_T / ν, as Online's ν_g / ν: s_H = 7.124 ν
    momentum: Decay = 0.9

    swept = ("lr",)
    reference = (
        "DC-SGD: Differentially Private SGD with Dynamic Clipping through Gradient Norm Distribution Estimation, "
        "IEEE TIFS 2025"
    )

    def multipliers(self) -> dict[str, float]:
        """s_T = (ν^-2 - s_H^-2)^(-1/2)."""
        histogram = self.noise_multiplier / math.sqrt(1 - self.gradient_share**-2)  # s_H
        gradient = self.gradient_share * self.noise_multiplier
        return {"gradient": gradient} | {f"bin_{j}": histogram for j in range(BINS)}

    def init(self, params: Tensor) -> DCSGDState:
        return DCSGDState(
            clip=scalar(self.clip_init, params),
            width=scalar(self.width_init, params),
            velocity=params.new_zeros(params.shape),
        )

    def queries(self, state: DCSGDState) -> tuple[Query, ...]:
        z, width = self.multipliers(), state.width

        def count(j: int) -> Query:
            return Query(
                f"bin_{j}",
                "scalar",
                lambda n: ((n / width).floor().clamp(max=BINS - 1) == j).to(n.dtype),
                1.0,
                z[f"bin_{j}"],
            )

        return (clipped_gradient(state.clip, z["gradient"]), *(count(j) for j in range(BINS)))

    def update(self, state: DCSGDState, params: Tensor, released: Released) -> tuple[Tensor, DCSGDState]:
        velocity = released["gradient"].add(state.velocity, alpha=self.momentum)
        clip, width = float(state.clip), float(state.width)
        histogram = [float(released[f"bin_{j}"]) for j in range(BINS)]
        if math.fsum(histogram) > 0:  # else it is all noise, and nothing changes
            clip = self._threshold(histogram, clip, width, params.numel())
            width = _next_width(histogram, width)
        after = DCSGDState(scalar(clip, params), scalar(width, params), velocity)
        return params.sub(velocity, alpha=self.lr), after

    @abstractmethod
    def _threshold(self, histogram: Sequence[float], clip: float, width: float, dimension: int) -> float:
        """The next C, from a histogram H that is not all noise."""

    def trajectory(self, state: DCSGDState) -> dict[str, float | Tensor]:
        return {"clip": state.clip, "lr": self.lr}


def _next_width(histogram: Sequence[float], width: float) -> float:
    """2h if the last bin holds over half of everything, h/2 if the upper half of the bins holds less than 1/20."""
    total = math.fsum(histogram)
    if histogram[-1] > total / 2:
        return 2 * width
    return width / 2 if math.fsum(histogram[BINS // 2 :]) < total / 20 else width


@dataclass(frozen=True, kw_only=True)
class DCSGDP(DCSGD):
    """DC-SGD-P: C is a percentile of the gradient norms."""

    percentile: Fraction = 0.3  # p, the authors'

    label = "DC-SGD-P"
    color = "#1B4F72"
    symbols = {"percentile": "p"}  # noqa: RUF012

    def _threshold(self, histogram: Sequence[float], clip: float, width: float, dimension: int) -> float:
        """The upper edge of the bin with which the cumulated histogram first exceeds p of its total."""
        *_, total = cumulated = list(itertools.accumulate(histogram))
        return width * next((j + 1 for j, some in enumerate(cumulated) if some > self.percentile * total), BINS)


@dataclass(frozen=True, kw_only=True)
class DCSGDE(DCSGD):
    """DC-SGD-E: C minimises the expected squared error of the sanitised gradient."""

    label = "DC-SGD-E"
    color = "#17BECF"

    def _threshold(self, histogram: Sequence[float], clip: float, width: float, dimension: int) -> float:
        """argmin over c in {0.1, 0.2, ..., 2} C, again around the minimum while that is at an end."""
        for _ in range(_MOST_SEARCHES):
            # From above: where rounding makes them equal, a threshold that has become tiny must grow.
            tenths = min(range(20, 0, -1), key=lambda i: self.error(i * clip / 10, histogram, width, dimension))
            clip = tenths * clip / 10
            if 1 < tenths < 20:
                break
        return clip

    def error(self, clip: float, histogram: Sequence[float], width: float, dimension: int) -> float:
        """s_T^2 c^2 d / B^2 + Σ_j H_j ((j + 1/2) h - c)_+^2 / Σ_j H_j: the noise's variance and clipping's bias."""
        noise = (self.multipliers()["gradient"] * clip / self.batch_size) ** 2 * dimension
        lost = (count * max(0.0, (j + 0.5) * width - clip) ** 2 for j, count in enumerate(histogram))
        return noise + math.fsum(lost) / math.fsum(histogram)

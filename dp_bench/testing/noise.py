"""The noise itself: what is released less what was summed, through the training step, for each query.

Two claims that other parts are too blunt for. Each query's noise, scalar ones included, has the standard deviation
(1 + ROUNDING) z_k bound_k: a sum of squares of so many normal numbers is chi-squared, and 4,000 of them show a scale of
0.9 with certainty (a variance of 0.81, eight deviations). A canary sees the whole split only, in which a count is a
small part. And no number comes again: noise that repeats, after whatever number of numbers, cancels in a difference of
two releases. If it did, the correlation of the noise with itself, shifted by that many numbers, would be large; a
Fourier transform finds it at all shifts together, for the numbers and for their squares.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import chi2, norm
from torch import Tensor

from dp_bench.privacy.query import Released
from dp_bench.strategies import Strategy
from dp_bench.testing.harness import Harness, claimed_noise
from dp_bench.testing.results import Finding
from dp_bench.testing.statistics import Numbers
from dp_bench.testing.subjects import Subject

NARROW, WIDE = 16, 50_001  # parameters: for the scales, and for repetitions
STEPS, STEPS_OF_A_SCALAR, WIDE_STEPS = 500, 4000, 6
ERROR = 5e-7  # correct code is refuted so often at most


class Scale(NamedTuple):
    """The measured standard deviation over the claimed one, and between what it must lie."""

    ratio: float
    low: float
    high: float


class _Noise(Harness):
    """Training on one example, always at the same step; the noise of each is kept, over its claimed scale."""

    def __init__(self, strategy: Strategy[Any], width: int, name: str) -> None:
        super().__init__(strategy, torch.zeros(1, width), name)
        self.noises: dict[str, list[Tensor]] = {query.name: [] for query in strategy.queries(self.state)}

    def _update(self, state: Any, params: Tensor, released: Released) -> tuple[Tensor, Any]:
        for name, claimed in claimed_noise(self.wrapped.queries(state), self.wrapped.noise_multiplier).items():
            noise = released[name].double() * self.spec.train.batch_size - self.exact[name].double()
            self.noises[name].append(noise.reshape(-1) / claimed)
        return params, state


def check(subject: Subject, key: str) -> Finding:
    """Has each query's noise the scale that is claimed, and does no number of it come again?"""
    strategy = subject.build(1.0, 20)
    narrow, wide = (
        _Noise(strategy, width, f"{key}, noise, {subject.name}, {width} parameters") for width in (NARROW, WIDE)
    )
    queries = strategy.queries(narrow.state)
    for _ in range(STEPS_OF_A_SCALAR if any(q.kind == "scalar" for q in queries) else STEPS):
        narrow.advance()
    for _ in range(WIDE_STEPS):
        wide.advance()
    share = ERROR / 2 / len(queries)
    scales = {query: scale(torch.cat(noises).numpy(), share) for query, noises in narrow.noises.items()}
    vectors = [wide.noises[q.name] for q in queries if q.kind == "vector"]
    drawn = torch.cat([part for step in zip(*vectors, strict=True) for part in step]).numpy()
    correlation, limit = repetition(drawn, ERROR / 2)
    ratios = ", ".join(f"{name} {scale.ratio:.3f}" for name, scale in scales.items())
    return Finding(
        "noise",
        subject.name,
        f"scale {ratios}; correlation at any lag {correlation:.4f}",
        min(scale.ratio for scale in scales.values()),
        "scale " + ", ".join(f"{s.low:.3f} to {s.high:.3f}" for s in scales.values()) + f"; <= {limit:.4f}",
        holds=correlation <= limit and all(s.low <= s.ratio <= s.high for s in scales.values()),
    )


def scale(noise: Numbers, error: float) -> Scale:
    """Of numbers that are claimed to be standard normal, with the limits that those pass but for this probability."""
    n = len(noise)
    low, high = (math.sqrt(float(chi2.ppf(p, n)) / n) for p in (error / 2, 1 - error / 2))
    return Scale(math.sqrt(float(np.square(noise).mean())), low, high)


def repetition(noise: Numbers, error: float) -> tuple[float, float]:
    """The largest correlation at any shift, of the numbers or of their squares, and the limit."""
    n = len(noise)
    largest = max(_correlation(noise), _correlation(np.square(noise)))
    # Each is a mean of n products, nearly normal of deviation 1 / sqrt(n). A square's tail is heavier: a tenth more.
    return largest, 1.1 * float(norm.isf(error / (4 * n))) / math.sqrt(n)


def _correlation(values: Numbers) -> float:
    """With itself, shifted by 1 to n - 1 numbers, over the values' variance times n."""
    centered = values - values.mean()
    spectrum = np.fft.rfft(centered, 2 * len(values))
    shifted = np.fft.irfft(np.abs(spectrum) ** 2)[: len(values)]
    return float(np.abs(shifted[1:]).max() / shifted[0])

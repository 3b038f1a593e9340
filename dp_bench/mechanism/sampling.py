"""Which examples enter a batch."""

import math

import numpy as np
import torch
from torch import Tensor

from dp_bench.mechanism.rng import Rng
from dp_bench.privacy.accountants import FIXED_SIZE, POISSON


def draw(sampling: str, dataset_size: int, batch_size: int, rng: Rng) -> Tensor:
    """Indices of a batch of `batch_size` examples: on average with `sampling` poisson, exactly with fixed_size."""
    if sampling == POISSON:
        return poisson(dataset_size, batch_size / dataset_size, rng)
    if sampling == FIXED_SIZE:
        return fixed_size(dataset_size, batch_size, rng)
    raise ValueError(f"sampling: expected {POISSON} or {FIXED_SIZE}, got {sampling!r}")


def poisson(dataset_size: int, rate: float, rng: Rng) -> Tensor:
    """Indices of a batch that each example enters independently with probability `rate`.

    Drawn by the gaps between members, which are geometric: G = 1 + floor(ln U / ln(1 - rate)), U uniform in (0, 1].
    That needs N * rate uniforms instead of N. float64, so that no gap is out of reach; drawn until past the end,
    so that nothing is cut off. numpy, which is faster than torch on so few numbers.

    The size of a batch is random and private: divide by its expectation, N * rate, as `release` does.

    >>> from dp_bench import poisson, rng
    >>> batch = poisson(60_000, rate=512 / 60_000, rng=rng("my run, seed 0", "batches"))
    >>> 400 < len(batch) < 620
    True
    """
    if rate >= 1:
        return torch.arange(dataset_size)
    expected = dataset_size * rate
    block = math.ceil(expected + 6 * math.sqrt(expected) + 16)  # almost always enough in one draw
    blocks: list[np.ndarray] = []
    last = -1
    while last < dataset_size:
        uniforms = 1 - rng.uniform(block, torch.float64).numpy()
        with np.errstate(over="ignore", divide="ignore"):  # so small a rate that a gap is infinite
            lengths = np.floor(np.log(uniforms) / math.log1p(-rate))
        # A gap past the end is as good as any other; clamped, so that sums of gaps stay integers.
        gaps = 1 + np.fmin(lengths, dataset_size).astype(np.int64)
        blocks.append(last + gaps.cumsum())
        last = int(blocks[-1][-1])
    positions = np.concatenate(blocks)
    return torch.from_numpy(positions[positions < dataset_size])


def fixed_size(dataset_size: int, batch_size: int, rng: Rng) -> Tensor:
    """Exactly `batch_size` indices without replacement, as Algorithm 1 prints; only for comparison with the paper."""
    if batch_size > dataset_size:
        raise ValueError(f"batch_size: expected at most the {dataset_size} examples there are, got {batch_size}")
    return rng.uniform(dataset_size, torch.float64).argsort()[:batch_size].sort().values

"""Which examples enter a batch."""

import math

import torch
from torch import Tensor


def poisson(dataset_size: int, rate: float, generator: torch.Generator) -> Tensor:
    """Indices of a batch that each example enters independently with probability `rate`.

    Drawn by the gaps between members, which are geometric: G = 1 + floor(ln U / ln(1 - rate)), U uniform in (0, 1].
    That needs N * rate uniforms instead of N. float64, so that no gap is out of reach; drawn until past the end,
    so that nothing is cut off.
    """
    if rate >= 1:
        return torch.arange(dataset_size)
    expected = dataset_size * rate
    block = math.ceil(expected + 6 * math.sqrt(expected) + 16)  # almost always enough at once
    members = torch.empty(0, dtype=torch.int64)
    last = -1
    while last < dataset_size:
        uniforms = 1 - torch.rand(block, generator=generator, dtype=torch.float64)
        # A gap past the end is as good as any other; clamped, so that sums of gaps stay integers.
        gaps = 1 + (uniforms.log() / math.log1p(-rate)).floor().clamp(max=dataset_size).to(torch.int64)
        positions = last + gaps.cumsum(0)
        members = torch.cat([members, positions])
        last = int(positions[-1])
    return members[members < dataset_size]


def fixed_size(dataset_size: int, batch_size: int, generator: torch.Generator) -> Tensor:
    """Exactly `batch_size` indices without replacement, as Algorithm 1 prints; only for comparison with the paper."""
    if batch_size > dataset_size:
        raise ValueError(f"batch_size: found {batch_size}, expected at most the {dataset_size} examples there are")
    return torch.randperm(dataset_size, generator=generator)[:batch_size]

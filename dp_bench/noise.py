"""The only code that adds noise."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dp_bench.queries import Query, Released


def release(
    sums: Mapping[str, Tensor], queries: Sequence[Query], batch_size: int, generator: torch.Generator
) -> Released:
    """(sum + noise_multiplier * bound * N(0, I)) / B, every query with noise of its own.

    B is the nominal batch size: the drawn size is private. An empty batch has zero sums and gets the same noise.
    """
    return {query.name: _noisy(sums[query.name], query, generator) / batch_size for query in queries}


def _noisy(exact: Tensor, query: Query, generator: torch.Generator) -> Tensor:
    if query.noise_multiplier == 0:  # the non-private baseline: its bound is infinite, and inf * 0 is not 0
        return exact
    return exact + _standard_normal(exact, generator).mul_(query.noise_multiplier * query.bound)


def _standard_normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Independent N(0, 1) by Box and Muller, with a tail that reaches 8.57 standard deviations.

    torch's float32 `normal_` ends at 5.77, since its uniforms have 24 bits; a coordinate past that would give an
    example away, on the paper's loosest grids 29 times as often as delta = 1e-5 allows. Here the uniform under the
    logarithm has 53 bits; as a float32 it keeps its exponent, so the rest may stay in single precision.
    """
    half = (like.numel() + 1) // 2
    uniform = 1 - torch.rand(half, dtype=torch.float64, device=like.device, generator=generator)  # (0, 1]
    radius = uniform.to(like.dtype).log_().mul_(-2).sqrt_()
    angle = torch.rand(half, dtype=like.dtype, device=like.device, generator=generator).mul_(2 * math.pi)
    pairs = torch.cat([radius * angle.cos(), radius * angle.sin()])
    return pairs[: like.numel()].view(like.shape)

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
    return {query.name: _noisy(sums[query.name], query, generator).div_(batch_size) for query in queries}


def _noisy(exact: Tensor, query: Query, generator: torch.Generator) -> Tensor:
    if query.noise_multiplier == 0:  # the non-private baseline: its bound is infinite, and inf * 0 is not 0
        return exact.clone()
    return _standard_normal(exact, generator).mul_(query.noise_multiplier * query.bound).add_(exact)


def _standard_normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Independent N(0, 1) by Box and Muller, with a tail that reaches at least 8.57 standard deviations.

    torch's float32 `normal_` ends at 5.77, since its uniforms have 24 bits; a coordinate past that would give an
    example away, on the paper's loosest grids 29 times as often as delta = 1e-5 allows.
    """
    half = (like.numel() + 1) // 2
    radius = _fine_uniform(half, like, generator).log_().mul_(-2).sqrt_()
    angle = torch.rand(half, dtype=like.dtype, device=like.device, generator=generator).mul_(2 * math.pi)
    pairs = like.new_empty(2 * half)
    torch.mul(radius, angle.cos(), out=pairs[:half])
    torch.mul(radius, angle.sin_(), out=pairs[half:])
    return pairs[: like.numel()].view(like.shape)


def _fine_uniform(size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform in (0, 1], its small values in steps of 2^-53 or less: they are the tail."""

    def uniform(size: int, dtype: torch.dtype) -> Tensor:
        return torch.rand(size, dtype=dtype, device=like.device, generator=generator).neg_().add_(1)

    if like.device.type != "cpu":  # a GPU draws doubles in no time, and would have to wait for `nonzero`
        return uniform(size, torch.float64).to(like.dtype)
    # Half the cost on a CPU: single precision, and what lies in (0, 2^-12] drawn again there, in double.
    values = uniform(size, like.dtype)
    small = (values <= 2**-12).nonzero().squeeze(1)
    values[small] = uniform(len(small), torch.float64).mul_(2**-12).to(like.dtype)
    return values

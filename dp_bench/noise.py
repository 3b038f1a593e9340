"""The only code that adds noise."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dp_bench.queries import Query, Released
from dp_bench.streams import Stream


def release(sums: Mapping[str, Tensor], queries: Sequence[Query], batch_size: int, stream: Stream) -> Released:
    """(sum + noise_multiplier * bound * N(0, I)) / B, every query with noise of its own.

    B is the nominal batch size: the drawn size is private. An empty batch has zero sums and gets the same noise.
    """
    return {query.name: _noisy_mean(sums[query.name], query, batch_size, stream) for query in queries}


def _noisy_mean(exact: Tensor, query: Query, batch_size: int, stream: Stream) -> Tensor:
    if query.noise_multiplier == 0:  # the non-private baseline: its bound is infinite, and inf * 0 is not 0
        return exact / batch_size
    scale = query.noise_multiplier * query.bound / batch_size
    return normal(exact, scale, stream).add_(exact, alpha=1 / batch_size)


def normal(like: Tensor, scale: float | Tensor, stream: Stream) -> Tensor:
    """Independent N(0, scale^2) by Box and Muller; the tail reaches 8.57 standard deviations on a GPU, 10.06 on a CPU.

    torch's float32 `normal_` ends at 5.77, since its uniforms have 24 bits; a coordinate past that would give an
    example away, on the paper's loosest grids 29 times as often as delta = 1e-5 allows.
    """
    half = (like.numel() + 1) // 2
    pairs = stream.uniform(2 * half, like.dtype)
    first, second = pairs[:half], pairs[half:]
    _refine(first, stream)
    radius = first.log().mul_(-2).sqrt_().mul_(scale)
    angle = second.mul_(2 * math.pi)
    torch.cos(angle, out=first).mul_(radius)
    angle.sin_().mul_(radius)
    return pairs[: like.numel()].view(like.shape)


def _refine(uniforms: Tensor, stream: Stream) -> None:
    """Give them 11 bits or more at any size in (0, 1), the smallest too: they are the tail."""
    if uniforms.device.type != "cpu":  # a GPU draws doubles in no time, and would have to wait for the indices
        uniforms.copy_(_above_zero(len(uniforms), stream)).clamp_(max=1 - torch.finfo(uniforms.dtype).eps / 2)
        return
    # Half the cost on a CPU: what lies below 2^-20, if anything does, is drawn again there.
    in_numpy = uniforms.numpy()  # the same memory: faster than torch's `amin` and `nonzero`
    if in_numpy.min(initial=1) < 2**-20:
        small = np.flatnonzero(in_numpy < 2**-20)
        in_numpy[small] = _above_zero(len(small), stream).mul_(2**-20)


def _above_zero(size: int, stream: Stream) -> Tensor:
    return 1 - stream.uniform(size, torch.float64)

"""The only code that adds noise."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dp_bench.mechanism.rng import Rng
from dp_bench.privacy.query import Query, Released
from dp_bench.privacy.rounding import rounding


def release(
    sums: Mapping[str, Tensor],
    queries: Sequence[Query],
    batch_size: int,
    rng: Rng,
    dtype: torch.dtype | None = None,
    *,
    noise_multiplier: float | None = None,
) -> Released:
    """(sum + (1 + rounding) * noise_multiplier_k * bound_k * N(0, I)) / B, every query k with noise of its own.

    B is the nominal batch size: the drawn size is private. An empty batch has zero sums and gets the same noise.
    `rounding` (about 1 %) pays for what floating point adds to an example's influence (`dp_bench.privacy.rounding`);
    `noise_multiplier` is the one that the queries are accounted for together, by default each for itself. Vectors are
    released as `dtype`, by default that of their sums, and rounded to it once noise is added.

    >>> import torch
    >>> from dp_bench import Query, release, rng
    >>> clipped = Query("gradient", "vector", lambda n: (1 / n).clamp(max=1), bound=1.0, noise_multiplier=2.0)
    >>> sums = {"gradient": torch.zeros(10_000)}
    >>> released = release(sums, [clipped], batch_size=100, rng=rng("my run", "noise"))
    >>> round(float(released["gradient"].std()), 3)  # 2 x 1 / 100
    0.02
    """
    charged = 1 + rounding(queries, noise_multiplier)
    released = {}
    for query in queries:
        exact = sums[query.name]
        kept = exact.dtype if dtype is None or query.kind == "scalar" else dtype
        if query.noise_multiplier == 0:  # the non-private baseline: its bound is infinite, and inf * 0 is not 0
            released[query.name] = (exact / batch_size).to(kept)
            continue
        scale = charged * query.noise_multiplier * query.bound / batch_size
        released[query.name] = normal(exact, scale, rng, kept).add_(exact, alpha=1 / batch_size)
    return released


def normal(like: Tensor, scale: float | Tensor, rng: Rng, dtype: torch.dtype | None = None) -> Tensor:
    """Independent N(0, scale^2) by Box and Muller, shaped as `like`; a pair reaches 10.06 standard deviations.

    torch's float32 `normal_` ends at 5.77, since its uniforms have 24 bits; a coordinate past that would give an
    example away, on the paper's loosest grids 29 times as often as delta = 1e-5 allows.
    """
    half = (like.numel() + 1) // 2
    pairs = rng.uniform(2 * half, dtype or like.dtype)
    first, second = pairs[:half], pairs[half:]
    _refine(first, rng)
    radius = first.log().mul_(-2).sqrt_().mul_(scale)
    angle = second.mul_(2 * math.pi)
    torch.cos(angle, out=first).mul_(radius)
    angle.sin_().mul_(radius)
    return pairs[: like.numel()].view(like.shape)


def _refine(uniforms: Tensor, rng: Rng) -> None:
    """Give them 11 bits or more at any size from 2^-73 to 1, the smallest too: they are the tail."""
    if uniforms.device.type != "cpu":  # a GPU draws doubles in no time, and would have to wait for the indices
        drawn, again = _above_zero(len(uniforms), rng), _above_zero(len(uniforms), rng)
        fine = torch.where(drawn < 2**-20, again * 2**-20, drawn)
        uniforms.copy_(fine).clamp_(max=1 - torch.finfo(uniforms.dtype).eps / 2)
        return
    # Half the cost on a CPU: what lies below 2^-20, if anything does, is drawn again there.
    in_numpy = uniforms.numpy()  # the same memory: faster than torch's `amin` and `nonzero`
    if in_numpy.min(initial=1) < 2**-20:
        small = np.flatnonzero(in_numpy < 2**-20)
        in_numpy[small] = _above_zero(len(small), rng).mul_(2**-20)


def _above_zero(size: int, rng: Rng) -> Tensor:
    return 1 - rng.uniform(size, torch.float64)

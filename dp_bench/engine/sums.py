"""Weighted sums of per-example gradients for several queries at once."""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dp_bench.engine.flat import FlatModel
from dp_bench.engine.gradients import Gradients, Losses, fastest
from dp_bench.engine.parts import Part, Weights
from dp_bench.queries import Query, bounded_weights

_LARGE_RATIO = 1e6


def clipped_sums(
    model: FlatModel,
    losses: Losses,
    inputs: Tensor,
    targets: Tensor,
    queries: Sequence[Query],
    micro_batch: int,
    gradients: Gradients = fastest,
) -> dict[str, Tensor]:
    """sum_i w_k(n_i) g_i (or sum_i w_k(n_i)) for every query k, n_i the norm of example i's whole gradient.

    Each example's contribution stays within its query's bound whatever its values are: `bounded_weights` clamps
    the weights, and an example whose norm is not finite is left out of everything.
    """
    vectors = [q for q in queries if q.kind == "vector"]
    scalars = [q for q in queries if q.kind == "scalar"]
    vector_sums = model.params.new_empty(0)
    scalar_sums = model.params.new_zeros(len(scalars), dtype=torch.float64)
    ratio = _ratio_of_bounds(vectors, scalar_sums) if len(vectors) == 2 else None
    for i, (x, y) in enumerate(zip(inputs.split(micro_batch), targets.split(micro_batch), strict=True)):
        if len(x) == 0:  # an empty tensor splits into one empty piece
            vector_sums = model.params.new_zeros(len(vectors), model.params.numel())
            continue
        parts = gradients(model, losses, x, y)
        norms = functools.reduce(torch.add, [part.squared_norms() for _, part in parts]).sqrt()
        _drop_non_finite(parts, norms)
        if i == 0:  # not before: the passes through the model need their memory
            vector_sums = model.params.new_empty(len(vectors), model.params.numel())
        if vectors:
            values = _disjoint([bounded_weights(q, norms) for q in vectors], ratio)
            weights = Weights.of(torch.stack(values).to(vector_sums.dtype))
            if sum(where.stop - where.start for where, _ in parts) != model.params.numel():
                raise TypeError(f"{type(model.module).__name__}: a parameter has no gradient, or two")
            for where, part in parts:  # the first time they overwrite what happens to be in memory
                part.add_weighted(weights, vector_sums[:, where], beta=float(i > 0))
        for total, query in zip(scalar_sums, scalars, strict=True):
            total += bounded_weights(query, norms).sum()
        del parts  # before the next ones are made
    if ratio is not None:
        vector_sums[0].addcmul_(vector_sums[1], ratio)
    sums = {q.name: s for q, s in zip(vectors, vector_sums, strict=True)}
    return sums | {q.name: s for q, s in zip(scalars, scalar_sums, strict=True)}


def _ratio_of_bounds(queries: Sequence[Query], like: Tensor) -> Tensor:
    """Of the first to the second, or 0 where it is too large to multiply a sum by: any ratio will do."""
    first, second = queries
    ratio = torch.as_tensor(first.bound, dtype=like.dtype, device=like.device) / second.bound
    return ratio.where(ratio < _LARGE_RATIO, 0.0)


def _disjoint(weights: list[Tensor], ratio: Tensor | None) -> list[Tensor]:
    """Two queries' weights w_0, w_1 as w_0 - r w_1, w_1, r the ratio of their bounds; the sums are mended at the end.

    Where both queries are at their bound w_0 is r w_1, so that Online's two sums are over disjoint examples: those that
    are not clipped, and those that are. Together they cost a linear layer one product, not two. True of any weights.
    """
    if ratio is None:
        return weights
    first, second = weights
    rest = first - ratio * second
    return [rest.where(rest.abs() > 1e-12 * first, 0.0), second]


def _drop_non_finite(parts: Sequence[tuple[slice, Part]], norms: Tensor) -> None:
    # On a CPU looking is cheaper than masking; on a GPU looking would wait for the device.
    if norms.device.type == "cpu" and math.isfinite(norms.sum()):
        return
    bad = ~norms.isfinite()
    for _, part in parts:
        part.drop(bad)

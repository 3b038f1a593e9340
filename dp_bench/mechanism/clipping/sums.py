"""Weighted sums of per-example gradients for several queries in one pass."""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dp_bench.errors import invalid
from dp_bench.mechanism.clipping.flat import FlatModel
from dp_bench.mechanism.clipping.gradients import Gradients, Losses, Passes
from dp_bench.mechanism.clipping.isolated import passes
from dp_bench.mechanism.clipping.parts import Part, Weights
from dp_bench.privacy.query import SMALLEST_BOUND, Query, bounded_weights, jointly_bounded
from dp_bench.privacy.rounding import Summation, summation

_LARGE_RATIO = 1e6
_DTYPES = {"single": torch.float32, "double": torch.float64}


def clipped_sums(
    model: FlatModel,
    losses: Losses,
    inputs: Tensor,
    targets: Tensor,
    queries: Sequence[Query],
    micro_batch: int = 128,
    gradients: Gradients | None = None,
    *,
    examples: int | None = None,
    noise_multiplier: float | None = None,
) -> dict[str, Tensor]:
    """sum_i w_k(n_i) g_i (or sum_i w_k(n_i)) for every query k, n_i the norm of example i's whole gradient.

    Each example's contribution stays within its query's bound whatever its values are: `bounded_weights` clamps
    the weights, and an example whose norm is not finite is left out of everything. Adding or removing one example moves
    a computed sum by at most 1 + ROUNDING times its query's bound (`dp_bench.privacy.rounding`). With a
    `noise_multiplier` nu, that of the whole step, an example's contributions are also bounded jointly: together they
    move the release, in units of its noise, by at most 1/nu (`dp_bench.privacy.query.jointly_bounded`).

    Sums of large batches are double precision, whatever the model's: `release` adds noise before they are rounded.
    `losses(outputs, targets)` gives one loss per example; of `micro_batch` examples at a time the gradients are held in
    memory, which changes a sum by rounding only. No gradient depends on which others are computed with it, to the bit:
    `dp_bench.mechanism.clipping.isolated` tries a model before its first batch, and one that fails is slower. That is
    not so with `gradients` of the caller's choice.

    Of the inputs only the first `examples` (None: all) may be examples, the rest zeros: see `gather`.

    Two examples whose gradients, (3, 4) and (0.3, 0.4), have the norms 5 and 0.5, clipped to 1:

    >>> import torch
    >>> from dp_bench import FlatModel, Query, clipped_sums
    >>> model = FlatModel(torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False)))
    >>> clipped = Query("gradient", "vector", lambda n: (1 / n).clamp(max=1), bound=1.0, noise_multiplier=1.0)
    >>> inputs, targets = torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.zeros(2)
    >>> sums = clipped_sums(model, lambda outputs, targets: outputs[:, 0], inputs, targets, [clipped])
    >>> [round(x, 4) for x in sums["gradient"].tolist()]
    [0.9, 1.2]
    """
    vectors = [q for q in queries if q.kind == "vector"]
    scalars = [q for q in queries if q.kind == "scalar"]
    ordered = vectors + scalars
    if len(inputs) != len(targets):
        raise ValueError(f"targets: expected as many as there are inputs, {len(inputs)}, got {len(targets)}")
    _refuse_short_products()
    examples = len(inputs) if examples is None else examples
    double = model.params.dtype == torch.float64
    way = Summation(micro_batch, "double", "double") if double else summation(examples, micro_batch)
    compute = passes(model, losses, inputs, targets, micro_batch) if gradients is None else _of_all_rows(gradients)
    totals = model.params.new_empty(0)
    scalar_sums = model.params.new_zeros(len(scalars), dtype=torch.float64)
    ratio = _ratio_of_bounds(vectors, scalar_sums)
    if examples == 0:
        totals = model.params.new_zeros(len(vectors), model.params.numel())
        inputs, targets = inputs[:0], targets[:0]
    for i, (x, y) in enumerate(zip(inputs.split(micro_batch), targets.split(micro_batch), strict=True)):
        rows = min(examples - i * micro_batch, micro_batch)
        if rows <= 0:  # nothing but padding, or an empty tensor, which splits into one empty chunk
            break
        parts = compute(model, losses, x, y, rows)
        norms = functools.reduce(torch.add, [part.squared_norms() for _, part in parts]).sqrt()
        _drop_non_finite(parts, norms)
        if i == 0:  # not before: the passes through the model need their memory
            totals = model.params.new_empty(len(vectors), model.params.numel(), dtype=_DTYPES[way.totals])
        allowed: Sequence[Tensor] = [bounded_weights(q, norms) for q in ordered]
        if noise_multiplier is not None:
            allowed = jointly_bounded(ordered, allowed, norms, noise_multiplier)
        if vectors:
            values = _disjoint(allowed[: len(vectors)], ratio)
            weights = Weights.of(torch.stack(values).to(_DTYPES[way.products]))
            if sum(where.stop - where.start for where, _ in parts) != model.params.numel():
                raise TypeError(f"{type(model.module).__name__}: a parameter has no gradient, or two")
            for where, part in parts:  # the first time they overwrite what happens to be in memory
                part.add_weighted(weights, totals[:, where], way.chunk, first=i == 0)
        for total, weights_of_one in zip(scalar_sums, allowed[len(vectors) :], strict=True):
            total += weights_of_one.sum()
        del parts  # before the next ones are made
    if ratio is not None:
        totals[0].addcmul_(totals[1], ratio.to(totals.dtype))
    sums = {q.name: s for q, s in zip(vectors, totals, strict=True)}
    return sums | {q.name: s for q, s in zip(scalars, scalar_sums, strict=True)}


def gather(tensor: Tensor, members: Tensor) -> Tensor:
    """These rows, and zeros up to a multiple of 8: what passes need, so that they need not copy the batch again.

    `clipped_sums(..., gather(x, members), gather(y, members), ..., examples=len(members))`
    """
    rows = tensor.new_empty(len(members) + -len(members) % 8, *tensor.shape[1:])
    torch.index_select(tensor, 0, members, out=rows[: len(members)])
    rows[len(members) :].zero_()
    return rows


def _refuse_short_products() -> None:
    """TF32 and bfloat16 keep 11 bits or fewer; `dp_bench.privacy.rounding` counts on the 24 of single precision."""
    if (set_to := torch.get_float32_matmul_precision()) != "highest":
        expected = "highest, as shorter products lose a sum's sensitivity to rounding"
        remedy = 'call torch.set_float32_matmul_precision("highest")'
        raise invalid("float32_matmul_precision", expected, set_to, remedy)


def _of_all_rows(gradients: Gradients) -> Passes:
    return lambda model, losses, x, y, rows: gradients(model, losses, x[:rows], y[:rows])


def _ratio_of_bounds(vectors: Sequence[Query], like: Tensor) -> Tensor | None:
    """Of the first query's to the second's, if that one only sees what the first clips; see `_disjoint`.

    0 where it is too large to multiply a sum by, or the bound too small to be trusted: then the sums are made
    separately, and one of too small a bound is 0.
    """
    if len(vectors) != 2 or not vectors[1].clipped_only:
        return None
    bound = torch.as_tensor(vectors[0].bound, dtype=like.dtype, device=like.device)
    ratio = bound / vectors[1].bound
    return ratio.where((ratio < _LARGE_RATIO) & (bound >= SMALLEST_BOUND), 0.0)


def _disjoint(weights: Sequence[Tensor], ratio: Tensor | None) -> list[Tensor]:
    """Online's weights w_0, w_1 as sums over disjoint examples: those that are not clipped, and those that are.

    Where w_1 is not 0, w_0 is r w_1, r the ratio of the bounds; what is left of w_0 is put together with r times the
    second sum at the end. Together they cost a linear layer one product, not two.
    """
    if ratio is None:
        return list(weights)
    first, second = weights
    return [first.masked_fill((second != 0) & (ratio > 0), 0.0), second]


def _drop_non_finite(parts: Sequence[tuple[slice, Part]], norms: Tensor) -> None:
    # On a CPU looking is cheaper than masking; on a GPU looking would wait for the device.
    if norms.device.type == "cpu" and math.isfinite(norms.sum()):
        return
    bad = ~norms.isfinite()
    for _, part in parts:
        part.drop(bad)

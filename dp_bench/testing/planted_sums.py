"""Bugs to plant in what is summed, before any noise: see `dp_bench.testing.planted`."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dp_bench.mechanism.clipping import sums
from dp_bench.mechanism.clipping.flat import FlatModel, flattened
from dp_bench.mechanism.clipping.gradients import Losses, Passes, batched_gradients
from dp_bench.mechanism.clipping.parts import Materialised, OuterProduct, Part
from dp_bench.privacy.query import Query, bounded_weights
from dp_bench.strategies import Strategy
from dp_bench.testing.harness import patched
from dp_bench.training import trainer as training


@contextmanager
def infinite_gradient_times_zero(strategy: Strategy[Any]) -> Iterator[None]:
    """The weight of an infinite gradient is C/inf = 0, and 0 * inf is NaN, in every sum that it is in."""
    with patched(sums, _drop_non_finite=lambda parts, norms: None):
        yield


@contextmanager
def infinite_gradient_unclipped(strategy: Strategy[Any]) -> Iterator[None]:
    """The weight of an infinite gradient is 1, as if C/n had been compared the wrong way round."""

    def planted(query: Query, norms: Tensor) -> Tensor:
        return bounded_weights(query, norms).where(norms.isfinite(), 1.0)

    with patched(sums, _drop_non_finite=lambda parts, norms: None, bounded_weights=planted):
        yield


@contextmanager
def single_precision_sums(strategy: Strategy[Any]) -> Iterator[None]:
    """Weighted gradients are added to one single-precision sum as they come: rounding escapes the bound."""
    with patched(training, clipped_sums=_sums_in_single_precision):
        yield


def _sums_in_single_precision(
    model: FlatModel,
    losses: Losses,
    inputs: Tensor,
    targets: Tensor,
    queries: Sequence[Query],
    micro_batch: int,
    examples: int | None = None,
    **options: Any,
) -> dict[str, Tensor]:
    totals = {q.name: torch.zeros(model.params.numel() if q.kind == "vector" else 1) for q in queries}
    inputs, targets = inputs[:examples], targets[:examples]
    for x, y in zip(inputs.split(micro_batch), targets.split(micro_batch), strict=True):
        parts = batched_gradients(model, losses, x, y)
        norms = functools.reduce(torch.add, [part.squared_norms() for _, part in parts]).sqrt()
        for query in queries:
            weights, total = bounded_weights(query, norms)[None].float(), totals[query.name]
            if query.kind == "scalar":
                total += weights.sum()
                continue
            for where, part in parts:
                total[None, where].addmm_(weights, _per_example(part))
    return {q.name: totals[q.name] if q.kind == "vector" else totals[q.name][0] for q in queries}


def _per_example(part: Part) -> Tensor:
    if isinstance(part, OuterProduct):
        return flattened(part.outer[:, :, None] * part.inner[:, None])
    assert isinstance(part, Materialised)
    return torch.cat(part.gradients, dim=1)


@contextmanager
def passes_untried(strategy: Strategy[Any]) -> Iterator[None]:
    """Every model is computed in passes of multiples of 8 rows, which isolate examples in most models only."""
    with patched(sums, passes=lambda *_: batched_gradients):
        yield


@contextmanager
def passes_without_padding(strategy: Strategy[Any]) -> Iterator[None]:
    """Passes of few rows are rounded otherwise: one example more changes the others' norms."""

    def untried(*_: Any) -> Passes:
        return lambda model, losses, x, y, rows: batched_gradients(model, losses, x[:rows], y[:rows], multiple=1)

    with patched(sums, passes=untried):
        yield

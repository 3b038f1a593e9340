"""Bugs to plant, one at a time, and the parts of the audit that must find them.

Each is a context manager that changes what `Training.advance` calls for as long as it is open; the auditor's parts do
not know about any of them. A check that misses one of these would also miss it in a new strategy or engine.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from dp_bench.mechanism import noise, sampling
from dp_bench.mechanism.clipping import sums
from dp_bench.mechanism.clipping.flat import FlatModel
from dp_bench.mechanism.clipping.gradients import Losses, batched_gradients
from dp_bench.mechanism.clipping.parts import Materialised
from dp_bench.mechanism.rng import Rng, rng
from dp_bench.privacy.query import Query, Released, bounded_weights
from dp_bench.strategies import Strategy
from dp_bench.testing.oracles import general
from dp_bench.training import trainer as training

Planted = AbstractContextManager[object]
Plant = Callable[[Strategy[Any]], Planted]
Sums = Mapping[str, Tensor]


def _released_with(multipliers: Mapping[str, float]) -> Callable[..., Released]:
    """`release` with these noise multipliers instead of the queries' own."""

    def planted(exact: Sums, queries: Sequence[Query], *more: Any, **options: Any) -> Released:
        queries = [q._replace(noise_multiplier=multipliers.get(q.name, q.noise_multiplier)) for q in queries]
        return noise.release(exact, queries, *more, **options)

    return planted


def gradient_multiplier_on_direction(strategy: Strategy[Any]) -> Planted:
    """Online's Algorithm 1 as printed: nu_g, not nu_q, on its second query. True mu: 1.40 times the claim."""
    return patch.multiple(training, release=_released_with({"direction": strategy.multipliers()["gradient"]}))


def noise_of_the_first_threshold(strategy: Strategy[Any]) -> Planted:
    """Noise nu_g C_0 on a sum whose bound has become C_t = 2 C_0. True mu: 1.45 to 1.99 times the claim."""
    first = strategy.queries(strategy.init(torch.zeros(3)))
    return patch.multiple(training, release=lambda exact, queries, *more, **o: noise.release(exact, first, *more, **o))


@contextmanager
def divided_by_the_drawn_size(strategy: Strategy[Any]) -> Iterator[None]:
    """Sums are divided by the number of examples drawn, which is private. True mu: 1.2 to 2 times the claim."""
    draw, drawn = training.Training._draw, [torch.empty(0)]

    def remembering_draw(self: training.Training) -> Tensor:
        drawn[0] = draw(self)
        return drawn[0]

    def planted(exact: Sums, queries: Sequence[Query], batch_size: int, *more: Any, **options: Any) -> Released:
        return noise.release(exact, queries, len(drawn[0]), *more, **options)

    with patch.object(training.Training, "_draw", remembering_draw), patch.multiple(training, release=planted):
        yield


def whole_budget_on_the_gradient(strategy: Strategy[Any]) -> Planted:
    """nu on the gradient and the second query on top of it. True mu: 1.22 to 1.28 times the claim."""
    return patch.multiple(training, release=_released_with({"gradient": strategy.noise_multiplier}))


def one_noise_vector(strategy: Strategy[Any]) -> Planted:
    """The same normal numbers for both queries: a difference of the two has no noise at all."""

    def planted(
        exact: Sums, queries: Sequence[Query], batch_size: int, rng: Rng, *more: Any, **options: Any
    ) -> Released:
        start, released = rng.state(), dict[str, Tensor]()
        for query in queries:
            rng.restore(start)
            released |= noise.release(exact, [query], batch_size, rng, *more, **options)
        return released

    return patch.multiple(training, release=planted)


def noise_times_0_7(strategy: Strategy[Any]) -> Planted:
    """Every query gets 0.7 times the noise that is claimed. True mu: 1.43 times the claim."""
    return patch.multiple(training, release=_released_with({n: 0.7 * z for n, z in strategy.multipliers().items()}))


def doubled_release(strategy: Strategy[Any]) -> Planted:
    """Every sum is released twice with fresh noise, of which the mean is kept. True mu: sqrt(2) times the claim."""

    def planted(*arguments: Any, **options: Any) -> Released:
        once, again = (noise.release(*arguments, **options) for _ in range(2))
        return {name: (value + again[name]) / 2 for name, value in once.items()}

    return patch.multiple(training, release=planted)


def key_without_the_data(strategy: Strategy[Any]) -> Planted:
    """Batches and noise are keyed by the run's name only: two training sets of one name get the same noise."""
    return patch.multiple(training, noise_key=lambda spec: str(spec.folder))


def drawn_twice_as_often(strategy: Strategy[Any]) -> Planted:
    """Examples enter a batch with twice the probability that is accounted for."""
    poisson = sampling.poisson
    return patch.multiple(sampling, poisson=lambda dataset_size, rate, rng: poisson(dataset_size, 2 * rate, rng))


def no_noise_for_an_empty_batch(strategy: Strategy[Any]) -> Planted:
    """A step without examples is skipped: that the sample is empty is released without noise."""

    def planted(exact: Sums, queries: Sequence[Query], batch_size: int, *more: Any, **options: Any) -> Released:
        if not any(value.any() for value in exact.values()):
            return {q.name: exact[q.name] / batch_size for q in queries}
        return noise.release(exact, queries, batch_size, *more, **options)

    return patch.multiple(training, release=planted)


@contextmanager
def momentum_of_exact_sums(strategy: Strategy[Any]) -> Iterator[None]:
    """The state is updated by the sums without their noise: what is kept of them comes back in later parameters."""
    kind, exact_means = type(strategy), dict[int, dict[str, Tensor]]()
    update = kind.update

    def remembering(exact: Sums, queries: Sequence[Query], batch_size: int, *more: Any, **options: Any) -> Released:
        released = noise.release(exact, queries, batch_size, *more, **options)
        means = {name: (value / batch_size).to(released[name].dtype) for name, value in exact.items()}
        exact_means[0] = means
        return released

    def planted(self: Any, state: Any, params: Tensor, released: Released) -> tuple[Tensor, Any]:
        return update(self, state, params, released)[0], update(self, state, params, exact_means[0])[1]

    with patch.multiple(training, release=remembering), patch.multiple(kind, update=planted):
        yield


def count_noise_times_0_9(strategy: Strategy[Any]) -> Planted:
    """A scalar query gets 0.9 times the noise that is claimed."""
    scalars = [q.name for q in strategy.queries(strategy.init(torch.zeros(3))) if q.kind == "scalar"]
    return patch.multiple(training, release=_released_with({n: 0.9 * strategy.multipliers()[n] for n in scalars}))


def noise_that_repeats(strategy: Strategy[Any]) -> Planted:
    """The generators begin again after 65,536 numbers: a difference of two releases has no noise in places."""
    return patch.multiple(training, rng=lambda *arguments: _Repeating(rng(*arguments)))


class _Repeating:
    PERIOD = 65_536

    def __init__(self, source: Rng) -> None:
        self._source, self._start, self._drawn = source, source.state(), 0

    def uniform(self, size: int, dtype: torch.dtype) -> Tensor:
        chunks = [torch.empty(0, dtype=dtype)]
        while size > 0:
            if self._drawn == self.PERIOD:
                self._source.restore(self._start)
                self._drawn = 0
            chunk = min(size, self.PERIOD - self._drawn)
            chunks.append(self._source.uniform(chunk, dtype))
            size, self._drawn = size - chunk, self._drawn + chunk
        return torch.cat(chunks)


def constant_secure_key(strategy: Strategy[Any]) -> Planted:
    """With seed=secure every run has the same key, which anyone can read in the code."""
    return patch.multiple(training, secrets=SimpleNamespace(token_hex=lambda size: "0" * 2 * size))


# Bugs in what is summed, before any noise.


def infinite_gradient_times_zero(strategy: Strategy[Any]) -> Planted:
    """The weight of an infinite gradient is C/inf = 0, and 0 * inf is NaN, in every sum that it is in."""
    return patch.multiple(sums, _drop_non_finite=lambda parts, norms: None)


def infinite_gradient_unclipped(strategy: Strategy[Any]) -> Planted:
    """The weight of an infinite gradient is 1, as if C/n had been compared the wrong way round."""

    def planted(query: Query, norms: Tensor) -> Tensor:
        return bounded_weights(query, norms).where(norms.isfinite(), 1.0)

    return patch.multiple(sums, _drop_non_finite=lambda parts, norms: None, bounded_weights=planted)


def single_precision_sums(strategy: Strategy[Any]) -> Planted:
    """Weighted gradients are added to one single-precision sum as they come: rounding escapes the bound."""
    return patch.multiple(training, clipped_sums=_sums_in_single_precision)


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
        parts = general(model, losses, x, y)
        norms = functools.reduce(torch.add, [part.squared_norms() for _, part in parts]).sqrt()
        for query in queries:
            weights, total = bounded_weights(query, norms)[None].float(), totals[query.name]
            if query.kind == "scalar":
                total += weights.sum()
                continue
            for where, part in parts:
                assert isinstance(part, Materialised)
                total[None, where].addmm_(weights, torch.cat(part.tensors, dim=1))
    return {q.name: totals[q.name] if q.kind == "vector" else totals[q.name][0] for q in queries}


def passes_untried(strategy: Strategy[Any]) -> Planted:
    """Every model is computed in passes of multiples of 8 rows, which isolate examples in most models only."""
    return patch.multiple(sums, passes=lambda *_: batched_gradients)


def passes_without_padding(strategy: Strategy[Any]) -> Planted:
    """Passes of few rows are rounded otherwise: one example more changes the others' norms."""

    def unpadded(model: FlatModel, losses: Losses, x: Tensor, y: Tensor, rows: int) -> Any:
        return batched_gradients(model, losses, x[:rows], y[:rows], multiple=1)

    return patch.multiple(sums, passes=lambda *_: unpadded)

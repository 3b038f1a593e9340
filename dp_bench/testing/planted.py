"""Bugs to plant, one at a time, and the parts of the audit that must find them.

Each is a context manager that changes what `Training.advance` calls for as long as it is open; the auditor's parts do
not know about any of them. A check that misses one of these would also miss it in a new strategy or engine.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from dp_bench.experiment.spec import RunSpec
from dp_bench.mechanism import noise, sampling
from dp_bench.mechanism.rng import Rng, rng
from dp_bench.privacy.query import Query, Released
from dp_bench.strategies import Strategy
from dp_bench.testing.harness import patched
from dp_bench.training import trainer as training

Plant = Callable[[Strategy[Any]], AbstractContextManager[None]]
Sums = Mapping[str, Tensor]


def _released_with(multipliers: Mapping[str, float]) -> Callable[..., Released]:
    """`release` with these noise multipliers instead of the queries' own."""

    def planted(exact: Sums, queries: Sequence[Query], *more: Any, **options: Any) -> Released:
        queries = [q._replace(noise_multiplier=multipliers.get(q.name, q.noise_multiplier)) for q in queries]
        return noise.release(exact, queries, *more, **options)

    return planted


@contextmanager
def gradient_multiplier_on_direction(strategy: Strategy[Any]) -> Iterator[None]:
    """Online's Algorithm 1 as printed: nu_g, not nu_q, on its second query. True mu: 1.40 times the claim."""
    with patched(training, release=_released_with({"direction": strategy.multipliers()["gradient"]})):
        yield


@contextmanager
def noise_of_the_first_threshold(strategy: Strategy[Any]) -> Iterator[None]:
    """Noise nu_g C_0 on a sum whose bound has become C_t = 2 C_0. True mu: 1.45 to 1.99 times the claim."""
    first = strategy.queries(strategy.init(torch.zeros(3)))

    def planted(exact: Sums, queries: Sequence[Query], *more: Any, **options: Any) -> Released:
        return noise.release(exact, first, *more, **options)

    with patched(training, release=planted):
        yield


@contextmanager
def divided_by_the_drawn_size(strategy: Strategy[Any]) -> Iterator[None]:
    """Sums are divided by the number of examples drawn, which is private. True mu: 1.2 to 2 times the claim."""
    draw, drawn = training.Training._draw, [torch.empty(0)]

    def remembering_draw(self: training.Training) -> Tensor:
        drawn[0] = draw(self)
        return drawn[0]

    def planted(exact: Sums, queries: Sequence[Query], batch_size: int, *more: Any, **options: Any) -> Released:
        return noise.release(exact, queries, len(drawn[0]), *more, **options)

    with patched(training.Training, _draw=remembering_draw), patched(training, release=planted):
        yield


@contextmanager
def whole_budget_on_the_gradient(strategy: Strategy[Any]) -> Iterator[None]:
    """nu on the gradient and the second query on top of it. True mu: 1.22 to 1.28 times the claim."""
    with patched(training, release=_released_with({"gradient": strategy.noise_multiplier})):
        yield


@contextmanager
def one_noise_vector(strategy: Strategy[Any]) -> Iterator[None]:
    """The same normal numbers for both queries: a difference of the two has no noise at all."""

    def planted(
        exact: Sums, queries: Sequence[Query], batch_size: int, rng: Rng, *more: Any, **options: Any
    ) -> Released:
        start, released = rng.state(), dict[str, Tensor]()
        for query in queries:
            rng.restore(start)
            released |= noise.release(exact, [query], batch_size, rng, *more, **options)
        return released

    with patched(training, release=planted):
        yield


@contextmanager
def noise_times_0_7(strategy: Strategy[Any]) -> Iterator[None]:
    """Every query gets 0.7 times the noise that is claimed. True mu: 1.43 times the claim."""
    with patched(training, release=_released_with({n: 0.7 * z for n, z in strategy.multipliers().items()})):
        yield


@contextmanager
def doubled_release(strategy: Strategy[Any]) -> Iterator[None]:
    """Every sum is released twice with fresh noise, of which the mean is kept. True mu: sqrt(2) times the claim."""

    def planted(*arguments: Any, **options: Any) -> Released:
        once, again = (noise.release(*arguments, **options) for _ in range(2))
        return {name: (value + again[name]) / 2 for name, value in once.items()}

    with patched(training, release=planted):
        yield


@contextmanager
def key_without_the_data(strategy: Strategy[Any]) -> Iterator[None]:
    """Batches and noise are keyed by the run's name only: two training sets of one name get the same noise."""

    def planted(spec: RunSpec) -> str:
        return str(spec.folder)

    with patched(training, noise_key=planted):
        yield


@contextmanager
def drawn_twice_as_often(strategy: Strategy[Any]) -> Iterator[None]:
    """Examples enter a batch with twice the probability that is accounted for."""
    poisson = sampling.poisson

    def planted(dataset_size: int, rate: float, rng: Rng) -> Tensor:
        return poisson(dataset_size, 2 * rate, rng)

    with patched(sampling, poisson=planted):
        yield


@contextmanager
def no_noise_for_an_empty_batch(strategy: Strategy[Any]) -> Iterator[None]:
    """A step without examples is skipped: that the sample is empty is released without noise."""

    def planted(exact: Sums, queries: Sequence[Query], batch_size: int, *more: Any, **options: Any) -> Released:
        if not any(value.any() for value in exact.values()):
            return {q.name: exact[q.name] / batch_size for q in queries}
        return noise.release(exact, queries, batch_size, *more, **options)

    with patched(training, release=planted):
        yield


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

    with patched(training, release=remembering), patched(kind, update=planted):
        yield


@contextmanager
def count_noise_times_0_9(strategy: Strategy[Any]) -> Iterator[None]:
    """A scalar query gets 0.9 times the noise that is claimed."""
    scalars = [q.name for q in strategy.queries(strategy.init(torch.zeros(3))) if q.kind == "scalar"]
    with patched(training, release=_released_with({n: 0.9 * strategy.multipliers()[n] for n in scalars})):
        yield


@contextmanager
def noise_that_repeats(strategy: Strategy[Any]) -> Iterator[None]:
    """The generators begin again after 65,536 numbers: a difference of two releases has no noise in places."""

    def planted(*arguments: Any) -> Rng:
        return _Repeating(rng(*arguments))

    with patched(training, rng=planted):
        yield


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

    def state(self) -> Any:
        return self._source.state()

    def restore(self, state: Any) -> None:
        self._source.restore(state)


@contextmanager
def constant_secure_key(strategy: Strategy[Any]) -> Iterator[None]:
    """With seed=secure every run has the same key, which anyone can read in the code."""
    with patched(training, secrets=SimpleNamespace(token_hex=lambda size: "0" * 2 * size)):
        yield

"""Training on tensors made for an audit: every step goes through `Training.advance`, as a run's steps do."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from dp_bench.mechanism.clipping import FlatModel
from dp_bench.privacy.query import Query, Released, bounded_weights
from dp_bench.privacy.rounding import rounding
from dp_bench.strategies import Strategy
from dp_bench.training import trainer as training

MICRO_BATCH = 64
K = 1e6  # the norm of a gradient far above any threshold
Losses = Callable[[Tensor, Tensor], Tensor]


def linear_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """sum output * target: the gradient of a linear layer's weight is then input * target, whatever the weight is."""
    return (outputs * targets).flatten(1).sum(1)


def linear(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 1, bias=False))


class Harness(training.Training):
    """A run of this strategy on these tensors. `advance` and the sampler are inherited; nothing is read or stored.

    By default the model and its loss are linear, so that an example's gradient is its input. In place of the strategy's
    own update (`wrapped.update`), `_update` is called.
    """

    spec: Any
    recipe: Any
    strategy: Any

    def __init__(
        self,
        strategy: Strategy[Any],
        inputs: Tensor,
        name: str,
        targets: Tensor | None = None,
        module: nn.Module | None = None,
        losses: Losses = linear_losses,
        micro_batch: int = MICRO_BATCH,
    ) -> None:
        self.spec = SimpleNamespace(
            strategy=type(strategy).__name__,
            train=SimpleNamespace(batch_size=strategy.batch_size),
            sampling="poisson",
            machine=SimpleNamespace(micro_batch=micro_batch),
        )
        self.recipe = SimpleNamespace(losses=losses)
        self.device = torch.device("cpu")
        self.train_x = inputs
        self.train_y = torch.ones(len(inputs), 1) if targets is None else targets
        self.model = FlatModel(module or linear(inputs.shape[1]))
        self.wrapped, self.strategy = strategy, _Intercepted(strategy, self._update)
        self.restart(name)

    def restart(self, name: str) -> None:
        """From step 0, with batches and noise keyed by `name`; the parameters stay where they are."""
        self.key, self.step = name, 0
        self.state = self.wrapped.init(self.model.params)
        self._open_generators()

    def _sums(self, queries: Sequence[Query], noise_multiplier: float | None = None) -> dict[str, Tensor]:
        self.exact = super()._sums(queries, noise_multiplier)
        return self.exact

    def _update(self, state: Any, params: Tensor, released: Released) -> tuple[Tensor, Any]:
        raise NotImplementedError


class _Intercepted:
    """The strategy, with `update` in place of its own."""

    def __init__(self, strategy: Strategy[Any], update: Callable[..., tuple[Tensor, Any]]) -> None:
        self.wrapped, self.update = strategy, update

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def claimed_noise(queries: Sequence[Query], nu: float) -> dict[str, float]:
    """The standard deviation of the noise on each sum, (1 + `rounding`) z_k bound_k."""
    charged = 1 + rounding(queries, nu)
    return {query.name: charged * query.noise_multiplier * float(query.bound) for query in queries}


def contribution(query: Query) -> float:
    """Of a gradient of norm K: w(K) K to a vector sum, w(K) to a scalar one."""
    weight = float(bounded_weights(query, torch.tensor([K], dtype=torch.float64)))
    return weight * K if query.kind == "vector" else weight


def distances(queries: Sequence[Query], one: dict[str, Tensor], other: dict[str, Tensor]) -> list[float]:
    """How far each query's sum is from another, in units of its bound."""
    return [float((one[q.name].double() - other[q.name].double()).norm() / q.bound) for q in queries]


def moved(
    model: FlatModel, losses: Losses, strategy: Strategy[Any], micro_batch: int, *worlds: tuple[Tensor, Tensor]
) -> float:
    """How far a sum of `clipped_sums` over the first of these inputs and targets is from any other's, in bounds."""
    queries, compute = strategy.queries(strategy.init(model.params)), in_training("clipped_sums")
    first, *others = (compute(model, losses, *world, queries, micro_batch) for world in worlds)
    found = [distance for sums in others for distance in distances(queries, first, sums)]
    return max(distance if math.isfinite(distance) else math.inf for distance in found)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Tiny steps on several threads take longer, and a claim is about the bits of one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def in_training(name: str) -> Any:
    """What training calls by this name at the moment: a planted bug may have replaced it."""
    return getattr(training, name)

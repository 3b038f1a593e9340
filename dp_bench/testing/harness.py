"""Training on tensors made for an audit: every step goes through `Training.advance`, as a run's steps do."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from dp_bench.mechanism.clipping import FlatModel
from dp_bench.privacy.query import Released
from dp_bench.strategies import Strategy
from dp_bench.training import trainer as training

MICRO_BATCH = 64
Losses = Callable[[Tensor, Tensor], Tensor]
Update = Callable[[Any, Tensor, Released], tuple[Tensor, Any]]


def linear_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """sum output * target: the gradient of a linear layer's weight is then input * target, whatever the weight is."""
    return (outputs * targets).flatten(1).sum(1)


class Harness(training.Training):
    """A run of this strategy on these tensors. `advance` and the sampler are inherited; nothing is read or stored."""

    spec: Any
    recipe: Any
    strategy: Any

    def __init__(
        self,
        strategy: Strategy[Any],
        module: nn.Module,
        losses: Losses,
        inputs: Tensor,
        targets: Tensor,
        name: str,
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
        self.train_x, self.train_y = inputs, targets
        self.model = FlatModel(module)
        self.strategy = strategy
        self.restart(name)

    def restart(self, name: str) -> None:
        """From step 0, with batches and noise keyed by `name`; the parameters stay where they are."""
        self.key, self.step = name, 0
        self.state = self.strategy.init(self.model.params)
        self._open_generators()


class Intercepted:
    """The strategy, with `update` in place of its own."""

    def __init__(self, strategy: Strategy[Any], update: Update) -> None:
        self.wrapped, self.update = strategy, update

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


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


@contextlib.contextmanager
def patched(owner: Any, **replacements: Any) -> Iterator[None]:
    """These attributes of a module or class, replaced for a while."""
    originals = {name: getattr(owner, name) for name in replacements}
    try:
        for name, value in replacements.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in originals.items():
            setattr(owner, name, value)

"""What a task is: a data set, the model trained on it, loss and metric, and how they are called in print.

A task is a class with the attributes and methods below: here, or in another package under the entry point
`dp_bench.tasks`. `Classification` and `Reconstruction` have the loss, the metric and its names; an author adds the
files, the arrays read from them, and the model. torch is imported only when a model or tensors are made.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from dp_bench.data import Arrays, Collection, Found, Rows, Source, Version, find, tensors
from dp_bench.tasks import synthetic

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dp_bench.data.tensors import Dataset

Options = Mapping[str, Any]
"""The values of a run's dataset.* and model.* keys, by the last part of their names."""


@dataclass(frozen=True)
class Recipe:
    """How a model is made, trained and judged: loss and score are per example, the metric is the mean score."""

    build: "Callable[[], nn.Sequential]"
    losses: "Callable[[Tensor, Tensor], Tensor]"
    scores: "Callable[[Tensor, Tensor], Tensor]"


def ranked(diverged: bool, value: float, higher_is_better: bool) -> tuple[bool, float]:
    """What sorts candidates of a search from best to worst: diverged ones come last, as do those without a value."""
    worst_last = -value if higher_is_better else value
    return diverged, worst_last if math.isfinite(value) else math.inf


class Task(ABC):
    """One instance per data set. Methods that a task implements get all its options, defaults included."""

    name: ClassVar[str]
    title: ClassVar[str]  # in print
    collections: tuple[Collection, ...]  # its files, the texts or images first
    # dataset.* keys that the arrays depend on, and model.* keys that the model does, each with its default (a built-in
    # task's is the paper's value): true or false, a number or text.
    data_options: ClassVar[Options] = {}
    model_options: ClassVar[Options] = {}
    classes: ClassVar[int | None]  # None: the inputs themselves are the targets

    model: ClassVar[str]
    model_title: ClassVar[str]  # in print
    published_size: ClassVar[int | None] = None  # parameters of the model, as the paper prints it

    metric: ClassVar[str]
    higher_is_better: ClassVar[bool]
    metric_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)  # a stored value outside is damaged
    scale: ClassVar[float]  # the metric is multiplied by it to be printed
    metric_column: ClassVar[str]  # the heading of a column of metrics
    metric_axis: ClassVar[str]  # the label of a figure's axis
    metric_words: ClassVar[str]  # in a sentence

    epsilons: ClassVar[tuple[float, ...]] = (3, 5, 7, 9)  # budgets per grid, the paper's where it has the data set
    # Examples per chunk of per-example gradients: what fits the cache. Bits depend on it.
    micro_batch: int = 128
    step_cost: ClassVar[float] = 1  # about how long a step takes, in steps of the bag of words
    synthetic_rows: ClassVar[tuple[int, int]] = (6_000, 1_000)  # training and test rows of the synthetic twin

    @abstractmethod
    def shape(self, options: Options) -> tuple[int, ...]:
        """Of one input."""

    @abstractmethod
    def arrays(self, files: Mapping[str, Found], rows: Rows, options: Options) -> Arrays:
        """The data set out of its verified files by role; of the training examples only `rows`."""

    @abstractmethod
    def build(self, options: Options) -> "nn.Sequential":
        """The model, its weights drawn from torch's global generator."""

    @abstractmethod
    def losses(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        """One per example."""

    @abstractmethod
    def scores(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        """One per example; their mean over the test set is the metric."""

    def synthetic(self, rows: Rows, options: Options) -> Arrays:
        """Generated data of the same shape with something to learn, for machines without the real data."""
        return synthetic.clusters(self.shape(options), self.classes, self.synthetic_rows, rows)

    def rows(self, versions: Mapping[str, Version]) -> tuple[int, int]:
        """How many training and test rows there are in files of these versions, by role."""
        return versions["train"].rows, versions["test"].rows

    def official_rows(self) -> tuple[int, int]:
        """How many there are in the official files."""
        files = [item for collection in self.collections for item in collection.files.items()]
        return self.rows({role: file.versions[0] for role, file in files})

    def check(self, options: Options) -> None:  # noqa: B027
        """Raise UserError for options that are out of range."""

    def better(self, a: float, b: float) -> bool:
        """Whether metric `a` is better than `b`; nothing is worse than NaN."""
        if b != b:
            return a == a
        return a > b if self.higher_is_better else a < b

    def recipe(self, options: Options | None = None) -> Recipe:
        """The model with these options, and how it is trained and judged."""
        return Recipe(partial(self.build, self._complete(options)), self.losses, self.scores)

    def describe(self, options: Options | None = None, *, fetch: bool = True) -> Source:
        """The source of what `load` returns. Fetches what is missing; without `fetch`, describes the official files."""
        return self._resolve(self._complete(options), fetch).source

    def load(self, options: Options | None = None) -> "Dataset":
        """The data set as tensors.

        `stand_in` among the options allows the synthetic twin where the real data is not to be had; `limit` takes that
        many training rows, chosen by a fixed public shuffle. The data set's `source` says which data these are.
        """
        return tensors.load(self._making(self._complete(options)))

    def verify_cached(self) -> list[str]:
        """Make the cached tensors again from the files, remove what differs, and return one line for each."""
        return tensors.verify_cached(
            self.name, lambda origin: self._making(self._complete({**origin, "limit": int(origin["rows"])}))
        )

    def _making(self, options: Options) -> tensors.Making:
        self.check(options)
        resolved = self._resolve(options, fetch=True)
        arrays = partial(self.arrays, resolved.files) if resolved.files else self.synthetic
        data_options = {name: options[name] for name in self.data_options}
        kind = type(self)
        if kind.__module__.partition(".")[0] != __name__.partition(".")[0]:  # two packages may use one name
            data_options["task"] = f"{kind.__module__}:{kind.__qualname__}"
        return tensors.Making(self.name, resolved, data_options, lambda rows: arrays(rows, options))

    def _complete(self, options: Options | None) -> Options:
        return {"limit": None, "stand_in": False, **self.data_options, **self.model_options, **(options or {})}

    def _resolve(self, options: Options, fetch: bool) -> find.Resolved:
        twin = Source("stand-in", "generated", ("generated stand-in, not data",), {}, *self.synthetic_rows)
        allowed = twin if options["stand_in"] else None
        return find.resolve(self.name, self.collections, self.rows, allowed, options["limit"], fetch)


class Classification(Task):
    """Cross-entropy, judged by accuracy."""

    metric = "accuracy"
    higher_is_better = True
    metric_range = (0, 1)
    scale = 100
    metric_column = "acc"
    metric_axis = "test accuracy (%)"
    metric_words = "test accuracy in %"

    def losses(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets, reduction="none")

    def scores(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        return outputs.argmax(1) == targets


class Reconstruction(Task):
    """An autoencoder's mean squared error, which is its metric too."""

    classes = None
    metric = "mse"
    higher_is_better = False
    metric_range = (0, math.inf)
    scale = 100
    metric_column = "mse ×10²"
    metric_axis = "test mean squared error ×10²"
    metric_words = "test mse ×10²"

    def losses(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        if outputs.shape != targets.shape:  # torch would broadcast, and compare each output with every target
            raise ValueError(f"targets: expected the outputs' shape {tuple(outputs.shape)}, got {tuple(targets.shape)}")
        return (outputs - targets).square().flatten(1).mean(1)

    def scores(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        return self.losses(outputs, targets)

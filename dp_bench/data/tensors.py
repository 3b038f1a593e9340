"""A data set in memory: arrays from its files, the rows that a limit leaves, tensors cached for every process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_bench.data.find import Resolved, Source
from dp_bench.errors import UserError
from dp_bench.files.from_json import FOREIGN

if TYPE_CHECKING:  # torch takes seconds to import, and planning needs none of this
    from torch import Tensor

_ORDER_SEED = 20_000

Rows = slice | NDArray[np.intp]
"""Which training rows are used: what to index an array with."""


class Arrays(NamedTuple):
    """Inputs as float32, classes as int64; None if the inputs themselves are the targets."""

    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64] | None
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64] | None


@dataclass(frozen=True)
class Dataset:
    """Inputs are float32, classes int64. Where the inputs are the targets, they are the same tensors."""

    name: str
    train_x: "Tensor"
    train_y: "Tensor"
    test_x: "Tensor"
    test_y: "Tensor"
    source: Source


@dataclass(frozen=True)
class Making:
    """How a data set's tensors are made of verified files: what `arrays` returns for the rows of a limit.

    `options` is all that the arrays depend on besides the files.
    """

    name: str
    resolved: Resolved
    options: Mapping[str, Any]
    arrays: Callable[[Rows], Arrays]

    @property
    def origin(self) -> dict[str, Any]:
        source = self.resolved.source
        return {"name": self.name, "rows": source.train_rows, "checksums": source.checksums, **self.options}

    def tensors(self) -> "dict[str, Tensor]":
        import torch

        rows, there_are = self.resolved.source.train_rows, self.resolved.all_train_rows
        made = self.arrays(slice(None) if rows == there_are else public_order(there_are)[:rows])._asdict()
        return {part: torch.from_numpy(array) for part, array in made.items() if array is not None}


def load(making: Making) -> Dataset:
    """The tensors, from the cache if they were made of the same files before."""
    from dp_bench.data.tensor_cache import shared

    # Synthetic data is made as fast as it is read.
    tensors = shared(making.origin, making.tensors) if making.resolved.files else making.tensors()
    x, test_x = tensors["train_x"], tensors["test_x"]
    y, test_y = tensors.get("train_y", x), tensors.get("test_y", test_x)
    return Dataset(making.name, x, y, test_x, test_y, making.resolved.source)


def verify_cached(name: str, again: Callable[[Mapping[str, Any]], Making]) -> list[str]:
    """Make everything that is cached of the data set again, and remove what differs or cannot be made.

    `again` says how to make what a record names as its origin. Returns a line for each file.
    """
    from dp_bench.data.tensor_cache import kept, remove

    lines = []
    for path, origin in kept().items():
        if origin is None or origin.get("name") == name:
            fault = "has no record that fits it" if origin is None else _fault(path, origin, again)
            if fault is not None:
                remove(path)
            lines.append(f"  ok: {path.name} is made of these files" if fault is None else f"  removed: {path} {fault}")
    return lines


def _fault(path: Path, origin: Mapping[str, Any], again: Callable[[Mapping[str, Any]], Making]) -> str | None:
    from dp_bench.data.tensor_cache import is_made_by, path_of

    try:
        making = again(origin)
    except (UserError, *FOREIGN):
        return "is of other files"
    if path != path_of(making.origin):
        return "is of other files"
    return None if is_made_by(path, making.tensors) else "is not what these files make"


def public_order(rows: int) -> NDArray[np.intp]:
    """A fixed shuffle that depends on the number of rows alone, never on the data. AG News is not shuffled as it is."""
    # Raw PCG64 bits, because NumPy promises never to change them (of its Generator's shuffle it does not).
    return np.argsort(np.random.PCG64(_ORDER_SEED).random_raw(rows), kind="stable")

"""A data set's tensors in one file that every process of a machine maps: read once, in memory once."""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from dp_bench.cache import atomically, cache_folder, write_atomically

_FORMAT = 1
"""Raise it with any change to what tensors are made of the same files: what older code kept is then not used."""

Tensors = dict[str, Tensor]


def shared(what: str, make: Callable[[], Tensors]) -> Tensors:
    """`make()`, mapped from the cache. `what` must name everything that it depends on but code: see `_FORMAT`.

    Mapped privately: a process that writes to its tensors has pages of its own from then on.
    """
    name = hashlib.sha256(f"{_FORMAT}\n{what}".encode()).hexdigest()[:32]
    path = cache_folder() / "tensors" / f"{name}.pt"
    if not _is_whole(path):
        tensors = make()
        try:
            _keep(path, tensors)
        except (OSError, RuntimeError):  # no room for it (torch's own error): then this process has it for itself
            return tensors
    mapped: Tensors = torch.load(path, mmap=True, weights_only=True)
    return mapped


def _keep(path: Path, tensors: Tensors) -> None:
    with atomically(path) as file:
        torch.save(tensors, file)
    write_atomically(_seal(path), _digest(path))


def _is_whole(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return _seal(path).read_bytes() == _digest(path)
    return False


def _seal(path: Path) -> Path:
    """Beside it, as what is mapped can have no checksum in front."""
    return path.with_suffix(".sha256")


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().encode() + b"\n"

"""A data set's tensors in one file that every process of a machine maps: read once, in memory once.

Beside each file lies a record: of which source files (by checksum), rows and format the tensors were made, and the
checksum of the file itself. A file whose record is missing or says anything else is made again. That stops damage and
what other code or other data left, not someone who writes both anew: `dp-bench data` makes the tensors of the verified
files again and compares.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dp_bench.files import system
from dp_bench.files.atomic import atomically, cache_folder, write_atomically
from dp_bench.files.checksummed import file_digest, json_digest
from dp_bench.files.from_json import FOREIGN

_FORMAT = 3
"""Raise it with any change to what tensors are made of the same files: what older code kept is then not used."""

Tensors = dict[str, Tensor]
Origin = Mapping[str, Any]  # everything that tensors depend on but code, as plain JSON


def shared(origin: Origin, make: Callable[[], Tensors]) -> Tensors:
    """`make()`, mapped from the cache. `origin` must name everything that it depends on but code: see `_FORMAT`.

    Mapped privately: a process that writes to its tensors has pages of its own from then on.
    """
    path = path_of(origin)
    if _verified_origin(path) == dict(origin) and (mapped := _mapped(path)) is not None:
        return mapped
    tensors = make()
    try:
        _keep(path, origin, tensors)
    except (OSError, RuntimeError):  # no room for it (torch's own error): then this process has it for itself
        return tensors
    return _mapped(path) or tensors


def kept() -> dict[Path, Origin | None]:
    """The files of tensors in the cache, and what each was made of by its record; None: no record that fits."""
    return {path: _verified_origin(path) for path in sorted(_folder().glob("*.pt"))}


def is_made_by(path: Path, make: Callable[[], Tensors]) -> bool:
    """Whether the file holds what `make()` returns, bit by bit."""
    tensors, stored = make(), _mapped(path)
    return (
        stored is not None
        and stored.keys() == tensors.keys()
        and all(_same(stored[name], tensors[name]) for name in tensors)
    )


def remove(path: Path) -> None:
    """A file of tensors and its record. Processes that have mapped it keep what they have."""
    for file in (path, _record(path)):
        if file.is_dir() and not file.is_symlink():
            system.remove_tree(file)
        else:
            system.remove(file)


def path_of(origin: Origin) -> Path:
    return _folder() / f"{json_digest(_recorded(origin))[:32]}.pt"


def _folder() -> Path:
    return cache_folder() / "tensors"


def _recorded(origin: Origin) -> dict[str, Any]:
    return {"format": _FORMAT, "origin": dict(origin)}


def _keep(path: Path, origin: Origin, tensors: Tensors) -> None:
    with atomically(path, durable=False) as file:  # its record tells whether it is whole
        torch.save(tensors, file)
    record = {**_recorded(origin), "sha256": file_digest(path)}
    write_atomically(_record(path), json.dumps(record, indent=1, sort_keys=True).encode(), durable=False)


def _verified_origin(path: Path) -> Origin | None:
    """What the record of a whole file says it was made of, under the name that it must then have."""
    try:
        record = json.loads(system.read(_record(path)))
        origin: Origin = record["origin"]
        whole = path == path_of(origin) and record == {**_recorded(origin), "sha256": file_digest(path)}
        return origin if whole else None
    except (OSError, *FOREIGN):
        return None


def _mapped(path: Path) -> Tensors | None:
    """None for a file that is not what `_keep` writes."""
    try:
        mapped = torch.load(path, mmap=True, weights_only=True)
    except Exception:  # whatever torch makes of a file that is none of its own
        return None
    whole = isinstance(mapped, dict) and all(isinstance(part, Tensor) for part in mapped.values())
    return mapped if whole else None


def _same(one: Tensor, other: Tensor) -> bool:
    """Bit by bit: -0.0 is not 0.0."""
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and torch.equal(_bytes(one), _bytes(other))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _record(path: Path) -> Path:
    """Beside it, as what is mapped can have no checksum in front."""
    return path.with_suffix(".json")

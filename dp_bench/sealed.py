"""Files that carry their own checksum, so that a damaged one is never believed: JSON of a run, bytes of the cache."""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_bench.cache import write_atomically
from dp_bench.errors import UserError


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """JSON with the checksum of everything else in it."""
    write_atomically(path, as_json({**content, "sha256": _seal(content)}))


def read_sealed(path: Path) -> dict[str, Any]:
    """The JSON of a run; a damaged file is an error, as it cannot be made again without training."""
    try:
        content = json.loads(path.read_bytes())
        seal = content.pop("sha256")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise UserError(
            f"{path}: found no whole JSON object with a checksum; delete its folder to run it again"
        ) from None
    if seal != _seal(content):
        raise UserError(f"{path}: found content that does not fit its checksum; delete its folder to run it again")
    return dict(content)


def write_sealed_bytes(path: Path, content: bytes) -> None:
    """Content of the cache behind its checksum. A cache that cannot be written only costs the time to make it again."""
    with contextlib.suppress(OSError):
        write_atomically(path, checksum_line(content) + content)


def read_sealed_bytes(path: Path) -> bytes | None:
    """The content, or None where the file is missing, unreadable or not what was written: it is then made again."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    seal, newline, content = stored.partition(b"\n")
    return content if seal + newline == checksum_line(content) else None


def as_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def checksum_line(content: bytes) -> bytes:
    """What stands before bytes in a file: 64 digits and a newline."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n"

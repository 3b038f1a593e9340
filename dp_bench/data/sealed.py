"""Small files in the cache that carry their own checksum, so that a damaged one is made again, never believed."""

import contextlib
import hashlib
from pathlib import Path

from dp_bench.cache import write_atomically


def write_sealed(path: Path, content: bytes) -> None:
    """Write the content behind its SHA-256. A cache that cannot be written only costs the time to make it again."""
    with contextlib.suppress(OSError):
        write_atomically(path, _seal(content) + content)


def read_sealed(path: Path) -> bytes | None:
    """The content, or None where the file is missing, unreadable or not what was written."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    seal, newline, content = stored.partition(b"\n")
    return content if seal + newline == _seal(content) else None


def _seal(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"

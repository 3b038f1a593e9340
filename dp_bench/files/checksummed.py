"""Files that carry their own checksum, so that a damaged one is never believed: JSON of a run, bytes of the cache."""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_bench.errors import DamagedFile, invalid
from dp_bench.files import system
from dp_bench.files.atomic import write_atomically

_RUN_AGAIN = "delete its folder to run it again"


def write_checksummed(path: Path, content: Mapping[str, Any]) -> None:
    """JSON with the checksum of everything else in it."""
    write_atomically(path, as_json({**content, "sha256": _checksum(content)}))


def checksummed_line(content: Mapping[str, Any]) -> bytes:
    """The same on one line, for files with one record per line."""
    text = json.dumps({**content, "sha256": _checksum(content)}, sort_keys=True, separators=(",", ":"))
    return text.encode() + b"\n"


def read_checksummed_line(line: bytes) -> dict[str, Any]:
    """The content of such a line; ValueError where it is damaged."""
    content = json.loads(line)
    if not isinstance(content, dict) or content.pop("sha256", None) != _checksum(content):
        raise ValueError("sha256: expected that of the content, got another")
    return content


def read_checksummed(path: Path) -> dict[str, Any]:
    """The JSON of a run; a damaged file is an error, as it cannot be made again without training."""
    try:
        content = json.loads(system.read(path, follow=False))
        checksum = content.pop("sha256")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise invalid(str(path), "a whole JSON object with a checksum", "none", _RUN_AGAIN, DamagedFile) from None
    if checksum != _checksum(content):
        raise invalid(str(path), "content that fits its checksum", "other content", _RUN_AGAIN, DamagedFile)
    return dict(content)


def write_checksummed_bytes(path: Path, content: bytes) -> None:
    """Content of the cache behind its checksum. A cache that cannot be written only costs the time to make it again."""
    with contextlib.suppress(OSError):
        write_atomically(path, checksum_line(content) + content, durable=False)


def read_checksummed_bytes(path: Path) -> bytes | None:
    """The content, or None if the file is missing, unreadable or not what was written: it is then made again."""
    try:
        stored = system.read(path)
    except OSError:
        return None
    checksum, newline, content = stored.partition(b"\n")
    return content if checksum + newline == checksum_line(content) else None


def as_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def checksum_line(content: bytes) -> bytes:
    """What stands before bytes in a file: 64 digits and a newline."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n"

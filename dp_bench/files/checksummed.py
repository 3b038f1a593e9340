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
from dp_bench.files.from_json import FOREIGN

RUN_AGAIN = "delete its folder to run it again"


def write_checksummed(path: Path, content: Mapping[str, Any]) -> None:
    """JSON with the checksum of everything else in it."""
    write_atomically(path, as_json(with_checksum(content)))


def read_checksummed(path: Path) -> dict[str, Any]:
    """The JSON of a run; a damaged file is an error, as it cannot be made again without training."""
    stored = system.read(path, follow=False)
    try:
        return without_checksum(stored)
    except FOREIGN:
        expected = "a whole JSON object that fits its checksum"
        raise invalid(str(path), expected, "other content", RUN_AGAIN, DamagedFile) from None


def checksummed_line(content: Mapping[str, Any]) -> bytes:
    """The same on one line, for files with one record per line."""
    return json.dumps(with_checksum(content), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "sha256": json_digest(content)}


def without_checksum(stored: bytes) -> dict[str, Any]:
    """The content of such JSON; one of `FOREIGN` where it is damaged."""
    content = json.loads(stored)
    if not isinstance(content, dict) or content.pop("sha256", None) != json_digest(content):
        raise ValueError("found content that does not fit its checksum")
    return content


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


def json_digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_line(content: bytes) -> bytes:
    """What stands before bytes in a file: 64 digits and a newline."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n"

"""The file of a checkpoint: whole or not believed. What is in it is the trainer's business."""

from pathlib import Path

from dp_bench.errors import DamagedFile, invalid
from dp_bench.files import system
from dp_bench.files.atomic import write_atomically
from dp_bench.files.checksummed import checksum_line

_MAGIC = b"dp_bench checkpoint 1\n"
_HEADER_SIZE = len(_MAGIC) + 65


def write_checkpoint(path: Path, payload: bytes) -> None:
    # For its owner only: with seed=secure it holds the key of the noise.
    write_atomically(path, _MAGIC + checksum_line(payload) + payload, mode=0o600)


def read_checkpoint(path: Path, remedy: str) -> bytes | None:
    """The payload, or None if there is no file. One that is damaged is refused with the remedy."""
    if not path.exists():
        return None
    content = system.read(path, follow=False)
    header, payload = content[:_HEADER_SIZE], content[_HEADER_SIZE:]
    if header != _MAGIC + checksum_line(payload):
        raise invalid(str(path), "a whole file", "a checksum that does not fit", remedy, DamagedFile)
    return payload

"""Tell which known version a file is, by the fingerprint of its unpacked bytes, and refuse any other content."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dp_bench.cache import cache_folder
from dp_bench.data.facts import File, Version
from dp_bench.data.unpack import CannotUnpack, unpacked_bytes
from dp_bench.errors import UserError
from dp_bench.sealed import read_sealed_bytes, write_sealed_bytes

_RACY_SECONDS = 2.0
"""A file changed this recently might change again within the same tick of its time stamp: it is not remembered."""


@dataclass(frozen=True)
class Identity:
    """Which known version a file is, and the fingerprints of its unpacked bytes; SHA-256 is always among them."""

    version: Version
    fingerprints: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """What the content is called by, whatever it was recognised by."""
        return self.fingerprints["sha256"]


def read_verified(path: Path, file: File) -> tuple[bytes, Identity]:
    """The file's unpacked bytes, verified."""
    try:
        content = unpacked_bytes(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Make it readable or delete it.") from error
    except CannotUnpack as error:
        raise _refusal(path, file, str(error)) from error
    found = _fingerprints(content, file)
    identity = _match(found, file)
    if identity is None:
        raise _refusal(path, file, " / ".join(f"{algorithm} {value}" for algorithm, value in found.items()))
    return content, identity


def identify(path: Path, file: File) -> Identity:
    """Which version the file is, without reading it again while it is unchanged since it was last read."""
    memory = _memory_of(path)
    before = _signature(path)
    remembered = _recall(memory, before)
    # What is remembered may only save time: anything but a version that is known is looked up in the file itself.
    if remembered is not None and (identity := _match(remembered, file)) is not None:
        return identity
    _, identity = read_verified(path, file)
    if _signature(path) == before and not _changed_just_now(path):
        entry = {"signature": before, "fingerprints": identity.fingerprints}
        write_sealed_bytes(memory, json.dumps(entry).encode())
    return identity


def forget_verified() -> None:
    """Make the next look at each file read all of it."""
    shutil.rmtree(_memory_folder(), ignore_errors=True)


def _fingerprints(content: bytes, file: File) -> dict[str, str]:
    wanted = {version.algorithm for version in file.versions}
    found = {"sha256": hashlib.sha256(content).hexdigest()}
    if "md5" in wanted:
        found["md5"] = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if "words" in wanted:
        found["words"] = _count_words(content)
    return found


def _count_words(content: bytes) -> str:
    """Words, numbers per word and the first numbers of "the": what there is to know the official GloVe by."""
    lines = [line.rstrip() for line in content.removesuffix(b"\n").split(b"\n")]
    widths = sorted({line.count(b" ") for line in lines})
    width = str(widths[0]) if len(widths) == 1 else f"{widths[0]} to {widths[-1]}"
    the = next((line for line in lines if line.startswith(b"the ")), b"the ?")
    first_numbers = " ".join(number.decode(errors="replace") for number in the.split(b" ")[1:6])
    return f"{len(lines):,} words of {width} numbers, 'the' {first_numbers}"


def _match(fingerprints: Mapping[str, str], file: File) -> Identity | None:
    for version in file.versions:
        if fingerprints.get(version.algorithm) == version.fingerprint:
            return Identity(version, fingerprints)
    return None


def _refusal(path: Path, file: File, found: str) -> UserError:
    expected = " or ".join(f"{version.algorithm} {version.fingerprint}" for version in file.versions)
    return UserError(
        f"{path} is damaged or not the file it is named after: expected {expected} of its unpacked bytes, "
        f"found {found}. Delete it, or replace it by a good copy."
    )


def _signature(path: Path) -> list[int]:
    status = path.stat()
    # The time of the last status change and the inode catch a file whose modification time was set back.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _changed_just_now(path: Path) -> bool:
    status = path.stat()
    return time.time() - max(status.st_mtime, status.st_ctime) < _RACY_SECONDS


def _memory_folder() -> Path:
    return cache_folder() / "verified"


def _memory_of(path: Path) -> Path:
    return _memory_folder() / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]}.json"


def _recall(memory: Path, signature: list[int]) -> dict[str, str] | None:
    content = read_sealed_bytes(memory)
    if content is None:
        return None
    entry = json.loads(content)
    return entry["fingerprints"] if entry["signature"] == signature else None

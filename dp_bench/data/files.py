"""Data files: what is known of them, and which known version a file on disk is, by a checksum of its unpacked bytes.

Any other content is refused. What was verified is cached, so that unchanged files are read once.
"""

import gzip
import hashlib
import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dp_bench.errors import UserError, invalid
from dp_bench.files import system
from dp_bench.files.atomic import cache_folder
from dp_bench.files.checksummed import read_checksummed_bytes, write_checksummed_bytes
from dp_bench.files.from_json import FOREIGN

Kind = Literal["complete", "subset", "stand-in"]
Algorithm = Literal["sha256", "md5", "words"]

Fetcher = Callable[[Path], None]
"""Puts the files of one collection, packed or not, into the empty folder that it is given, or raises Unavailable."""

_RACY_SECONDS = 2.0
"""A file changed this recently might change again within the same tick of its time stamp: it is not cached."""


@dataclass(frozen=True)
class Version:
    """One content that a file may have. `rows` counts images, labels, texts or words."""

    kind: Kind
    algorithm: Algorithm
    fingerprint: str
    rows: int
    caveat: str = ""


@dataclass(frozen=True)
class File:
    """A file under any of its names, each also with .gz appended, and the contents that are accepted, the official one
    first. `member` is what is read of it where it is a .zip archive."""

    names: tuple[str, ...]
    versions: tuple[Version, ...]
    member: str = ""


@dataclass(frozen=True)
class Collection:
    """Files that come from one place together, keyed by role.

    `folders` are looked into in turn; `origins` are where missing files are fetched from, the official one first;
    `package` is an installed Python package that carries the files.
    """

    name: str
    folders: tuple[str, ...]
    files: Mapping[str, File]
    origins: Mapping[str, Fetcher] = field(default_factory=dict)
    package: str = ""


@dataclass(frozen=True)
class Found:
    """A file that is there and verified: which known version it is, and the fingerprints of its unpacked bytes."""

    path: Path
    file: File
    version: Version
    fingerprints: Mapping[str, str]

    @property
    def checksum(self) -> str:
        """SHA-256 of every file that was read; of one that was not, what is known of it."""
        return self.fingerprints.get("sha256", f"{self.version.algorithm} {self.version.fingerprint}")

    def content(self) -> bytes:
        """Its unpacked bytes, verified once more: these are the ones that are trained on."""
        return read_verified(self.path, self.file)[0]


class CannotUnpack(Exception):
    """The file is there but is not an intact archive."""


def look_in(root: Path, collection: Collection) -> tuple[Path, dict[str, Found]] | None:
    """The first folder under `root` that has the collection, and its verified files by role. None if there is none."""
    for name in collection.folders:
        folder = root / name
        try:
            paths = files_in(folder, collection)
        except OSError as error:
            raise invalid(str(folder), "a folder that can be read", error.strerror, "make it readable") from error
        if not paths:
            continue
        for role, file in collection.files.items():
            if role not in paths:
                raise invalid(
                    str(folder),
                    f"all of {collection.name}",
                    f"no {file.names[0]} (nor {file.names[0]}.gz)",
                    f"add it, or delete the other files of {collection.name} there to have all of them fetched",
                )
        return folder, {role: identify(path, collection.files[role]) for role, path in paths.items()}
    return None


def files_in(folder: Path, collection: Collection) -> dict[str, Path]:
    """The paths, by role, of those of the collection's files that the folder has. Unpacked ones come first: faster."""
    found = {}
    for role, file in collection.files.items():
        candidates = [folder / f"{name}{suffix}" for name in file.names for suffix in ("", ".gz")]
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is not None:
            found[role] = path
    return found


def unpacked_bytes(path: Path, member: str = "") -> bytes:
    """All of the file's unpacked bytes. At most 171 MB for the paper's files, so nothing needs to be streamed."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                return packed.read()
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(member)
        return path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, KeyError) as error:
        raise CannotUnpack(f"an archive that cannot be unpacked ({error})") from error


def read_verified(path: Path, file: File) -> tuple[bytes, Found]:
    """The file's unpacked bytes, verified."""
    try:
        content = unpacked_bytes(path, file.member)
    except OSError as error:
        raise invalid(str(path), "a file that can be read", error.strerror, "make it readable or delete it") from error
    except CannotUnpack as error:
        raise _refusal(path, file, str(error)) from error
    fingerprints = _fingerprints(content, file)
    found = _match(fingerprints, path, file)
    if found is None:
        raise _refusal(path, file, " / ".join(f"{algorithm} {value}" for algorithm, value in fingerprints.items()))
    return content, found


def identify(path: Path, file: File) -> Found:
    """Which version the file is, without reading it again while it is unchanged since it was last read."""
    cached = _cached_verifications() / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]}.json"
    before = _signature(path)
    # The cache may only save time: anything but a known version is looked up in the file itself.
    if found := _match(_cached_fingerprints(cached, before), path, file):
        return found
    _, found = read_verified(path, file)
    _, modified, changed, _ = before
    if _signature(path) == before and time.time() - max(modified, changed) / 1e9 >= _RACY_SECONDS:
        entry = {"signature": before, "fingerprints": found.fingerprints}
        write_checksummed_bytes(cached, json.dumps(entry).encode())
    return found


def forget_verified() -> None:
    """Make the next look at each file read all of it."""
    system.remove_tree(_cached_verifications())


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


def _match(fingerprints: Mapping[str, str], path: Path, file: File) -> Found | None:
    for version in file.versions:
        if fingerprints.get(version.algorithm) == version.fingerprint:
            return Found(path, file, version, fingerprints)
    return None


def _refusal(path: Path, file: File, found: str) -> UserError:
    expected = " or ".join(f"{version.algorithm} {version.fingerprint}" for version in file.versions)
    return invalid(
        str(path),
        f"{expected} of its unpacked bytes",
        f"{found}: it is damaged or not the file it is named after",
        "delete it, or replace it by a good copy",
    )


def _signature(path: Path) -> list[int]:
    status = path.stat()
    # The time of the last status change and the inode catch a file whose modification time was set back.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _cached_verifications() -> Path:
    return cache_folder() / "verified"


def _cached_fingerprints(cached: Path, signature: list[int]) -> dict[str, str]:
    """None of them if nothing is cached, or anything but what is written here: the file is then read again."""
    try:
        entry = json.loads(read_checksummed_bytes(cached) or b"null")
        found: dict[str, str] = entry["fingerprints"]
        return found if entry["signature"] == signature and all(isinstance(v, str) for v in found.values()) else {}
    except FOREIGN:
        return {}

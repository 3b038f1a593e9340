"""What a data set is made of: where it was found, whether it is all of it, its rows and its checksums. No torch."""

from dataclasses import dataclass, replace

from dp_bench.data import stand_in as generated
from dp_bench.data.facts import COLLECTIONS_OF, Kind
from dp_bench.data.find import FoundCollection, MissingData, find
from dp_bench.data.look import Found
from dp_bench.errors import UserError

DATASETS = tuple(COLLECTIONS_OF)


@dataclass(frozen=True)
class Source:
    """What goes into each result and onto each report. `checksums`: SHA-256 of the unpacked bytes, by file name."""

    kind: Kind
    where: str
    caveats: tuple[str, ...]
    checksums: dict[str, str]
    train_rows: int
    test_rows: int


@dataclass(frozen=True)
class Resolved:
    """A source, the verified files behind it (none for the stand-in) and how many training rows they hold in all."""

    source: Source
    files: dict[str, Found]
    all_train_rows: int


def describe(name: str, *, stand_in: bool = False, limit: int | None = None) -> Source:
    """The source that `load` with the same arguments would use. Fetches what is missing; quick from then on."""
    return resolve(name, stand_in=stand_in, limit=limit).source


def resolve(name: str, *, stand_in: bool, limit: int | None) -> Resolved:
    """Find and verify the data set; `stand_in` allows a generated one where there is no real one."""
    if name not in COLLECTIONS_OF:
        raise UserError(f"Unknown data set {name!r}. Choose one of {', '.join(DATASETS)}.")
    files: dict[str, Found] = {}
    try:
        collections = {collection.name: find(collection) for collection in COLLECTIONS_OF[name]}
    except MissingData:
        if not stand_in:
            raise
        source = _stand_in_source()
    else:
        files = {role: found for collection in collections.values() for role, found in collection.files.items()}
        source = _real_source(collections, files)
    return Resolved(_limited(name, source, limit), files, source.train_rows)


def _real_source(collections: dict[str, FoundCollection], files: dict[str, Found]) -> Source:
    places = {collection.where for collection in collections.values()}
    versions = [found.identity.version for found in files.values()]
    return Source(
        kind="complete" if all(version.kind == "complete" for version in versions) else "subset",
        where=places.pop()
        if len(places) == 1
        else "; ".join(f"{name}: {collection.where}" for name, collection in collections.items()),
        caveats=tuple(version.caveat for version in versions if version.caveat),
        checksums={found.file.names[0]: found.identity.sha256 for found in files.values()},
        train_rows=files["train"].identity.version.rows,
        test_rows=files["test"].identity.version.rows,
    )


def _stand_in_source() -> Source:
    return Source(
        kind="stand-in",
        where="generated",
        caveats=("generated stand-in, not data",),
        checksums={},
        train_rows=generated.TRAIN_ROWS,
        test_rows=generated.TEST_ROWS,
    )


def _limited(name: str, source: Source, limit: int | None) -> Source:
    if limit is None or limit == source.train_rows:
        return source
    if not 1 <= limit <= source.train_rows:
        raise UserError(
            f"limit must be from 1 to {source.train_rows}, the training rows of {name}; found {limit}. "
            "Choose such a number, or leave limit out for all rows."
        )
    return replace(
        source,
        kind="stand-in" if source.kind == "stand-in" else "subset",
        caveats=(*source.caveats, f"limited to {limit:,} of {source.train_rows:,} training rows"),
        train_rows=limit,
    )

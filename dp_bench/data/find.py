"""Find a collection: $DP_BENCH_DATA, then the cache, then whatever can be fetched into the cache."""

import os
from dataclasses import dataclass
from pathlib import Path

from dp_bench.data.facts import ORIGIN_FILE, Collection
from dp_bench.data.fetch import ROUTES, cached_data_folder, fetch_into_cache
from dp_bench.data.look import Found, look_in
from dp_bench.errors import UserError


class MissingData(UserError):
    """No source has the data; a generated stand-in may take its place where the user allows it."""


@dataclass(frozen=True)
class FoundCollection:
    """A collection's verified files by role, and where they are in words that hold on any machine."""

    where: str
    files: dict[str, Found]


def find(collection: Collection) -> FoundCollection:
    """The collection from the first source that has it. A damaged or partial source is an error, not passed over."""
    tried = []
    own = os.environ.get("DP_BENCH_DATA")
    if own:
        if found := look_in(Path(own).expanduser(), collection):
            return FoundCollection("$DP_BENCH_DATA", found[1])
        tried.append(f"$DP_BENCH_DATA ({own}) {_what_is_there(Path(own).expanduser(), collection)}")
    else:
        tried.append("$DP_BENCH_DATA is not set")

    if cached := _in_cache(collection):
        return cached
    tried.append(f"the cache ({cached_data_folder()}) {_what_is_there(cached_data_folder(), collection)}")

    tried += fetch_into_cache(collection)
    if cached := _in_cache(collection):
        return cached
    example = f"{collection.folders[0]}/{next(iter(collection.files.values())).names[0]}"
    raise MissingData(
        f"{collection.name} was not found: {'; '.join(tried)}. Set DP_BENCH_DATA to a folder that has {example} (or "
        f".gz) and the like, or allow the generated stand-in with dataset.stand_in=true."
    )


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
    return FoundCollection(f"cache, from {origin}" if origin in ROUTES[collection.name] else "cache", files)


def _what_is_there(root: Path, collection: Collection) -> str:
    return f"has no {collection.name}" if root.is_dir() else "is no folder"

"""Results of slow pure functions, kept on disk as small JSON files: pure speed, never a source of truth.

An entry that is missing, damaged or unreadable is computed again, one that cannot be written is computed next time, and
processes that compute the same one concurrently write the same bytes.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dp_bench.errors import UserError
from dp_bench.files import system
from dp_bench.files.atomic import cache_folder, write_atomically
from dp_bench.files.checksummed import json_digest, with_checksum, without_checksum
from dp_bench.files.from_json import FOREIGN

Key = Mapping[str, str | int | float]


class NotCached(Exception):
    """A result that takes long to compute, and was asked for only if it is there."""


def cached(
    kind: str,
    key: Key,
    compute: Callable[[], dict[str, float]] | None,
    believed: Callable[[dict[str, float]], bool] = lambda _: True,
) -> dict[str, float]:
    """`compute()`, or what it returned when it was first called for this `kind` and `key`.

    Without `compute` a result that is not there raises NotCached.
    The key must name everything that the result depends on, versions of code included. A checksum stops damage, not
    someone who edits an entry and its checksum: an entry is used only if it is `believed`, and computed again if not.
    """
    path = cache_folder() / kind / f"{json_digest(key)[:32]}.json"
    result = _read(path, key, believed)
    if result is None:
        if compute is None:
            raise NotCached(f"{kind}: expected a cached result, got none")
        result = compute()
        entry = with_checksum({"key": dict(key), "result": result})
        with contextlib.suppress(OSError):
            # What a loss of power damages is computed again.
            write_atomically(path, json.dumps(entry, indent=1).encode(), durable=False)
    return result


def _read(path: Path, key: Key, believed: Callable[[dict[str, float]], bool]) -> dict[str, float] | None:
    try:
        entry = without_checksum(system.read(path))
        result = {str(name): float(value) for name, value in entry["result"].items()}
        return result if entry["key"] == key and believed(result) else None
    except (OSError, UserError, *FOREIGN):  # no such file, or a number is missing or impossible
        return None

"""Results of slow pure functions, kept on disk as small JSON files: pure speed, never a source of truth.

An entry that is missing, damaged or unreadable is computed again, one that cannot be written is computed next time, and
processes that compute the same one at once write the same bytes.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dp_bench.cache import cache_folder, write_atomically

Key = Mapping[str, str | int | float]


def remembered(kind: str, key: Key, compute: Callable[[], dict[str, float]]) -> dict[str, float]:
    """`compute()`, or what it returned when it was first called for this `kind` and `key`.

    The key must name everything that the result depends on, versions of code included.
    """
    path = cache_folder() / kind / f"{_digest(key)[:32]}.json"
    result = _read(path, key)
    if result is None:
        result = compute()
        entry = {"key": dict(key), "result": result}
        with contextlib.suppress(OSError):
            write_atomically(path, json.dumps({**entry, "sha256": _digest(entry)}, indent=1).encode())
    return result


def _read(path: Path, key: Key) -> dict[str, float] | None:
    try:
        entry = json.loads(path.read_bytes())
        checksum = entry.pop("sha256")
        if checksum != _digest(entry) or entry["key"] != key:
            return None
        return {name: float(value) for name, value in entry["result"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # unreadable, or JSON of another shape
        return None


def _digest(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

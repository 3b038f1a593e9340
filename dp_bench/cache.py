"""Where files that can be made again are kept, and how one is written so that no reader ever sees half of it."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def cache_folder() -> Path:
    """The folder of everything that can be made again: `$DP_BENCH_CACHE`, else `$XDG_CACHE_HOME/dp_bench`, else
    `~/.cache/dp_bench`. It need not exist yet."""
    if own := os.environ.get("DP_BENCH_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "dp_bench"
    return Path.home() / ".cache" / "dp_bench"


def write_atomically(path: Path, content: bytes, mode: int = 0o644, durable: bool = True) -> None:
    """The content as the whole file: see `atomically`."""
    with atomically(path, mode, durable) as file:
        file.write(content)


@contextlib.contextmanager
def atomically(path: Path, mode: int = 0o644, durable: bool = True) -> Iterator[BinaryIO]:
    """Write `path` so that readers see the old content or the new, never a mixture, whoever is killed; where it is
    `durable`, also after the machine loses power.

    Any number of processes may write the same path at once: each uses a temporary name of its own, the last one wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The same folder, because os.replace is atomic only within one file system.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        # mkstemp makes files that only their owner may read; a cache may be shared within a group.
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise

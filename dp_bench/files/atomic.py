"""Where files that can be made again are kept, and how a file or a folder comes about so that no reader sees half."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dp_bench.files import system


def cache_folder() -> Path:
    """The folder of everything that can be made again: `$DP_BENCH_CACHE`, else `$XDG_CACHE_HOME/dp_bench`, else
    `~/.cache/dp_bench`. It need not exist yet."""
    if own := os.environ.get("DP_BENCH_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "dp_bench"
    return Path.home() / ".cache" / "dp_bench"


def write_atomically(path: Path, content: bytes, mode: int = 0o666, durable: bool = True) -> None:
    """The content as the whole file: see `atomically`."""
    with atomically(path, mode, durable) as file:
        file.write(content)


@contextlib.contextmanager
def atomically(path: Path, mode: int = 0o666, durable: bool = True) -> Iterator[BinaryIO]:
    """Write `path` so that readers see the old content or the new, never a mixture, whichever process is killed.

    If it is `durable`, also after the machine loses power: the content is synced before the rename, the folder after
    it, so that the new file is there when this returns. Its permissions are `mode` without what the umask takes away.

    Several processes may write the same path concurrently: each uses a temporary name of its own, the last one wins.
    """
    system.make_folder(path.parent)
    # The same folder, because a rename is atomic only within one file system.
    temporary, file = system.create_beside(path, mode)
    try:
        with file:
            yield file
            file.flush()
            if durable:
                system.sync(file, temporary)
        system.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            system.remove(temporary)
        raise
    if durable:
        system.sync_folder(path.parent)


@contextlib.contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """A new folder, whose `*` is chosen here, to be renamed into its place. It is locked while its owner lives, by
    whatever way that ends."""
    with contextlib.ExitStack() as held:
        while True:
            folder = parent / name.replace("*", secrets.token_hex(8))
            system.make_folder(folder)
            try:
                held.enter_context(system.locked_folder(folder))
                break
            except (FileNotFoundError, BlockingIOError):  # taken for abandoned before it could be locked
                continue
            except OSError:  # a file system without locks: no other process gets one either
                break
        try:
            yield folder
        finally:
            system.remove_tree(folder)


def remove_abandoned(parent: Path, names: str) -> None:
    """Remove the folders of such names that killed processes left: those in use are locked."""
    for folder in parent.glob(names):
        with contextlib.suppress(OSError), system.locked_folder(folder):
            system.remove_tree(folder)

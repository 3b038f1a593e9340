"""A folder that is built beside its place, to be put there in one rename, and what killed processes left of such."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from dp_bench.files import system


@contextlib.contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """A new folder, whose `*` is chosen here. It is locked while its owner lives, by whatever way that ends."""
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

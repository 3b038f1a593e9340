"""Every system call by which this package reads and changes its own files: one seam under the store and the caches.

Tests put an `Interceptor` here, count the calls and make each of them fail in turn (tests/chaos). No other module of
the package opens a file for writing, renames, removes or locks one; tests/files/test_system.py looks.
"""

import contextlib
import errno
import fcntl
import functools
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from dp_bench.errors import invalid


class Interceptor(Protocol):
    """Stands in for a call: carries it out with `act`, before or after which it may fail. `content`: what a write
    writes, or the new name of a rename; a write's `act` takes how many bytes of it to write at most."""

    def __call__(self, name: str, path: Path, act: Callable[..., Any], content: bytes | Path | None) -> Any: ...


_interceptor: Interceptor | None = None


@contextlib.contextmanager
def intercepted(by: Interceptor) -> Iterator[None]:
    """Have every call of this process pass through `by`."""
    global _interceptor
    before, _interceptor = _interceptor, by
    try:
        yield
    finally:
        _interceptor = before


def _call(name: str, path: Path, act: Callable[..., Any], content: bytes | Path | None = None) -> Any:
    return act() if _interceptor is None else _interceptor(name, path, act, content)


def read(path: Path, follow: bool = True) -> bytes:
    """All of a file. Without `follow` a link is an OSError: its target is not part of a store."""

    def act() -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(errno.ELOOP, "a link: not followed", str(path)) from None
            raise
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    content: bytes = _call("read", path, act)
    return content


def make_folder(path: Path) -> None:
    """The folder and those above it, each of them durable: see `sync_folder`."""
    missing = []
    while not path.is_dir() and path != path.parent:
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        _call("mkdir", folder, functools.partial(folder.mkdir, exist_ok=True))
        sync_folder(folder.parent)


def check_writable(folder: Path) -> None:
    """Raise the OSError with which `folder`, or what is missing above it, would be refused; leaves nothing there."""
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    probe = nearest / f".{secrets.token_hex(8)}.tmp"
    try:
        _call("mkdir", probe, probe.mkdir)
        _call("rmdir", probe, probe.rmdir)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def temporaries(folder: Path, of: str = "*") -> list[Path]:
    """What killed writers left of files in a folder, or of one of them: see `create_beside`."""
    return list(folder.glob(f".{of}.*.tmp"))


def create_beside(path: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A new file in the same folder, under a name of its own, and its writer. The umask applies to `mode`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = _call("open", temporary, lambda: os.open(temporary, flags, mode))
    return temporary, io.BufferedWriter(_Writer(descriptor, temporary))


class _Writer(io.FileIO):
    """A file whose writes pass through the seam."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, content: Any) -> int:  # BufferedWriter continues after a short one
        plain = bytes(content) if _interceptor is not None else None

        def act(most: int | None = None) -> int:
            return super(_Writer, self).write(content[:most])

        written: int = _call("write", self._path, act, plain)
        return written


def sync(file: BinaryIO, path: Path) -> None:
    """Have the file's content survive a loss of power."""
    _call("fsync", path, lambda: os.fsync(file.fileno()))


def sync_file(path: Path) -> None:
    """Likewise, of a file that another program wrote."""
    with path.open("rb") as file:
        sync(file, path)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a loss of power: a rename is not durable before its folder is synced."""

    def act() -> None:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:  # one may write into a folder that one may not read
            return
        try:
            os.fsync(descriptor)
        except OSError as error:  # some file systems have no such thing for folders
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(descriptor)

    _call("fsync folder", folder, act)


def rename(path: Path, target: Path) -> None:
    """Atomic within one file system; replaces a file, or an empty folder, of that name."""
    _call("rename", path, lambda: path.replace(target), target)


def exchange(one: Path, other: Path) -> None:
    """Swap two folders of one file system."""
    _call("exchange", one, lambda: _exchange(one, other), other)


def _exchange(one: Path, other: Path) -> None:
    """In one system call where the platform has it, else in three renames: a kill between them leaves both folders
    whole, one of them under a name that begins with a dot."""
    import ctypes  # only a report needs it

    with contextlib.suppress(AttributeError):  # another C library
        libc = ctypes.CDLL(None, use_errno=True)
        at_here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        if libc.renameat2(at_here, os.fsencode(one), at_here, os.fsencode(other), swap) == 0:
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))
    aside = one.with_name(f"{one.name}.aside")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def remove(path: Path) -> None:
    """A file, if it is there."""
    _call("unlink", path, lambda: path.unlink(missing_ok=True))


def remove_tree(folder: Path) -> None:
    """A folder and what is in it, as far as that can be; a link in it is removed, never followed."""
    _call("rmtree", folder, lambda: shutil.rmtree(folder, ignore_errors=True))


def link_or_copy(source: Path, target: Path) -> None:
    """The same file under another name; a link stays a link."""

    def act() -> None:
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError:  # a file system without hard links
            shutil.copy2(source, target, follow_symlinks=False)

    _call("link", target, act)


@contextlib.contextmanager
def opened_lock(path: Path, create: bool) -> Iterator[int]:
    """The descriptor of a lock file that is a file of its own, never what a link in its place points to."""
    flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
    try:
        descriptor = _call("open lock", path, lambda: os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise invalid(str(path), "a file", "a link", "remove it, and ask who put it there") from None
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder: see `lock`. FileNotFoundError: it was removed before it could be held."""
    descriptor = _call("open lock", folder, lambda: os.open(folder, os.O_RDONLY | os.O_CLOEXEC))
    try:
        lock(descriptor, folder, wait=wait)
        if not folder.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, path: Path, *, shared: bool = False, wait: bool = False) -> None:
    """Hold it until the descriptor is closed or the process dies. BlockingIOError: another process does."""
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    _call("lock", path, lambda: fcntl.flock(descriptor, how))


def touch(descriptor: int, path: Path) -> None:
    """Set its time of modification to now."""
    _call("touch", path, lambda: os.utime(descriptor))


def set_time(path: Path, seconds: int) -> None:
    """Set when it was read and modified last, in seconds since 1970."""
    _call("touch", path, lambda: os.utime(path, (seconds, seconds), follow_symlinks=False))

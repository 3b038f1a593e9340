"""Faults at the seam under the store (`dp_bench.files.system`): each of its calls can fail in each of these ways."""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from running import in_a_child

from dp_bench.files import system

FAULTS = ("ENOSPC", "EIO", "short write", "kill before", "kill after", "power: names lost", "power: data lost")
_WRITING = ("open", "open lock", "write", "mkdir", "fsync", "fsync folder", "rename", "exchange", "link", "touch")


def applies(fault: str, call: str) -> bool:
    """Whether a call can fail so: a disk that is full does not keep anyone from reading."""
    if fault == "short write":
        return call == "write"
    return fault != "ENOSPC" or call in _WRITING


@dataclass
class Faults:
    """Carries calls out, lists them, and injects `fault` at call number `at`."""

    fault: str = ""
    at: int = -1
    calls: list[tuple[str, str]] = field(default_factory=list)
    disk: "Disk" = field(default_factory=lambda: Disk())

    def __call__(self, name: str, path: Path, act: Callable[..., Any], content: bytes | Path | None) -> Any:
        number = len(self.calls)
        self.calls.append((name, path.name))
        if number != self.at:
            return self.disk.follow(name, path, act, content)
        if self.fault in ("ENOSPC", "EIO"):
            code = getattr(errno, self.fault)
            raise OSError(code, os.strerror(code), str(path))
        if self.fault == "short write" and isinstance(content, bytes):  # else a background thread came first
            return act(max(1, len(content) // 2))  # fewer bytes than asked for: POSIX allows that, it is not an error
        if self.fault == "kill before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = self.disk.follow(name, path, act, content)
        if self.fault == "short write":
            return result
        if self.fault.startswith("power"):
            self.disk.lose(names=self.fault == "power: names lost")
        return os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Disk:
    """What would survive a loss of power: content only if its file was synced, names only if their folder was."""

    unsynced: set[Path] = field(default_factory=set)  # files, by their present names
    undo: list[tuple[Path, Callable[[], None]]] = field(default_factory=list)  # by folder: unsynced changes of names

    def follow(self, name: str, path: Path, act: Callable[[], Any], content: bytes | Path | None) -> Any:
        """Carry a call out, and note what it makes uncertain or certain."""
        target = content if isinstance(content, Path) else path
        kept = target.read_bytes() if name in ("rename", "unlink") and target.is_file() else None
        # Not needed to tell what would survive, and most of the time that all this takes.
        result = None if name.startswith("fsync") else act()
        if name in ("open", "write"):
            self.unsynced.add(path)
        elif name == "fsync":
            self.unsynced.discard(path)
        elif name == "fsync folder":
            self.undo = [(folder, back) for folder, back in self.undo if folder != path]
        if name in ("open", "mkdir", "link", "exchange", "unlink", "rename") and path.parent.is_dir():
            self._note(name, path, target, kept)
        return result

    def _note(self, name: str, path: Path, target: Path, kept: bytes | None) -> None:
        if name in ("open", "link"):
            self.undo.append((path.parent, lambda: path.unlink(missing_ok=True)))
            return
        if name == "mkdir":  # with its name all that is in it is lost
            self.undo.append((path.parent, lambda: shutil.rmtree(path, ignore_errors=True)))
            return
        if name == "exchange":  # its own inverse
            self.undo.append((path.parent, lambda: system._exchange(path, target)))
            return
        if name == "rename":
            self.unsynced.discard(target)
            if path in self.unsynced:
                self.unsynced.remove(path)
                self.unsynced.add(target)

        def back() -> None:
            if name == "rename" and target.exists():
                shutil.move(target, path)
            if kept is not None:
                target.write_bytes(kept)

        self.undo.append((target.parent, back))

    def lose(self, names: bool) -> None:
        """The machine's power: unsynced names, or the content behind names that did reach the disk."""
        if names:
            for _, back in reversed(self.undo):
                back()
        for path in self.unsynced:
            if path.is_file():
                os.truncate(path, path.stat().st_size // 2)


def intercepted_in_a_child(work: Callable[[], int], faults: Faults, said: Path) -> int:
    """`work` in a forked process under `faults`, its standard error in a file; the exit code, or minus the signal."""

    def intercepted() -> None:
        with said.open("wb") as file, Path(os.devnull).open("wb") as nothing:
            os.dup2(file.fileno(), 2)
            os.dup2(nothing.fileno(), 1)
        sys.stderr = os.fdopen(2, "w", buffering=1)  # pytest's own would keep what is printed
        with system.intercepted(faults):
            os._exit(work())

    return in_a_child(intercepted)

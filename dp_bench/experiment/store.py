"""Runs on disk: readable folders, whole files or none, nothing believed whose checksum does not fit."""

import contextlib
import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dp_bench.errors import DamagedFile, invalid
from dp_bench.experiment.folder_names import LEVELS
from dp_bench.experiment.record import RunResult, Stored, check_metrics
from dp_bench.experiment.spec import RunSpec, comparable
from dp_bench.files import system
from dp_bench.files.atomic import write_atomically
from dp_bench.files.checksummed import as_json, checksum_line, read_checksummed, write_checksummed
from dp_bench.files.from_json import FOREIGN, from_plain

_SPEC, _RESULT, _METRICS, _PROVENANCE = "spec.json", "result.json", "metrics.csv", "provenance.json"
_CHECKPOINT, _LOCK = "checkpoint.pt", ".lock"
_MAGIC = b"dp_bench checkpoint 1\n"
_HEADER_SIZE = len(_MAGIC) + 65
_RUNG = "rung{}.json"
RELEASED_NOTHING = "selection.json"  # in the folder of a grid: see `dp_bench.experiment.selected`
_MOVE_AWAY = "move the folder away, or choose another runs=FOLDER"
# Said wherever a run with seed=secure is to be run again: a run with seed=named draws the same noise as before.
SPENDS_AGAIN = ", which spends the budget again: with seed=secure it draws other noise"


class RunFolder:
    """The folder of one run. `result.json` is written last: where it is, the run is done."""

    def __init__(self, root: Path, spec: RunSpec) -> None:
        self.spec = spec
        self.path = root / spec.folder

    @property
    def done(self) -> bool:
        """Whether there is a result, read or not."""
        return (self.path / _RESULT).exists()

    @property
    def begun(self) -> bool:
        return (self.path / _SPEC).exists()

    @contextlib.contextmanager
    def claimed(self) -> Iterator[bool]:
        """Whether this process may work here; no other one can at the same time, and a killed one lets go."""
        refuse_links(self.path, len(LEVELS))
        system.make_folder(self.path)
        path = self.path / _LOCK
        with system.opened_lock(path, create=True) as lock:
            try:
                system.lock(lock, path)
            except BlockingIOError:
                yield False
                return
            system.touch(lock, path)  # `started` tells by this that a process began, or began again
            for left_by_a_killed_writer in system.temporaries(self.path):
                system.remove(left_by_a_killed_writer)
            yield True

    def check_spec(self) -> None:
        """Refuse a folder that holds another protocol's run under the same name."""
        refuse_links(self.path, len(LEVELS))
        path = self.path / _SPEC
        if not path.exists():
            return
        stored, code = read_checksummed(path), self.spec.code()
        theirs = {**comparable(stored["protocol"]), **{name: stored.get(name, code[name]) for name in code}}
        ours = {**comparable(self.spec.protocol()), **code}
        _refuse_difference(path, theirs, ours, "this run was made under another protocol")

    def check_grid(self) -> None:
        """Refuse a grid of which a run on disk, any one, was made with another budget: all of them share one."""
        for path in self.path.parent.parent.glob(f"*/seed*/{_SPEC}"):
            protocols = [comparable(p) for p in (read_checksummed(path)["protocol"], self.spec.protocol())]
            for part, another in (("allocation", "another budget"), ("ranked_seeds", "other seeds")):
                theirs, ours = (protocol.get(part) for protocol in protocols)
                _refuse_difference(path, theirs, ours, f"this grid was begun with {another}", part)
            return

    def write_spec(self) -> None:
        write_checksummed(self.path / _SPEC, self.spec.to_json())

    def result(self) -> RunResult | None:
        result = self._read_result(self.path / _RESULT)
        if result is not None:
            try:  # without the evaluations that it was made of, a result is not believed
                check_metrics(self.spec, result, _text(self.path / _METRICS))
            except DamagedFile as error:
                raise DamagedFile(f"{self.path}: {error}{SPENDS_AGAIN * self.spec.secure}") from None
        return result

    def rung(self, number: int) -> RunResult | None:
        """The result that the run has if it is stopped at the end of this rung; None before it got there."""
        return self._read_result(self.path / _RUNG.format(number))

    def write_rung(self, number: int, result: RunResult) -> None:
        write_checksummed(self.path / _RUNG.format(number), asdict(replace(result, digest=self.spec.digest())))

    def rungs_reached(self) -> int:
        """By names alone."""
        return len(list(self.path.glob(_RUNG.format("*"))))

    def _read_result(self, path: Path) -> RunResult | None:
        if not path.exists():
            return None
        stored = read_checksummed(path)
        if stored.get("digest") != self.spec.digest():
            raise invalid(str(path), "a result of this protocol", "another protocol's", _MOVE_AWAY)
        try:
            return from_plain(RunResult, stored)
        except ValueError as error:
            raise invalid(str(path), "a result of this version", error, "choose another runs=FOLDER") from None

    def write_metrics(self, rows: Sequence[Mapping[str, Any]], durable: bool = True) -> None:
        write_atomically(self.path / _METRICS, _csv(rows), durable=durable)

    def write_checkpoint(self, payload: bytes) -> None:
        """Whole or not believed. What is in it is the trainer's business."""
        # For its owner only: with seed=secure it holds the key of the noise.
        write_atomically(self.path / _CHECKPOINT, _MAGIC + checksum_line(payload) + payload, mode=0o600)

    def checkpoint(self) -> bytes | None:
        """What was written; None if there is none."""
        path = self.path / _CHECKPOINT
        if not path.exists():
            return None
        content = system.read(path, follow=False)
        header, payload = content[:_HEADER_SIZE], content[_HEADER_SIZE:]
        if header != _MAGIC + checksum_line(payload):
            remedy = f"delete it to start over{SPENDS_AGAIN * self.spec.secure}"
            raise invalid(str(path), "a whole file", "a checksum that does not fit", remedy, DamagedFile)
        return payload

    def keep_model(self, name: str, payload: bytes) -> None:
        write_atomically(self.path / f"{name}.pt", payload)

    def drop_model(self, name: str) -> None:
        system.remove(self.path / f"{name}.pt")

    def lacks_models(self, keep: str) -> bool:
        """Whether the run is done without every model that `keep` asks for: only training leaves models behind."""
        if keep == "none" or (result := self.result()) is None:
            return False
        wanted = ["best"]
        if keep == "all":
            last = result.final.step
            wanted = [model_name(step) for step in (*range(0, last, self.spec.train.evaluate_every), last)]
        return not all((self.path / f"{name}.pt").exists() for name in wanted)

    def write_provenance(self, facts: Mapping[str, Any]) -> None:
        write_atomically(self.path / _PROVENANCE, as_json(facts))

    def tidy(self) -> None:
        """Remove what a run that was killed at its very end left: with seed=secure, its key must not stay."""
        if (self.path / _CHECKPOINT).exists() or system.temporaries(self.path):
            with self.claimed() as ours:  # which removes what was half written
                if ours:
                    self.drop_checkpoint()

    def finish(self, result: RunResult) -> None:
        write_checksummed(self.path / _RESULT, asdict(replace(result, digest=self.spec.digest())))

    def drop_checkpoint(self) -> None:
        path = self.path / _CHECKPOINT
        if path.exists():
            system.remove(path)
            system.sync_folder(self.path)  # else it may be there again after a loss of power

    def started(self) -> int:
        """Changes whenever a process starts or resumes the run; 0 before the first one."""
        lock = self.path / _LOCK
        return lock.stat().st_mtime_ns if lock.exists() else 0

    def is_running(self) -> bool:
        """Whether a living process holds the run."""
        try:
            with system.opened_lock(self.path / _LOCK, create=False) as lock:
                system.lock(lock, self.path / _LOCK, shared=True)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def refuse_links(path: Path, depth: int) -> None:
    """Refuse a place `depth` folders below a store's root that a link leads to: it is not in this store.

    The root itself may be a link.
    """
    for folder in (path, *path.parents[: depth - 1]):
        if folder.is_symlink():
            raise invalid(str(folder), "a folder of the store", "a link", "remove it, or choose another runs=FOLDER")


def read_stored(root: Path, folder: str, *, with_result: bool = True) -> Stored:
    """The run in a folder of the store `root`. Raises OSError or UserError where its spec or result cannot be read.

    What was spent it tells without its result too, which may be damaged.
    """
    path = root / folder
    result = read_checksummed(path / _RESULT) if with_result and (path / _RESULT).exists() else None
    # Missing is one thing; what cannot be read now may be there the next time, and must not be archived without.
    return Stored(folder, read_checksummed(path / _SPEC), result, _text(path / _METRICS), _provenance(path))


def has_begun(root: Path, folder: str) -> bool:
    """Whether a run left anything in the folder, be it damaged: then it has spent."""
    try:
        return any(not entry.name.startswith(".") for entry in (root / folder).iterdir())
    except OSError:
        return True


def _provenance(path: Path) -> Any:
    try:
        return json.loads(system.read(path / _PROVENANCE, follow=False))
    except (FileNotFoundError, *FOREIGN):
        return None


def _text(path: Path) -> str | None:
    """The text of a file; None if it is missing or not text."""
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        return system.read(path, follow=False).decode()
    return None


def is_finished(root: Path, folder: str) -> bool:
    return (root / folder / _RESULT).exists()


def model_name(step: int) -> str:
    return f"step{step:05d}"


def metrics_digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """The checksum of the stored metrics with these rows: the result carries it."""
    return hashlib.sha256(_csv(rows)).hexdigest()


def models_note(keep: str, folders: Iterable[RunFolder]) -> list[str]:
    """One line where runs are done without the models asked for; nothing else would say so."""
    without = [folder for folder in folders if folder.lacks_models(keep)]
    if not without:
        return []
    models = "best.pt" if keep == "best" else "a model of every evaluation"
    return [
        f"note: checkpoint.keep={keep}: found no {models} in {len(without)} of the finished runs, the first "
        f"{without[0].path}: trained, or partly so, before it was asked for; another runs=FOLDER trains anew"
    ]


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _refuse_difference(path: Path, theirs: Any, ours: Any, reason: str, part: str = "") -> None:
    if theirs != ours:
        key, found, expected = next(_differences(theirs, ours, part))
        raise invalid(str(path), f"{key} = {expected}", f"{found}: {reason}", _MOVE_AWAY)


def _differences(theirs: Any, ours: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            yield from _differences(theirs.get(name, "nothing"), ours.get(name, "nothing"), f"{key}.{name}".lstrip("."))
    elif theirs != ours:
        yield key, theirs, ours

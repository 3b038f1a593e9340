"""Runs on disk: readable folders, whole files or none, nothing believed whose checksum does not fit."""

import contextlib
import csv
import fcntl
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dp_bench.cache import write_atomically
from dp_bench.errors import UserError
from dp_bench.sealed import as_json, checksum_line, read_sealed, write_sealed
from dp_bench.spec import RunSpec, comparable

_MAGIC = b"dp_bench checkpoint 1\n"
_HEADER_SIZE = len(_MAGIC) + 65


class RunFolder:
    """The folder of one run. `result.json` is written last: where it is, the run is done."""

    def __init__(self, root: Path, spec: RunSpec) -> None:
        self.spec = spec
        self.path = root / spec.folder

    @contextlib.contextmanager
    def claimed(self) -> Iterator[bool]:
        """Whether this process may work here; no other one can at the same time, and a killed one lets go."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            for left_by_a_killed_writer in self.path.glob(".*.tmp"):
                left_by_a_killed_writer.unlink()
            yield True

    def check_spec(self) -> None:
        """Refuse a folder that holds another protocol's run under the same name."""
        path = self.path / "spec.json"
        if not path.exists():
            return
        theirs, ours = (comparable(protocol) for protocol in (read_sealed(path)["protocol"], self.spec.protocol()))
        if theirs != ours:
            key, found, expected = next(_differences(theirs, ours))
            raise UserError(
                f"{path}: found {key} = {found}, expected {expected}: this run was made under another protocol; "
                "move the folder away, or choose another runs=FOLDER"
            )

    def check_grid(self) -> None:
        """Refuse a grid of which a run on disk, any one, was made with another budget: all of them share one."""
        for path in self.path.parent.parent.glob("*/seed*/spec.json"):
            theirs, ours = (comparable(p)["allocation"] for p in (read_sealed(path)["protocol"], self.spec.protocol()))
            if theirs != ours:
                key, found, expected = next(_differences(theirs, ours, "allocation"))
                raise UserError(
                    f"{path}: found {key} = {found}, expected {expected}: this grid was begun with another budget; "
                    "move its folder away, or choose another runs=FOLDER"
                )
            return

    def write_spec(self) -> None:
        machine = vars(self.spec.machine)
        write_sealed(self.path / "spec.json", {"protocol": self.spec.protocol(), "machine": machine})

    def result(self) -> dict[str, Any] | None:
        path = self.path / "result.json"
        if not path.exists():
            return None
        result = read_sealed(path)
        if result.get("digest") != self.spec.digest():
            raise UserError(
                f"{path}: found another protocol's result; move the folder away, or choose another runs=FOLDER"
            )
        return result

    def write_metrics(self, rows: Sequence[Mapping[str, Any]], durable: bool = True) -> None:
        write_atomically(self.path / "metrics.csv", _csv(rows), durable=durable)

    def write_checkpoint(self, payload: bytes) -> None:
        # For its owner only: with seed=secure it holds the key of the noise.
        write_atomically(self.path / "checkpoint.pt", _MAGIC + checksum_line(payload) + payload, mode=0o600)

    def checkpoint(self) -> bytes | None:
        path = self.path / "checkpoint.pt"
        if not path.exists():
            return None
        content = path.read_bytes()
        header, payload = content[:_HEADER_SIZE], content[_HEADER_SIZE:]
        if header != _MAGIC + checksum_line(payload):
            raise UserError(
                f"{path}: found a checksum that does not fit, expected a whole file; delete it to start over"
            )
        return payload

    def keep_model(self, name: str, payload: bytes) -> None:
        write_atomically(self.path / f"{name}.pt", payload)

    def drop_model(self, name: str) -> None:
        (self.path / f"{name}.pt").unlink(missing_ok=True)

    def lacks_models(self, keep: str) -> bool:
        """Whether the run is done without every model that `keep` asks for: only training leaves models behind."""
        if keep == "none" or (result := self.result()) is None:
            return False
        wanted = ["best"]
        if keep == "all":
            last = result["final"]["step"]
            wanted = [model_name(step) for step in (*range(0, last, self.spec.train.evaluate_every), last)]
        return not all((self.path / f"{name}.pt").exists() for name in wanted)

    def write_provenance(self, facts: Mapping[str, Any]) -> None:
        write_atomically(self.path / "provenance.json", as_json(facts))

    def tidy(self) -> None:
        """Remove what a run that was killed at its very end left: with seed=secure, its key must not stay."""
        if (self.path / "checkpoint.pt").exists() or any(self.path.glob(".*.tmp")):
            with self.claimed() as ours:  # which removes what was half written
                if ours:
                    (self.path / "checkpoint.pt").unlink(missing_ok=True)

    def finish(self, result: Mapping[str, Any]) -> None:
        write_sealed(self.path / "result.json", {**result, "digest": self.spec.digest()})
        (self.path / "checkpoint.pt").unlink(missing_ok=True)


def model_name(step: int) -> str:
    return f"step{step:05d}"


def metrics_digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """The checksum of the metrics.csv with these rows: `result.json` carries it."""
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


def _differences(theirs: Any, ours: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            yield from _differences(theirs.get(name), ours.get(name), f"{key}.{name}".lstrip("."))
    elif theirs != ours:
        yield key, theirs, ours

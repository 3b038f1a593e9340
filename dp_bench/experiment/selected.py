"""A grid that is searched by selection, as far as its store tells: what was released, and putting it there.

The store gets one thing of a search, in one rename: the winner's run folder, or, where the number of trials was 0, the
file `RELEASED_NOTHING` in the grid's folder, which says that nothing was released. Either is the outcome of the search
and pays its whole budget, so a search that has one is never repeated. Before, there is nothing of it in the store.

Nothing that is kept tells the number of trials. There is one folder whatever it was; all times in it, inside files and
of files and folders, are the day on which the search ended, not even that on which the winner was trained. What a file
system records by itself and lets no one set (creation and change of an inode) is not in copies and archives.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from dp_bench.errors import invalid
from dp_bench.experiment.record import RunResult, Stored
from dp_bench.experiment.resolve import candidates
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RELEASED_NOTHING, RunFolder
from dp_bench.files import system
from dp_bench.files.checksummed import read_checksummed, write_checksummed

_STAGING = ".selection"  # below a profile; nothing reads what begins with a dot
_DAY = 24 * 60 * 60


@dataclass
class Trial:
    """A run that is kept in memory, in place of a run's folder: a killed search leaves nothing behind."""

    rows: Sequence[Mapping[str, Any]] = ()
    models: dict[str, bytes] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def checkpoint(self) -> None:
        """None: a trial that was interrupted is not resumed."""

    def write_spec(self) -> None:
        """Known from the start."""

    def write_checkpoint(self, payload: bytes) -> None:
        """Not kept."""

    def write_metrics(self, rows: Sequence[Mapping[str, Any]], durable: bool = True) -> None:
        self.rows = list(rows)

    def write_provenance(self, facts: Mapping[str, Any]) -> None:
        self.provenance = facts

    def keep_model(self, name: str, payload: bytes) -> None:
        self.models[name] = payload

    def drop_model(self, name: str) -> None:
        self.models.pop(name, None)


class SelectedGrid:
    """One grid, of which at most one run is ever in the store."""

    def __init__(self, root: Path, spec: RunSpec) -> None:
        """`spec`: of any of its runs."""
        self._root, self._staging = root, root / spec.profile / _STAGING
        self.folder, self.candidates = spec.grid_folder, candidates(spec)

    @contextlib.contextmanager
    def claimed(self, wait: bool = False) -> Iterator[bool]:
        """Whether this process may search in this store; no other one can at the same time, and a killed one lets go.

        The lock is on the store's folder: a lock file would say when the search began.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(system.locked_folder(self._root, wait=wait))
            except BlockingIOError:
                yield False
                return
            system.remove_tree(self._staging)  # left by a killed process; never shown
            held.callback(system.remove_tree, self._staging)
            yield True

    def winner(self) -> RunFolder | None:
        """The run that was released, if any."""
        folders = [RunFolder(self._root, spec) for spec in self.candidates]
        found = [folder for folder in folders if folder.done]
        if len(found) > 1:
            got = f"{len(found)} of them"
            raise invalid(str(self._root / self.folder), "one winner", got, "keep the one that was released first")
        return found[0] if found else None

    @property
    def done(self) -> bool:
        return (self._root / self.folder / RELEASED_NOTHING).exists() or self.winner() is not None

    def release(self, spec: RunSpec, trial: Trial, result: RunResult) -> None:
        """Put the winner into the store."""
        staged, today = RunFolder(self._staging, spec), _today()
        staged.write_spec()
        staged.write_metrics(trial.rows)
        for name, payload in trial.models.items():
            staged.keep_model(name, payload)
        apart = ("seconds_of_last_session", "finished")
        facts = {name: fact for name, fact in trial.provenance.items() if name not in apart}
        staged.write_provenance({**facts, "finished": time.strftime("%Y-%m-%d", time.gmtime(today))})
        staged.finish(result)
        self._publish(spec.folder, today)

    def release_nothing(self) -> None:
        """Record that the search is over, and its budget spent, without a winner."""
        path = self.folder / RELEASED_NOTHING
        write_checksummed(self._staging / path, {"spec": self.candidates[0].to_json()})
        self._publish(path, _today())

    def _publish(self, place: PurePosixPath, day: int) -> None:
        staged, target = self._staging / place, self._root / place
        for path in (*staged.rglob("*"), staged):
            system.set_time(path, day)
        system.make_folder(target.parent)
        system.rename(staged, target)
        system.sync_folder(target.parent)
        system.remove_tree(self._staging)  # now: it changes the time of the folder above
        for parent in place.parents:
            system.set_time(self._root / parent, day)

    def round_times(self) -> None:
        """Of a search that is done: a process that was killed just after the release left the time of its end."""
        winner = self.winner()
        outcome = self.folder / RELEASED_NOTHING if winner is None else winner.spec.folder
        for parent in outcome.parents:
            changed = int((self._root / parent).stat().st_mtime)
            system.set_time(self._root / parent, changed // _DAY * _DAY)


def read_nothing(root: Path, folder: str) -> Stored:
    """A search that released nothing, as what it spent: as if its first candidate had begun."""
    spec = read_checksummed(root / folder / RELEASED_NOTHING)["spec"]
    return Stored(str(RunSpec.from_json(spec).folder), spec, None, None, None)


def copy_empty_selection(source: Path, target: Path, folder: str) -> None:
    """Keep in another store what a search that released nothing spent."""
    write_checksummed(target / folder / RELEASED_NOTHING, {"spec": read_nothing(source, folder).spec})


def _today() -> int:
    return int(time.time()) // _DAY * _DAY

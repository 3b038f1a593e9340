"""Every run of a profile, whatever state the store is in: what cannot be read is named and skipped."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_bench.errors import DamagedFile, UserError, did_you_mean, invalid
from dp_bench.experiment.archive import Skipped, profiles_in, read_archive, walk
from dp_bench.experiment.folder_names import may_be_secure, part
from dp_bench.experiment.record import RunRecord, Stored, record_of
from dp_bench.experiment.store import SPENDS_AGAIN, read_stored
from dp_bench.files.from_json import FOREIGN
from dp_bench.report.load.recount import believed
from dp_bench.report.load.trade_offs import TradeOff, trade_off_in
from dp_bench.report.names import plural
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

_NOTHING = "a selection that released nothing: that is its outcome, and its budget is spent"
# Below this, starting processes takes longer than they save.
_WORTH_PROCESSES = 1000


@dataclass(frozen=True)
class Collection:
    """What a profile holds."""

    root: Path  # of the store; every folder named here is relative to it
    profile: str
    runs: tuple[RunRecord, ...]  # in the order of the grids
    skipped: tuple[Skipped, ...]
    trade_offs: tuple[TradeOff, ...]


def profiles(root: Path, remedy: str) -> list[str]:
    """Those that a store has; refused if it has none."""
    if not (there := profiles_in(root)):
        got = f"{root}, which is {'empty' if root.is_dir() else 'not there'}"
        raise invalid("--runs", "a folder of runs", got, remedy)
    return there


def collect(root: Path, profile: str) -> Collection:
    """Read the runs of `profile` under `root`: folders, and archives of them. Several profiles: "quick,verify"."""
    if "," in profile:
        each = [collect(root, name) for name in profile.split(",")]
        return Collection(
            root,
            each[0].profile,
            _in_order(run for one in each for run in one.runs),
            tuple(skipped for one in each for skipped in one.skipped),
            tuple(trade_off for one in each for trade_off in one.trade_offs),
        )
    if not (root / profile).is_dir():
        there = profiles_in(root)
        others = f"profiles here: {', '.join(there)}" if there else "start with dp-bench run --help"
        remedy = did_you_mean(profile, there) or others
        raise invalid(str(root / profile), "the runs of a profile", "no such folder", remedy)
    tree = walk(root, profile)
    archived = [found for name in tree.archives for found in read_archive(root, name)]
    lines = {found.folder: found for found in archived if isinstance(found, Stored)}
    found = [
        *tree.skipped,
        *(Skipped(folder, _NOTHING) for folder in tree.empty_selections),
        *(found for found in archived if isinstance(found, Skipped)),
        *_read_all(root, tree.folders, lines),
        *(_read_trade_off(root, folder) for folder in tree.trade_offs),
    ]
    skipped = sorted(item for item in found if isinstance(item, Skipped))
    runs = [item for item in found if isinstance(item, RunRecord)]
    if not runs:
        first = f"{skipped[0].folder}; {skipped[0].reason}" if skipped else ""
        problem = f" ({plural(len(skipped), 'folder')} skipped, the first: {first})" if skipped else ""
        raise invalid(str(root / profile), "at least one run", f"none{problem}", "start with dp-bench run --help")
    trade_offs = tuple(item for item in found if isinstance(item, TradeOff))
    return Collection(root, profile, _in_order(runs), tuple(skipped), trade_offs)


def _in_order(runs: Iterable[RunRecord]) -> tuple[RunRecord, ...]:
    runs = list(runs)
    # What another process read is not known to this one.
    for path in sorted({run.spec.strategy_path for run in runs} - {""}):
        STRATEGIES.add(path)
    for path in sorted({run.spec.task_path for run in runs} - {""}):
        TASKS.add(path)
    # The axes of every built-in strategy, then those of others.
    swept = dict.fromkeys([*STRATEGIES.built_in, *(run.spec.strategy for run in runs)])
    axes = dict.fromkeys(axis for name in swept for axis in STRATEGIES[name].swept)
    datasets, strategies = list(TASKS), list(STRATEGIES)

    def place(run: RunRecord) -> tuple[Any, ...]:
        spec, swept = run.spec, run.spec.swept
        point = [swept[axis] for axis in axes if axis in swept]
        dataset, strategy = datasets.index(spec.dataset.name), strategies.index(spec.strategy)
        return spec.variant, dataset, strategy, spec.grid.k, spec.epsilon, point, spec.seed

    return tuple(sorted(runs, key=place))


def _read_all(root: Path, folders: list[str], lines: Mapping[str, Stored]) -> Iterator[RunRecord | Skipped]:
    """One for each run; one that has both a folder and a line of an archive must be the same in both."""
    yield from (_read(root, folder, lines[folder], False) for folder in lines.keys() - set(folders))
    archived = [lines.get(folder) for folder in folders]
    if len(folders) < _WORTH_PROCESSES:
        yield from map(_read, itertools.repeat(root), folders, archived)
        return
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        yield from pool.map(_read, itertools.repeat(root), folders, archived, chunksize=250)


def _read(root: Path, folder: str, archived: Stored | None, own_folder: bool = True) -> RunRecord | Skipped:
    try:
        stored = read_stored(root, folder) if own_folder or archived is None else archived
        if archived is not None and stored.result is None:
            stored = archived
        elif archived is not None and not stored.same_run(archived):
            raise invalid("folder", "what its line in the archive says", "another run", "remove the wrong one")
        return believed(record_of(stored))
    except (UserError, OSError, *FOREIGN) as error:
        # By its name, as its spec may not be readable.
        again = SPENDS_AGAIN * (isinstance(error, DamagedFile) and may_be_secure(part(folder, "variant")))
        return Skipped(folder, _why(error, root / folder, "run") + again)


def _why(error: Exception, path: Path, thing: str) -> str:
    """Why a folder that should hold `thing` is skipped."""
    if isinstance(error, UserError) and not isinstance(error, LookupError):
        return str(error).removeprefix(f"{path}/")
    if isinstance(error, FileNotFoundError):
        return f"not a {thing}: expected a {Path(error.filename).name} in it"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    return f"not a {thing} of this version: {type(error).__name__}: {error}"


def _read_trade_off(root: Path, folder: str) -> TradeOff | Skipped:
    try:
        return trade_off_in(root, folder)
    except (UserError, OSError, *FOREIGN) as error:
        return Skipped(folder, _why(error, root / folder, "trade-off"))

"""What all that a store holds of a data set has spent: every profile and variant, also runs that no table shows."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dp_bench.errors import UserError
from dp_bench.experiment.archive import dataset_of, profiles_in, read_archive, walk
from dp_bench.experiment.record import Provenance, RunRecord, Stored, check_metrics
from dp_bench.experiment.selected import read_nothing
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import has_begun, read_stored
from dp_bench.files.from_json import FOREIGN
from dp_bench.privacy import totals
from dp_bench.report import names
from dp_bench.report.contents import shown
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.recount import believed
from dp_bench.report.load.results import Grid, most_seeds, results
from dp_bench.report.table import Column, Row, Table, by_column


@dataclass
class StoredRuns:
    """Every run of a store by its spec, finished or not, and how many were begun whose spec cannot be believed.

    With seed=named a run is the same wherever it is kept. With seed=secure what differs was released again, with noise
    of its own: it stands in the next of the `releases`.
    """

    releases: list[dict[str, RunRecord]]  # by folder
    left_out: Counter[str] = field(default_factory=Counter)  # by data set; "" where it is not known

    def has(self, folder: str) -> bool:
        """Whether nothing that is kept under this name could be another release."""
        return folder in self.releases[0] and not self.releases[0][folder].spec.secure

    def add(self, stored: Stored) -> None:
        """A run that has begun has spent all that it was given, whatever became of its result."""
        metrics = stored.metrics or ""
        known = [release[stored.folder] for release in self.releases if stored.folder in release]
        if any(not run.spec.secure or run.metrics == metrics for run in known):
            return
        try:
            spec = RunSpec.from_json(stored.spec)
            if str(spec.folder) != stored.folder:
                raise ValueError("another run's spec")
            run = RunRecord(spec, None, metrics, Provenance.from_json(stored.provenance))
            if len(known) == len(self.releases):
                self.releases.append({})
            # Counted as its spec says, which is too little where it is not believed.
            self.releases[len(known)][stored.folder] = run
            check_metrics(spec, None, stored.metrics)
            believed(run)
        except (UserError, *FOREIGN):
            self.leave_out(stored.folder)

    def leave_out(self, name: str) -> None:
        """`name`: of a folder, of an archive or of a line in one."""
        self.left_out[dataset_of(name)] += 1


def read_all(collection: Collection) -> StoredRuns:
    """All of the store that the collection was read from."""
    found = StoredRuns([{run.folder: run for run in collection.runs}])
    for profile in profiles_in(collection.root):
        if (collection.root / profile).is_symlink():  # which may lead to runs
            found.leave_out(profile)
            continue
        tree = walk(collection.root, profile)
        for name in tree.archives:
            for line in read_archive(collection.root, name):
                found.add(line) if isinstance(line, Stored) else found.leave_out(line.folder)
        for folder in tree.folders:
            if not found.has(folder):
                _add_folder(found, collection.root, folder)
        for folder in tree.empty_selections:  # its outcome has cost what a winner costs
            try:
                found.add(read_nothing(collection.root, folder))
            except (UserError, OSError, *FOREIGN):
                found.leave_out(folder)
        for skipped in tree.skipped:
            if not skipped.empty:  # a link or a folder that cannot be read may hold runs
                found.leave_out(skipped.folder)
    return found


def _add_folder(found: StoredRuns, root: Path, folder: str) -> None:
    try:
        found.add(read_stored(root, folder, with_result=False))
    except (UserError, OSError, *FOREIGN):
        if has_begun(root, folder):
            found.leave_out(folder)


@shown("Privacy", 30, main_only=True)
def total_table(collection: Collection) -> Table | None:
    """What all grids of the store spend together on each data set; None without private ones."""
    stored = read_all(collection)
    grids = [grid for release in stored.releases for grid in _grids(release.values())]
    found = totals.totals(map(_listed, grids), stored.left_out)
    if not found:
        return None
    return Table(
        "privacy_total",
        "All grids that the store holds, over all profiles and variants, unfinished and skipped runs included: the ε "
        "that they spend together, under RDP.",
        *by_column([_row(one) for one in found]),
        notes=(totals.MEANING.replace("epsilon", "ε"),),
        grids=[[grid for grid in grids if grid.key.dataset == one.dataset and grid.private] for one in found],
    )


def _row(total: totals.Total) -> Row:
    return {
        "data set": names.dataset(total.dataset),
        Column("private grids", "count"): total.grids,
        "δ": total.delta_words,
        Column("ε of all grids", "spent"): total.shown(total.epsilon),
        Column("all seeds charged", "spent"): total.shown(total.with_seeds),
        "not counted": total.omitted,
    }


def _grids(runs: Iterable[RunRecord]) -> Iterator[Grid]:
    """Runs of one grid that say different budgets are different grids."""

    def place(run: RunRecord) -> tuple[str, str]:
        return str(run.spec.grid_folder), repr(run.spec.allocation)

    for _, members in itertools.groupby(sorted(runs, key=place), key=place):
        mine = list(members)
        yield from results(mine, most_seeds(mine)).values()


def _listed(grid: Grid) -> totals.Listed:
    spec, key = grid.spec, grid.key
    return totals.Listed(
        f"{spec.profile}/{spec.variant}, {names.strategy(key.strategy)}, k = {key.k}, ε = {names.epsilon(key.epsilon)}",
        key.dataset,
        grid.allocation,
        rows=spec.source.train_rows,
        times=spec.grid.times,
        seeds=grid.seeds,
        search=(key.strategy, key.k, grid.allocation and grid.allocation.budget, spec.seeding),
    )

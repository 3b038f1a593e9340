"""The state of a grid that is searched by halving: which candidates are in which rung, and which continue.

Everything follows from the runs on disk, so every process finds the same, whichever of them trained or was killed. A
run that has reached the end of a rung says so in a file of its own, `rung<r>.json`: the result that it has if it stops
there. Once all candidates of a rung have reached its end with every seed, the best of them continue, by the mean over
the seeds of the best evaluation so far on the test set. That set is public, as in the paper, so the choice is free.
"""

import math
import time
from dataclasses import replace
from pathlib import Path

from dp_bench.experiment.record import RunResult
from dp_bench.experiment.resolve import candidates
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.tasks import TASKS
from dp_bench.tasks.base import ranked

_SECONDS_BETWEEN_TRIES = 0.1


class HalvedGrid:
    """The candidates of one grid, by the names of their points."""

    def __init__(self, root: Path, spec: RunSpec) -> None:
        """`spec`: of any of its runs."""
        assert spec.allocation is not None
        self.rungs = spec.allocation.rungs
        self.folders = {  # of every candidate, one per seed, in the fixed order of the grid
            run.point: [RunFolder(root, replace(run, seed=seed)) for seed in spec.ranked_seeds]
            for run in candidates(spec)
        }
        self._higher_is_better = TASKS[spec.dataset.name].higher_is_better
        self._members: dict[int, list[str]] = {}  # by rung, once they are known: they never change

    def members(self, rung: int) -> list[str] | None:
        """The candidates of a rung, best first but for the lowest one; None while the rung below is not complete."""
        if rung == 0:
            return list(self.folders)
        if rung not in self._members:
            below = self.members(rung - 1)
            if below is None:
                return None
            results = {name: [self._at_end_of(rung - 1, folder) for folder in self.folders[name]] for name in below}
            found = {name: [r for r in each if r is not None] for name, each in results.items()}
            if any(len(found[name]) < len(each) for name, each in results.items()):
                return None
            in_order = (name for name in self.folders if name in below)  # which breaks ties
            best_first = sorted(in_order, key=lambda name: self._rank(found[name]))
            self._members[rung] = best_first[: self.rungs[rung].candidates]
        return self._members[rung]

    def _at_end_of(self, rung: int, folder: RunFolder) -> RunResult | None:
        """What a run had reached at the end of a rung; of one that was dropped there its result says it too, as in a
        store that was made from an archive."""
        if (reached := folder.rung(rung)) is not None:
            return reached
        result = folder.result()
        return result if result is not None and result.steps_charged == self.rungs[rung].step else None

    def _rank(self, seeds: list[RunResult]) -> tuple[bool, float]:
        """Ascending from the best; a candidate of which a seed diverged after all that did not."""
        mean = math.fsum(result.best.number for result in seeds) / len(seeds)
        return ranked(any(result.diverged for result in seeds), mean, self._higher_is_better)

    def next_rung(self, point: str) -> int | None:
        """The rung that a candidate may be trained in now; None if it is done, or has to wait for others."""
        if all(folder.result() is not None for folder in self.folders[point]):
            return None  # also without its rungs' files, as in a store that was made from an archive
        for rung in range(len(self.rungs)):
            members = self.members(rung)
            if members is None or point not in members:
                return None
            if not self.reached(point, rung):
                return rung
        return None

    def reached(self, point: str, rung: int) -> bool:
        """Whether every seed of a candidate is trained to the end of a rung."""
        last = rung == len(self.rungs) - 1
        return all((f.result() if last else self._at_end_of(rung, f)) is not None for f in self.folders[point])

    def finish_dropped(self) -> None:
        """Give every run of a candidate that does not continue its result, and take its checkpoint away."""
        for rung in range(len(self.rungs) - 1):
            above = self.members(rung + 1)
            if above is None:
                return
            for name in self.members(rung) or ():
                if name not in above:
                    for folder in self.folders[name]:
                        _finish(folder, rung)


def _finish(folder: RunFolder, rung: int) -> None:
    while folder.result() is None:
        with folder.claimed() as ours:
            if ours and not folder.done:
                result = folder.rung(rung)
                assert result is not None  # the rung is complete
                folder.finish(result)
        if not ours:  # another process is about to do the same
            time.sleep(_SECONDS_BETWEEN_TRIES)
    folder.tidy()

"""Running the jobs of a sweep through whichever launcher, until each is done, has failed, or keeps dying."""

import contextlib
import functools
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from dp_bench.errors import JobsFailed, UserError
from dp_bench.experiment.halving import HalvedGrid
from dp_bench.experiment.plan import Job
from dp_bench.experiment.store import models_note
from dp_bench.files import system
from dp_bench.sweep.ledger import ledger
from dp_bench.sweep.live import watching
from dp_bench.sweep.selection import search_all
from dp_bench.tasks import TASKS

Launch = Callable[..., Sequence[JobReturn]]
TRIES = 3  # of a job whose process dies
_SECONDS_BETWEEN_LOOKS = 2.0
_STUCK = (
    "{}: expected the rung of every candidate that went further, got runs without their rung*.json; put these files "
    "back, or choose another runs=FOLDER"
)


def check_grids(planned: Sequence[Job]) -> None:
    for job in _one_of_each_grid(planned).values():
        job.folders[0].check_grid()


def show_plan(planned: Sequence[Job], notes: Sequence[str], accountants: Sequence[str]) -> None:
    check_grids(planned)
    print("\n".join([ledger(planned, accountants), *notes]))


def sweep(planned: Sequence[Job], launch: Launch) -> None:
    """Carry out every job that is not done. Raises `JobsFailed` with each reason once the others have finished."""
    check_grids(planned)
    for job in planned:
        for folder in job.folders:
            folder.check_spec()
            if folder.done:
                folder.tidy()
    _make_roots(sorted({job.root for job in planned}))
    launched = [job for job in planned if not job.runs[0].winner_only]
    failures = _launch_all(launched, launch) if launched else {}
    failures |= search_all([job for job in planned if job.runs[0].winner_only])
    for keep in dict.fromkeys(job.keep for job in planned):
        done = [folder for job in planned if job.keep == keep and _is_done(job) for folder in job.folders]
        print("".join(f"{line}\n" for line in models_note(keep, done)), end="", file=sys.stderr)
    if failures:
        reasons = "\n".join(f"  {_name(job)}: {reason}" for job, reason in failures.items())
        raise JobsFailed(f"{len(failures)} of {len(planned)} configurations failed:\n{reasons}")


def _name(job: Job) -> PurePosixPath:
    """Of what failed; which candidates a selection tried stays secret."""
    run = job.runs[0]
    return run.grid_folder if run.winner_only else run.folder.parent


def _launch_all(planned: Sequence[Job], launch: Launch) -> dict[Job, str]:
    """The jobs that failed, each with its reason."""
    failures: dict[Job, str] = {}
    halved = _one_of_each_grid([job for job in planned if job.runs[0].ranked_seeds])
    grids = {grid: HalvedGrid(job.root, job.runs[0]) for grid, job in halved.items()}
    with watching(planned):
        while todo := _todo(planned, grids, failures):
            # The longest first: at the end no core is idle while another has hours to go.
            failures |= _carry_out(sorted(todo, key=_length, reverse=True), launch, lambda job: todo[job]())
    for key in grids:
        left = [job for job in planned if _grid_of(job) == key and not _is_done(job)]
        if left and not any(_grid_of(job) == key for job in failures):
            failures[left[0]] = _STUCK.format(left[0].root / left[0].runs[0].grid_folder)
    return failures


def _make_roots(roots: Sequence[Path]) -> None:
    """Create the folders of results; if one cannot be made, remove those just created and raise."""
    made = [path for root in roots for path in (root, *root.parents) if not path.exists()]
    try:
        for root in roots:
            system.make_folder(root)
    except OSError:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _one_of_each_grid(jobs: Sequence[Job]) -> dict[object, Job]:
    return {_grid_of(job): job for job in jobs}


def _grid_of(job: Job) -> object:
    return job.root, job.runs[0].grid_folder


def _todo(
    planned: Sequence[Job], grids: Mapping[object, HalvedGrid], failures: dict[Job, str]
) -> dict[Job, Callable[[], bool]]:
    """What can be trained now, and how to tell that it is: whole runs, and the next rung of grids that are halved.

    A rung begins once the one below is complete; of a grid of which a job failed, none does any more.
    """
    whole = [job for job in planned if _grid_of(job) not in grids and job not in failures and not _is_done(job)]
    todo: dict[Job, Callable[[], bool]] = {job: functools.partial(_is_done, job) for job in whole}
    for key, grid in grids.items():
        jobs = [job for job in planned if _grid_of(job) == key]
        if any(job in failures for job in jobs):
            continue
        try:
            grid.finish_dropped()
            for job in jobs:
                if (rung := grid.next_rung(job.runs[0].point)) is not None:
                    todo[job] = functools.partial(_is_done, job, grid, rung)
        except UserError as damaged:
            failures[jobs[0]] = str(damaged)
    return todo


def _is_done(job: Job, grid: HalvedGrid | None = None, rung: int = 0) -> bool:
    """Whether all its runs have a result, or those of a halved grid have reached the end of a rung."""
    try:
        if grid is not None:
            return grid.reached(job.runs[0].point, rung)
        return all(folder.result() is not None for folder in job.folders)
    except UserError:  # damaged: its job is to say so
        return False


def _carry_out(todo: Sequence[Job], launch: Launch, is_done: Callable[[Job], bool] = _is_done) -> dict[Job, str]:
    """The jobs that failed, each with its reason. A job that runs in another process is waited for."""
    failures: dict[Job, str] = {}
    lost: Counter[Job] = Counter()  # how often a job ended without a result or a reason
    fruitless, told = 0, False
    while left := [job for job in todo if job not in failures and not is_done(job)]:
        batch = _next_batch(left, lost)
        if not batch:
            if not told:
                print(f"waiting for {len(left)} configurations running in another process", file=sys.stderr, flush=True)
            told = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            continue
        before = {job: _starts(job) for job in batch}
        try:
            returned = launch([job.overrides for job in batch], initial_job_idx=0)
        except Exception as death:
            # One process died and its launcher gave up: joblib ends the others of the batch as well, Ray and SLURM let
            # them run. A job that started, has no result and holds no lock may be the one that crashed.
            reason = f"its process died {TRIES} times ({_first_line(death)})"
            started = [job for job in batch if _starts(job) != before[job] or len(batch) == 1]
            fruitless = 0 if started else fruitless + 1
            if fruitless == TRIES:
                raise JobsFailed(f"no job could be started ({type(death).__name__}: {_first_line(death)})") from death
        else:
            failures |= {job: why for job, ret in zip(batch, returned, strict=True) if (why := _failure(ret))}
            reason = f"it ended {TRIES} times without a result; do all workers see the same runs={batch[0].root}?"
            started = batch
        lost.update(job for job in started if job not in failures and not is_done(job) and not _is_claimed(job))
        failures |= {job: reason for job in started if lost[job] == TRIES}
    return failures


def _next_batch(left: Sequence[Job], lost: Counter[Job]) -> list[Job]:
    """The jobs that are not running in another process.

    One that was lost before its last try goes after the others, by itself: the one that kills its process is then
    known, and those that died with it are not held to account.
    """
    free = [job for job in left if not _is_claimed(job)]
    return [job for job in free if lost[job] < TRIES - 1] or free[:1]


def _failure(returned: JobReturn) -> str | None:
    value: Any = returned._return_value  # its property would raise, and print
    if returned.status is JobStatus.COMPLETED:
        return None if value is None else str(value)  # the job says why it could not be done
    return f"{type(value).__name__}: {_first_line(value)}"


def _length(job: Job) -> float:
    return sum(run.steps * TASKS[run.dataset.name].step_cost for run in job.runs)


def _is_claimed(job: Job) -> bool:
    """Whether one of its runs is running in another process."""
    return any(folder.is_running() for folder in job.folders)


def _starts(job: Job) -> list[int]:
    """Changes whenever one of its runs is started or resumed."""
    return [folder.started() for folder in job.folders]


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

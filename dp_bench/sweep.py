"""Running the jobs of a sweep through whichever launcher, until each is done, has failed, or keeps dying."""

import fcntl
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from dp_bench.errors import JobsFailed, UserError
from dp_bench.ledger import ledger
from dp_bench.plan import Job
from dp_bench.store import RunFolder, models_note
from dp_bench.tasks import TASKS
from dp_bench.watch import watching

Launch = Callable[..., Sequence[JobReturn]]
TRIES = 3  # of a job whose process dies
_SECONDS_BETWEEN_LOOKS = 2.0


def check_grids(planned: Sequence[Job]) -> None:
    first = {(job.root, job.runs[0].grid_folder): job for job in planned}
    for job in first.values():
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
    for root in {job.root for job in planned}:
        root.mkdir(parents=True, exist_ok=True)  # where that cannot be, no job need find out
    with watching(planned):
        # The longest first: at the end no core is idle while another has hours to go.
        failures = _carry_out(sorted((job for job in planned if not _is_done(job)), key=_length, reverse=True), launch)
    for keep in dict.fromkeys(job.keep for job in planned):
        done = [folder for job in planned if job.keep == keep and _is_done(job) for folder in job.folders]
        print("".join(f"{line}\n" for line in models_note(keep, done)), end="", file=sys.stderr)
    if failures:
        reasons = "\n".join(f"  {job.runs[0].folder.parent}: {reason}" for job, reason in failures.items())
        raise JobsFailed(f"{len(failures)} of {len(planned)} configurations failed:\n{reasons}")


def _carry_out(todo: Sequence[Job], launch: Launch) -> dict[Job, str]:
    """Why each job that could not be done could not. One that another process is at is waited for."""
    failures: dict[Job, str] = {}
    lost: Counter[Job] = Counter()  # how often a job ended without a result or a reason
    fruitless, told = 0, False
    while left := [job for job in todo if job not in failures and not _is_done(job)]:
        batch = _next_batch(left, lost)
        if not batch:
            if not told:
                print(f"waiting for {len(left)} configurations that another process is at", file=sys.stderr, flush=True)
            told = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            continue
        before = {job: _start(job) for job in batch}
        try:
            returned = launch([job.overrides for job in batch], initial_job_idx=0)
        except Exception as death:
            # One process died and its launcher gave up: joblib ends the others of the batch as well, Ray and SLURM let
            # them run. Whoever had started, has no result and is nobody's now may be the one that died.
            reason = f"its process died {TRIES} times ({_first_line(death)})"
            started = [job for job in batch if _start(job) != before[job] or len(batch) == 1]
            fruitless = 0 if started else fruitless + 1
            if fruitless == TRIES:
                raise JobsFailed(f"no job could be started ({type(death).__name__}: {_first_line(death)})") from death
        else:
            failures |= {job: why for job, ret in zip(batch, returned, strict=True) if (why := _failure(ret))}
            reason = f"it ended {TRIES} times without a result; do all workers see the same runs={batch[0].root}?"
            started = batch
        lost.update(job for job in started if job not in failures and not _is_done(job) and not _is_claimed(job))
        failures |= {job: reason for job in started if lost[job] == TRIES}
    return failures


def _next_batch(left: Sequence[Job], lost: Counter[Job]) -> list[Job]:
    """The jobs that no other process is at. One that was lost before its last try goes after the others, by itself:
    the one that kills its process is then known, and those that died with it are not held to account."""
    free = [job for job in left if not _is_claimed(job)]
    return [job for job in free if lost[job] < TRIES - 1] or free[:1]


def _failure(returned: JobReturn) -> str | None:
    value: Any = returned._return_value  # its property would raise, and print
    if returned.status is JobStatus.COMPLETED:
        return None if value is None else str(value)  # run_job says why it could not be done
    return f"{type(value).__name__}: {_first_line(value)}"


def _is_done(job: Job) -> bool:
    try:
        return all(folder.result() is not None for folder in job.folders)
    except UserError:  # damaged: its job is to say so
        return False


def _length(job: Job) -> float:
    return sum(run.steps * TASKS[run.dataset.name].step_cost for run in job.runs)


def _is_claimed(job: Job) -> bool:
    """Whether a living process is at one of its runs."""
    return any(_is_locked(folder) for folder in job.folders)


def _is_locked(folder: RunFolder) -> bool:
    try:
        with (folder.path / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _start(job: Job) -> list[int]:
    """Changes whenever one of its runs is started or resumed: that writes its spec anew."""
    specs = [folder.path / "spec.json" for folder in job.folders]
    return [spec.stat().st_mtime_ns if spec.exists() else 0 for spec in specs]


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

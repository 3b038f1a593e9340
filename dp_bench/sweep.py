"""Running the jobs of a sweep through whichever launcher, until each is done, has failed, or keeps dying."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from dp_bench.errors import JobsFailed
from dp_bench.ledger import ledger
from dp_bench.plan import Job
from dp_bench.watch import watching

Launch = Callable[..., Sequence[JobReturn]]
TRIES = 3  # of a job whose process dies


def show_plan(planned: Sequence[Job], accountants: Sequence[str]) -> None:
    print(ledger(planned, accountants))


def sweep(planned: Sequence[Job], launch: Launch) -> None:
    """Carry out every job that is not done. Raises `JobsFailed` with each reason once the others have finished."""
    for job in planned:
        for folder in job.folders:
            folder.check_spec()
    todo = [job for job in planned if not _is_done(job)]
    with watching(planned):
        failures = _carry_out(todo, launch)
    left = [job for job in todo if job not in failures and not _is_done(job)]
    if left:
        print(f"{len(left)} configurations are being run by another process; this one has left them alone")
    if failures:
        reasons = "\n".join(f"  {job.runs[0].folder.parent}: {reason}" for job, reason in failures.items())
        raise JobsFailed(f"{len(failures)} of {len(planned)} configurations failed:\n{reasons}")


def _carry_out(todo: Sequence[Job], launch: Launch) -> dict[Job, str]:
    failures: dict[Job, str] = {}
    deaths: Counter[Job] = Counter()
    together, alone = list(todo), list[Job]()
    while together or alone:
        batch = [alone.pop()] if alone else together
        try:
            returned = launch([job.overrides for job in batch], initial_job_idx=0)
        except Exception as death:
            # A launcher loses the whole batch when one process is killed. Those that had started are suspects, and each
            # is tried by itself: the one that kills its process is then known, and the others are not held to account.
            suspects = [job for job in batch if not _is_done(job) and _has_started(job)]
            if not suspects:
                raise
            together = [job for job in together if not _is_done(job) and job not in suspects and job not in failures]
            deaths.update(suspects)
            for job in suspects:
                if deaths[job] < TRIES:
                    alone.append(job)
                else:
                    failures[job] = f"its process died {TRIES} times ({_first_line(death)})"
            continue
        failures |= {job: reason for job, ret in zip(batch, returned, strict=True) if (reason := _failure(ret))}
        if batch is together:
            together = []
    return failures


def _failure(returned: JobReturn) -> str | None:
    value: Any = returned._return_value  # its property would raise, and print
    if returned.status is JobStatus.COMPLETED:
        return None if value is None else str(value)  # run_job says why it could not be done
    return f"{type(value).__name__}: {_first_line(value)}"


def _is_done(job: Job) -> bool:
    return all((folder.path / "result.json").exists() for folder in job.folders)


def _has_started(job: Job) -> bool:
    return any(folder.path.exists() for folder in job.folders)


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

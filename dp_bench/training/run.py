"""Carrying a run through to its result: start or resume, evaluate and save at regular steps, finish once."""

import contextlib
import ctypes
import math
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from dp_bench.data.tensors import Dataset
from dp_bench.errors import DamagedFile, invalid
from dp_bench.experiment.record import Evaluation, RunResult, UsedData
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder, metrics_digest
from dp_bench.privacy.accounting import epsilon_curve
from dp_bench.privacy.allocators import Rung
from dp_bench.privacy.checks import check_allocation
from dp_bench.privacy.guarantee import guarantee
from dp_bench.tasks import TASKS
from dp_bench.training.background import background_writer
from dp_bench.training.checkpoint import Folder, resume, save
from dp_bench.training.progress import Show
from dp_bench.training.provenance import provenance
from dp_bench.training.trainer import Training, best_row

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


def run(
    spec: RunSpec, root: Path, dataset: Dataset, progress: Show, keep: str = "none", rung: int | None = None
) -> RunResult | None:
    """The result of a run: read if it is finished, else trained. None if it is running in another process.

    Of a grid that is halved, a run is trained to the end of a `rung`. Unless that is the last one it is not finished:
    its checkpoint stays, and the result is what it will be if the run is stopped there.
    """
    rungs = spec.allocation.rungs if spec.allocation else ()
    if (rung is None) != (not rungs):
        raise ValueError(f"rung: expected one of {len(rungs)}, got {rung}")
    if spec.winner_only:
        raise ValueError("selection: expected its search, which keeps the winner only, got one of its trials")
    stop = None if rung is None or rung == len(rungs) - 1 else rung
    folder = RunFolder(root, spec)
    if spec.allocation is not None and not folder.done:
        check_allocation(spec.allocation)  # before anything is written
    with folder.claimed() as ours:
        if not ours:
            return None
        folder.check_spec()
        result = folder.result()
        if result is None:
            _refuse_a_second_release(folder)
            if stop is not None:
                if (reached := folder.rung(stop)) is not None:
                    return reached
                stopped = _stopped(_train(spec, folder, dataset, progress, keep, rungs[stop].step), rungs, stop)
                folder.write_rung(stop, stopped)
                return stopped
            result = _train(spec, folder, dataset, progress, keep, spec.steps)
            folder.finish(result)
        folder.drop_checkpoint()
        return result


def _refuse_a_second_release(folder: RunFolder) -> None:
    """A rung that was reached is released: candidates were ranked by it. Without its checkpoint it would be trained
    again with other noise."""
    if folder.spec.secure and folder.rungs_reached() and folder.checkpoint() is None:
        expected, got = "the checkpoint of a run that has reached a rung", "none: starting over spends the budget again"
        raise invalid(str(folder.path), expected, got, "put it back, or choose another runs=FOLDER", DamagedFile)


def run_trial(spec: RunSpec, folder: Folder, dataset: Dataset, keep: str) -> RunResult:
    """One trial of a selection, from its first step to its last; `folder` keeps it to itself."""
    return _train(spec, folder, dataset, lambda step, row: None, keep, spec.steps)


def _stopped(result: RunResult, rungs: Sequence[Rung], rung: int) -> RunResult:
    """The result of a run that is stopped at the end of this rung; its epsilon is still that of a whole run: more."""
    step = rungs[rung].step
    where = f"stopped at rung {rung + 1} of {len(rungs)}, step {step} of {rungs[-1].step}"
    if result.diverged:
        return replace(result, reason=f"{result.reason}; {where}", steps_charged=step)
    return replace(result, status="stopped", reason=where, steps_charged=step)


def _train(spec: RunSpec, folder: Folder, dataset: Dataset, progress: Show, keep: str, until: int) -> RunResult:
    started = time.monotonic()
    training = Training(spec, dataset, prepare_device(spec))
    evaluated = [*range(0, spec.steps, spec.train.evaluate_every), spec.steps]
    epsilons = dict(zip(evaluated, _epsilons(spec, evaluated), strict=True))
    saved = folder.checkpoint()
    with background_writer() as submit:

        def evaluate() -> None:
            training.evaluate(epsilons[training.step])
            save(training, folder, submit, keep)
            progress(training.step, training.rows[-1])

        if saved is not None:
            resume(training, saved)
            folder.write_metrics(training.rows)
            progress(training.step, training.rows[-1])
        else:
            folder.write_spec()
            evaluate()
        diverged = training.divergence()
        while training.step < until and diverged is None:
            training.advance()
            progress(training.step, None)
            if training.step in epsilons:
                evaluate()
                diverged = training.divergence()
    folder.write_metrics(training.rows)
    folder.write_provenance(
        {
            **provenance("torch", "numpy", "dp-accounting", "opacus", "hydra-core"),
            "host": platform.node(),
            "machine": training.machine(),
            "source": {"where": spec.source.where, "checksums": spec.source.checksums},
            "seconds_of_last_session": round(time.monotonic() - started, 1),
        }
    )
    return _result(spec, training)


def _result(spec: RunSpec, training: Training) -> RunResult:
    task = TASKS[spec.dataset.name]
    first, last, best = training.rows[0], training.rows[-1], best_row(training)
    reason = training.divergence()
    if reason is None and task.better(first[task.metric], last[task.metric]):
        reason = "the metric is worse than at step 0"
    allocation = spec.allocation
    return RunResult(
        digest=spec.digest(),
        status="finished" if reason is None else "diverged",
        reason=reason,
        metric=task.metric,
        metrics_sha256=metrics_digest(training.rows),
        best=Evaluation(best["step"], _plain(best[task.metric])),
        final=Evaluation(last["step"], _plain(last[task.metric])),
        # A run that stopped early was allowed to continue: it is charged all its steps.
        steps_charged=spec.steps if allocation else 0,
        epsilon_run=allocation.epsilon_run if allocation else None,
        epsilon_grid=allocation.epsilon_grid if allocation else None,
        no_guarantee=guarantee(allocation, spec.source.train_rows).words if allocation else None,
        delta=spec.privacy.delta if spec.privacy else None,
        accountant=spec.privacy.accountant if spec.privacy else None,
        source=UsedData(spec.source.kind, spec.source.where, list(spec.source.caveats)),
    )


def _epsilons(spec: RunSpec, steps: list[int]) -> list[float]:
    allocation = spec.allocation
    if allocation is None:
        return [math.inf] * len(steps)
    budget = allocation.budget
    # Of the rows that batches are drawn from, also where the steps and the noise are those of a larger set.
    sampling = allocation.drawn_from(spec.source.train_rows).sampling
    return epsilon_curve(budget.accountant, allocation.noise_multiplier, sampling, steps, budget.delta)


def check_device(wanted: str) -> None:
    """Refuse a device that this machine does not have."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise invalid("device", "a CUDA device for device=cuda", "none", "use device=auto or device=cpu")


def prepare_device(spec: RunSpec) -> torch.device:
    """The device that was asked for, set up so that the same spec gives the same bits."""
    wanted = spec.machine.device
    check_device(wanted)
    torch.set_num_threads(spec.machine.threads)
    _keep_freed_memory()
    device = torch.device("cuda" if wanted == "auto" and torch.cuda.is_available() else wanted.replace("auto", "cpu"))
    if device.type == "cuda":
        torch.use_deterministic_algorithms(True, warn_only=True)
    return device


def _keep_freed_memory() -> None:
    """Have glibc reuse what a step frees: pages given back to the system are cleared again at every step."""
    with contextlib.suppress(OSError, AttributeError):  # another C library manages memory in its own way
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**25)
        mallopt(_M_TRIM_THRESHOLD, 2**30)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None

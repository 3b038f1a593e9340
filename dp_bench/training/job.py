"""One Hydra job: one configuration with all its seeds, from checked specs to a summary."""

import functools
import multiprocessing
import os
import statistics
import threading
import time
from pathlib import Path

from dp_bench.errors import HeldElsewhere, invalid
from dp_bench.experiment.config import Config
from dp_bench.experiment.halving import HalvedGrid
from dp_bench.experiment.record import RunResult
from dp_bench.experiment.resolve import specs
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder, models_note
from dp_bench.files import system
from dp_bench.privacy.accounting import exact, rounded_up
from dp_bench.privacy.calibration import warnings_for
from dp_bench.privacy.guarantee import guarantee
from dp_bench.tasks import TASKS
from dp_bench.training.progress import follow, silently
from dp_bench.training.trackers import check_tracker, tracked


@functools.cache  # once per process, however many jobs it is given
def _end_with_the_sweep() -> None:
    """A process of joblib's pool would train on for hours after its sweep was killed; it may end at any moment."""
    # Not os.getppid(): the sweep may be gone before its process gets here.
    sweep = multiprocessing.parent_process()

    def watch() -> None:
        while sweep is not None and os.getppid() == sweep.pid:
            time.sleep(1)
        os._exit(1)

    if multiprocessing.current_process().name.startswith("LokyProcess"):
        threading.Thread(target=watch, daemon=True).start()


def run_configuration(config: Config) -> None:
    """Train every seed that has no result yet, or the next rung of it, and print what came of it."""
    runs = specs(config)
    if runs[0].winner_only:
        raise invalid(
            "privacy.allocator",
            "a sweep for selection, as a trial by itself is not what its budget pays for",
            "a single run",
            "use dp-bench run -m, without a point of the grid",
        )
    root = Path(config.runs)
    folders = [RunFolder(root, spec) for spec in runs]
    found = []
    for folder in folders:  # every seed is checked before the first one starts
        folder.check_spec()
        folder.check_grid()
        found.append(folder.result())
    halved = HalvedGrid(root, runs[0]) if runs[0].ranked_seeds else None
    rung = halved.next_rung(runs[0].point) if halved else None
    if config.device == "cuda":
        from dp_bench.training.run import check_device

        check_device(config.device)
    check_tracker(config.tracker)
    system.make_folder(root)
    if config.quiet:  # a sweep says what there is to say
        _end_with_the_sweep()
        if not halved or rung is not None:
            _finished_or_trained(config, folders, found, rung)
        return
    print("\n".join(_introduction(runs[0])))
    if halved and rung is None and None in found:
        print("waits for the other candidates of its grid: dp-bench run -m trains them, and decides which continue")
        return
    results = _finished_or_trained(config, folders, found, rung)
    notes = models_note(config.checkpoint.keep, folders)
    print("\n".join([*_summary(runs, root, results), *notes]))
    if held := [folder for folder, result in zip(folders, results, strict=True) if result is None]:
        got = f"{len(held)} of {len(folders)} that another process is running"
        raise invalid(str(held[0].path), "runs that are free", got, "wait for it, or stop it", HeldElsewhere)


def _finished_or_trained(
    config: Config, folders: list[RunFolder], found: list[RunResult | None], rung: int | None
) -> list[RunResult | None]:
    if None not in found:
        for folder in folders:
            folder.tidy()
        return found
    # Only what has to be trained needs torch and the data.
    from dp_bench.training.run import prepare_device, run

    first, root = folders[0].spec, Path(config.runs)
    prepare_device(first)
    dataset = TASKS[first.dataset.name].load(first.task_options)
    shown = tracked(config.tracker, root, silently if config.quiet else follow)
    results = []
    for folder in folders:
        with shown(folder.spec) as progress:
            results.append(run(folder.spec, root, dataset, progress, config.checkpoint.keep, rung))
    return results


def _introduction(spec: RunSpec) -> list[str]:
    lines = [f"{spec.dataset.name}, {spec.strategy}, {spec.point}: {spec.steps} steps, data: {spec.source.where}"]
    lines += [f"note: {caveat}" for caveat in spec.source.caveats]
    if spec.allocation is None:
        return [*lines, "not private"]
    a = spec.allocation
    lines.append(
        f"({exact(a.budget.epsilon)}, {exact(a.budget.delta)}) for {a.candidates} candidates, seeds not charged, by "
        f"{a.budget.accountant}: noise multiplier {a.noise_multiplier:.4f}, epsilon {rounded_up(a.epsilon_run)} for "
        f"this run; {guarantee(a, spec.source.train_rows).verdict}"
    )
    return lines + [f"warning: {text}" for text in warnings_for(a.budget, a.sampling)]


def _summary(runs: list[RunSpec], root: Path, results: list[RunResult | None]) -> list[str]:
    metric = TASKS[runs[0].dataset.name].metric
    lines = []
    for spec, result in zip(runs, results, strict=True):
        if result is None:
            lines.append(f"seed {spec.seed}: running in another process")
            continue
        best, final = _number(result.best.value), _number(result.final.value)
        text = f"seed {spec.seed}: best {metric} {best} at step {result.best.step}, final {final}"
        lines.append(text + (f"; {result.status}: {result.reason.removeprefix('stopped ')}" if result.reason else ""))
    values = [r.best.number for r in results if r is not None and not r.diverged]
    if len(values) > 1:
        lines.append(
            f"best {metric}: {statistics.mean(values):.5f} ± {statistics.stdev(values):.5f} over {len(values)} seeds"
        )
    return [*lines, f"kept in {root / runs[0].folder.parent}"]


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.5f}"

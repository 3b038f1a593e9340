"""One Hydra job: one configuration with all its seeds, from checked specs to a summary."""

import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from dp_bench.budget import no_guarantee, warnings_for
from dp_bench.config import Config, parse
from dp_bench.errors import failure_of
from dp_bench.progress import Show, follow, silently
from dp_bench.spec import RunSpec, specs
from dp_bench.store import RunFolder, models_note
from dp_bench.tasks import TASKS


def run_job(composed: DictConfig) -> str | None:
    """Why the job could not be done, or None."""
    return failure_of(lambda: _run_configuration(parse(composed)))


def _end_with_the_sweep() -> None:
    """A process of joblib's pool would train on for hours after its sweep was killed; it may end at any moment."""
    sweep = os.getppid()

    def watch() -> None:
        while os.getppid() == sweep:
            time.sleep(1)
        os._exit(1)

    if multiprocessing.current_process().name.startswith("LokyProcess"):
        threading.Thread(target=watch, daemon=True).start()


def _run_configuration(config: Config) -> None:
    runs = specs(config)
    root = Path(config.runs)
    folders = [RunFolder(root, spec) for spec in runs]
    found = [_checked_result(folder) for folder in folders]  # every seed is checked before the first one starts
    if config.device == "cuda":
        from dp_bench.run import check_device

        check_device(config.device)
    root.mkdir(parents=True, exist_ok=True)
    if config.quiet:  # a sweep says what there is to say
        _end_with_the_sweep()
        _finished_or_trained(folders, found, root, config.checkpoint.keep, silently)
        return
    print("\n".join(_introduction(runs[0])))
    results = _finished_or_trained(folders, found, root, config.checkpoint.keep, follow)
    notes = models_note(config.checkpoint.keep, folders)
    print("\n".join([*_summary(runs, root, results), *notes]))


def _checked_result(folder: RunFolder) -> dict[str, Any] | None:
    folder.check_spec()
    folder.check_grid()
    return folder.result()


def _finished_or_trained(
    folders: list[RunFolder],
    found: list[dict[str, Any] | None],
    root: Path,
    keep: str,
    shown: Callable[[RunSpec], AbstractContextManager[Show]],
) -> list[dict[str, Any] | None]:
    if all(result is not None for result in found):
        for folder in folders:
            folder.tidy()
        return found
    # Only what has to be trained needs torch and the data.
    from dp_bench.data import load
    from dp_bench.run import prepare_device, run

    first = folders[0].spec
    prepare_device(first)
    options = first.dataset
    dataset = load(options.name, words=options.words, stand_in=options.stand_in, limit=options.limit)
    results = []
    for folder in folders:
        with shown(folder.spec) as progress:
            results.append(run(folder.spec, root, dataset, progress, keep))
    return results


def _introduction(spec: RunSpec) -> list[str]:
    lines = [f"{spec.dataset.name}, {spec.strategy}, {spec.point}: {spec.steps} steps, data: {spec.source.where}"]
    lines += [f"note: {caveat}" for caveat in spec.source.caveats]
    if spec.allocation is None:
        return [*lines, "not private"]
    a = spec.allocation
    caveat = no_guarantee(a, spec.source.train_rows)
    kind = "private" if caveat is None else f"NOT private: {caveat}"
    lines.append(
        f"({a.budget.epsilon:g}, {a.budget.delta:g}) for {a.candidates} candidates, seeds not charged, by "
        f"{a.budget.accountant}: noise multiplier {a.noise_multiplier:.4f}, epsilon {a.epsilon_run:.3f} for this run; "
        + kind
    )
    return lines + [f"warning: {text}" for text in warnings_for(a.budget, a.sampling)]


def _summary(runs: list[RunSpec], root: Path, results: list[dict[str, Any] | None]) -> list[str]:
    metric = TASKS[runs[0].dataset.name].metric
    lines = []
    for spec, result in zip(runs, results, strict=True):
        if result is None:
            lines.append(f"seed {spec.seed}: another process is at it")
            continue
        best, final = (_number(result[which]["value"]) for which in ("best", "final"))
        text = f"seed {spec.seed}: best {metric} {best} at step {result['best']['step']}, final {final}"
        lines.append(text + (f"; diverged: {result['reason']}" if result["status"] == "diverged" else ""))
    values = [r["best"]["value"] for r in results if r is not None and r["status"] == "finished"]
    if len(values) > 1:
        lines.append(
            f"best {metric}: {statistics.mean(values):.5f} ± {statistics.stdev(values):.5f} over {len(values)} seeds"
        )
    return [*lines, f"kept in {root / runs[0].folder.parent}"]


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.5f}"

"""A whole FixedThreshold run of the bag of words, as `dp-bench run` does it, against its steps and evaluations alone.

    python benchmarks/whole_run.py [--repetitions 3] [--rows 120000] [--epochs 10]

What is left over is what a run adds: checkpoints, metrics, epsilons, provenance. Synthetic data of AG News' size.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from job import REAL_ROWS, Job, spec_for
from options import positive

from dp_bench.data.tensors import Dataset
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.calibration import allocate
from dp_bench.sweep.step_times import synthetic
from dp_bench.training.background import background_writer
from dp_bench.training.checkpoint import save
from dp_bench.training.progress import silently
from dp_bench.training.run import prepare_device, run
from dp_bench.training.trainer import Training

REPETITIONS = 3
_TEST_ROWS = 7_600
_CANDIDATES = 25
_FEWEST_ROWS = 1000
_STEPS, _EVALUATIONS, _CHECKPOINTS = 150, 10, 10  # timed alone, before a run and again after it


def measure(repetitions: int, rows: int, epochs: float, root: Path) -> dict[str, Any]:
    spec, data = _run_of(rows, epochs)
    prepare_device(spec)
    evaluations = len(range(0, spec.steps, spec.train.evaluate_every)) + 1
    runs = []
    root.mkdir(parents=True, exist_ok=True)
    # Where runs are kept, not in /tmp: that may lie in memory, where writing a checkpoint costs nothing.
    with tempfile.TemporaryDirectory(dir=root, prefix=".whole_run.") as folder:
        before = _alone(spec, data, Path(folder, "alone"))
        for seed in range(repetitions):
            with silently(spec) as show:
                seconds = _timed(partial(run, replace(spec, seed=seed), Path(folder), data, show))
            after = _alone(spec, data, Path(folder, "alone"))
            step, evaluation, checkpoint = ((a + b) / 2 for a, b in zip(before, after, strict=True))
            before = after
            runs.append(
                {
                    "seconds": seconds,
                    "ratio": seconds / (spec.steps * step + evaluations * evaluation),
                    "checkpoint_share": evaluations * checkpoint / seconds,
                    "step_ms": 1e3 * step,
                    "evaluation_ms": 1e3 * evaluation,
                    "checkpoint_ms": 1e3 * checkpoint,
                }
            )
    medians = {name: statistics.median(r[name] for r in runs) for name in runs[0]}
    return {"steps": spec.steps, "evaluations": evaluations, **medians, "runs": runs}


def _run_of(rows: int, epochs: float) -> tuple[RunSpec, Dataset]:
    spec = spec_for(Job("", "bag_of_words", 1, rows=rows), "fixed_threshold")
    data = synthetic(spec, rows)
    tested = min(rows, _TEST_ROWS)
    source = replace(data.source, train_rows=rows, test_rows=tested)
    data = replace(data, test_x=data.train_x[:tested], test_y=data.train_y[:tested], source=source)
    steps = round(epochs * rows / spec.train.batch_size)
    assert spec.privacy is not None
    budget = Budget(spec.privacy.epsilon, spec.privacy.delta, spec.privacy.accountant)
    allocation = allocate(budget, Sampling(spec.train.batch_size, rows), _CANDIDATES, steps)
    return replace(spec, source=source, steps=steps, allocation=allocation), data


def _alone(spec: RunSpec, data: Dataset, root: Path) -> tuple[float, float, float]:
    """Seconds of a step, an evaluation, and a checkpoint with its metrics: means, since a run is a sum of them.

    A checkpoint costs what training waits for it, or what all threads compute for it if that is more.
    """
    training = Training(spec, data, torch.device("cpu"))
    folder = RunFolder(root, spec)
    training.advance()
    training.evaluate(0.0)
    steps = [_timed(training.advance) for _ in range(_STEPS)]
    evaluations = [_timed(lambda: training.evaluate(0.0)) for _ in range(_EVALUATIONS)]
    computed = []
    for _ in range(_CHECKPOINTS):
        before = time.process_time()
        with background_writer() as later:
            save(training, folder, later)
        computed.append(time.process_time() - before)
    waited = []
    with background_writer() as later:  # as in a run, where a slow disk is noticed when the next one is due
        for _ in range(_CHECKPOINTS):
            for _ in range(spec.train.evaluate_every):
                training.advance()
            waited.append(_timed(partial(save, training, folder, later)))
    checkpoint = max(statistics.mean(waited), statistics.mean(computed))
    return statistics.mean(steps), statistics.mean(evaluations), checkpoint


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=positive, default=REPETITIONS)
    parser.add_argument("--rows", type=positive, default=REAL_ROWS["bag_of_words"], help="1000 or more")
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--root", type=Path, default=Path("reports/bench"), help="where the temporary folder is made")
    options = parser.parse_args()
    if options.rows < _FEWEST_ROWS:
        parser.error(f"--rows: found {options.rows}, expected {_FEWEST_ROWS} or more: a batch has 512")
    print(json.dumps(measure(options.repetitions, options.rows, options.epochs, options.root)))


if __name__ == "__main__":
    main()

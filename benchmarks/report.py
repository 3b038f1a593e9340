"""Seconds and memory of `dp-bench report` on the paper's whole sweep: 18,435 synthetic runs.

    python benchmarks/report.py [--store FOLDER] [--out FOLDER] [--json FILE]

The store is generated once (a minute or two, and as much again for the first calibration of its budgets) and used again
if it is there. Its numbers scatter around the published ones; the report says nothing about anything.
"""

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from dp_bench.experiment import grid
from dp_bench.experiment.config import GridConfig
from dp_bench.experiment.resolve import axes_of
from dp_bench.experiment.spec import RunSpec
from dp_bench.paper import published
from dp_bench.report.analysis.shown_strategies import PUBLISHED
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from report_helpers import synthetic_spec, write_run

EXPECTED_RUNS = 18_435
SEEDS = 5
# What an untrained model scores, and published values in place of those that are not printed.
START = {"mnist": 0.1, "fashion_mnist": 0.17, "ag_news": 0.25}
NO_DP = {"mnist": 0.988, "fashion_mnist": 0.0035, "ag_news": 0.895}


def generate(store: Path) -> None:
    count = 0
    for dataset, task in TASKS.items():
        for strategy, kind in STRATEGIES.items():
            if strategy not in PUBLISHED:
                continue
            for k in (5, 7, 9):
                for epsilon in task.epsilons if kind.private else (math.inf,):
                    for point in grid.points(axes_of(strategy, GridConfig(k=k))):
                        for seed in range(SEEDS):
                            spec = synthetic_spec(dataset, strategy, k, float(epsilon), seed, calibrated=True, **point)
                            make_up(store, spec, random.Random(str(spec.folder)))
                            count += 1
        print(f"{dataset}: {count:,} synthetic runs", file=sys.stderr)
    assert count == EXPECTED_RUNS


def make_up(store: Path, spec: RunSpec, chance: random.Random) -> None:
    """A run that comes the nearer to the published value the nearer its point is to the published best."""
    dataset, higher = spec.dataset.name, TASKS[spec.dataset.name].higher_is_better
    distance = distance_from_best(spec)
    target = published_mean(spec) * (1 + chance.gauss(0, 0.004 if higher else 0.06))
    start = START[dataset]
    reached = start + (target - start) * math.exp(-0.25 * distance**2)
    step_size = spec.hyperparameters.get("lr", 0.1) * spec.hyperparameters.get("clip", 0.1)
    diverged = step_size > 30 or published_mean(spec) == start  # the paper's own divergences
    count = math.ceil(spec.steps / spec.train.evaluate_every) + 1
    if diverged:
        values = [start, start * 1.01, math.nan]
        write_run(store, spec, values, diverged="the test metric is not finite")
        return
    progress = [1 - math.exp(-7 * i / count) for i in range(count)]
    values = [start + (reached - start) * p * (1 + chance.gauss(0, 0.004)) for p in progress]
    clip = lr = None
    if spec.strategy in ("online", "fixed_quantile"):
        drift = -1.6 if spec.strategy == "online" else 0.9
        clip = [0.1 * math.exp(drift * p + chance.gauss(0, 0.02)) for p in progress]
    if spec.strategy == "online":
        lr = [spec.hyperparameters["lr"] * math.exp(-1.1 * p + chance.gauss(0, 0.02)) for p in progress]
    write_run(store, spec, values, clip=clip, lr=lr)


def distance_from_best(spec: RunSpec) -> float:
    """In decades of the learning rate and threshold."""
    epsilon = spec.privacy.epsilon if spec.privacy else math.inf
    best = published.best_point(spec.dataset.name, spec.strategy, spec.grid.k, epsilon)
    if best is None:
        return 0.0
    squares = [
        ((spec.hyperparameters[name] - value) / 0.3) ** 2
        if name == "quantile"
        else math.log10(spec.hyperparameters[name] / value) ** 2
        for name, value in best.items()
    ]
    return math.sqrt(sum(squares))


def published_mean(spec: RunSpec) -> float:
    """What the paper prints; where it prints nothing, the mean of what it prints for other k."""
    if spec.privacy is None:
        return NO_DP[spec.dataset.name]
    here = (spec.dataset.name, spec.strategy, spec.privacy.epsilon)
    means = {c.k: c.mean for c in published.cells() if (c.dataset, c.strategy, c.epsilon) == here and c.mean}
    return means.get(spec.grid.k) or (sum(means.values()) / len(means) if means else START[spec.dataset.name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("/tmp/dp_bench_report_store"))
    parser.add_argument("--out", type=Path, default=Path("/tmp/dp_bench_report"))
    parser.add_argument("--json", type=Path, help="write the measurements here too")
    options = parser.parse_args()
    if not options.store.exists():
        half = options.store.with_name(f"{options.store.name}.{os.getpid()}")
        generate(half)
        half.rename(options.store)  # a store that is there is whole
    runs = sum(1 for _ in options.store.rglob("result.json"))
    started = time.monotonic()
    code = "import sys; from dp_bench.report.commands.report import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["--runs", str(options.store), "--out", str(options.out)]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = {
        "runs": runs,
        "seconds": round(time.monotonic() - started, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),  # of all cores, however busy with other work
        # Of the largest process, in MiB; its helpers are smaller and share most of their memory with it.
        "peak_mib": round(used.ru_maxrss / 1024),
        "cores": os.cpu_count(),
    }
    print(json.dumps(measured))
    if options.json:
        options.json.write_text(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main()

"""Synthetic runs, written by the code that writes real ones: only their numbers are invented."""

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from dp_bench.data import Source
from dp_bench.experiment.config import (
    CALIBRATED,
    DatasetConfig,
    GridConfig,
    ModelConfig,
    PrivacyConfig,
    TrainConfig,
    strategy_schema,
)
from dp_bench.experiment.resolve import axes_of
from dp_bench.experiment.spec import Machine, RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.privacy.accountants import Sampling, proven
from dp_bench.privacy.allocation import Allocation, Budget
from dp_bench.privacy.calibration import allocate
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS
from dp_bench.training.run import _result
from dp_bench.training.trade_off import Measurement, Row
from dp_bench.training.trade_off import write as write_trade_off

ROWS = {"mnist": 60_000, "fashion_mnist": 60_000, "ag_news": 120_000}
PROVENANCE = {
    "dp_bench": "0.1.0",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "packages": {"torch": "2.13.0", "numpy": "2.4.6", "dp-accounting": "0.6.0"},
    "python": "3.11.7",
    "host": "synthetic",
    "processor": "x86_64",
    "machine": {"arithmetic": 10, "device": "cpu", "threads": 1, "torch": "2.13.0", "cpu": "AVX2"},
    "source": {"where": "nowhere", "checksums": {}},
    "seconds_of_last_session": 12.5,
    "finished": "2026-01-31T12:00:00Z",
}


def synthetic_spec(
    dataset: str = "mnist",
    strategy: str = "online",
    k: int = 5,
    epsilon: float = 3.0,
    seed: int = 0,
    *,
    variant: str = "default",
    profile: str = "paper",
    accountant: str = "rdp",
    kind: str = "complete",
    seeding: str = "named",
    **point: float,
) -> RunSpec:
    """A run of the paper's protocol."""
    grid, train = GridConfig(k=k), TrainConfig()
    axes = axes_of(strategy, grid)
    defaults = {f.name: f.default for f in strategy_schema(strategy).__dataclass_fields__.values()}
    swept = {name: min(axes[name], key=lambda member, name=name: abs(member - point[name])) for name in axes}
    privacy = PrivacyConfig(epsilon=epsilon, accountant=accountant) if STRATEGIES[strategy].private else None
    budget = privacy and Budget(privacy.epsilon, privacy.delta, privacy.accountant)
    rows = ROWS[dataset]
    steps = round(train.epochs * rows / train.batch_size)
    candidates = math.prod(len(values) for values in axes.values())
    return RunSpec(
        profile=profile,
        variant=variant,
        dataset=DatasetConfig(name=dataset),
        model=ModelConfig(),
        strategy=strategy,
        hyperparameters={**{n: v for n, v in defaults.items() if n not in ("name", *CALIBRATED)}, **swept},
        grid=grid,
        privacy=privacy,
        train=train,
        source=Source(
            kind, "nowhere", () if kind == "complete" else (f"synthetic {kind}",), {"x.gz": "ab" * 32}, rows, 10_000
        ),
        allocation=_allocation(budget, Sampling(train.batch_size, rows), candidates, steps) if budget else None,
        steps=steps,
        seed=seed,
        seeding=seeding,
        machine=Machine("cpu", 1, TASKS[dataset].micro_batch),
    )


@functools.cache  # slow accountants take seconds, and a test's cache on disk begins empty
def _allocation(budget: Budget, sampling: Sampling, candidates: int, steps: int) -> Allocation:
    if proven(budget.accountant):
        return allocate(budget, sampling, candidates, steps)
    # Of the right size only, as no report counts it anew: epsilon ~ q sqrt(2 n ln(1/delta)) / nu.
    noise = sampling.rate * math.sqrt(2 * candidates * steps * math.log(1 / budget.delta)) / budget.epsilon
    spent = budget.epsilon * 0.9999
    return Allocation(budget, sampling, candidates, steps, round(noise, 5), spent, spent / math.sqrt(candidates))


def write_run(
    root: Path,
    spec: RunSpec,
    values: Sequence[float],
    *,
    clip: Sequence[float] | None = None,
    lr: Sequence[float] | None = None,
    diverged: str | None = None,
    provenance: Mapping[str, Any] = PROVENANCE,
    **others: Sequence[float],
) -> Path:
    """A finished run whose evaluations were `values`, evenly spaced; `diverged` is the reason why it stopped, `others`
    further entries of the trajectory."""
    metric = TASKS[spec.dataset.name].metric
    last = len(values) - 1
    rows = [
        {
            "step": round(i * spec.steps / max(last, 1)),
            metric: value,
            "clip": clip[i] if clip else 0.1,
            "lr": lr[i] if lr else spec.hyperparameters.get("lr", 0.1),
            "epsilon": spec.allocation.epsilon_run * i / max(last, 1) if spec.allocation else math.inf,
            **{name: column[i] for name, column in others.items()},
        }
        for i, value in enumerate(values)
    ]
    training = SimpleNamespace(spec=spec, rows=rows, divergence=lambda: diverged)
    folder = RunFolder(root, spec)
    folder.path.mkdir(parents=True)
    with mock.patch("os.fsync"):  # thousands of files, none of which has to outlive a power cut
        folder.write_spec()
        folder.write_metrics(rows)
        folder.write_provenance(provenance)
        folder.finish(_result(spec, training))  # type: ignore[arg-type]
    return folder.path


def synthetic_trade_off(folder: Path) -> None:
    """Two values of C at two steps, written as `dp-bench trade-off` does."""
    rows = [
        Row(t, clip, cosine, 0.01)
        for t, clip, cosine in ((100, 0.1, 0.5), (100, 1, 0.7), (950, 0.1, 0.4), (950, 1, 0.1))
    ]
    write_trade_off(folder, synthetic_spec(lr=0.3162), Measurement(rows, None), draws=20)


# Online on MNIST, k = 5: three seeds per point. Best at rho = 0.3162 (epsilon 3) and 3.162 (epsilon 5).
ONLINE = {
    3.0: {0.003162: (0.50, 0.52, 0.54), 0.3162: (0.9119, 0.9170, 0.9068), 31.62: (0.30, 0.40, 0.20)},
    5.0: {0.3162: (0.90, 0.91, 0.92), 3.162: (0.9166, 0.9216, 0.9116)},
}


def small_store(root: Path) -> Path:
    """A store to know by heart: what the tables must say of it is worked out by hand in the tests."""
    for epsilon, points in ONLINE.items():
        for lr, seeds in points.items():
            for seed, value in enumerate(seeds):
                spec = synthetic_spec("mnist", "online", 5, epsilon, seed, lr=lr)
                # Best at the second evaluation, a point less at the last.
                write_run(root, spec, [0.1, value, value - 0.01], clip=[0.1, 0.2, 0.4], lr=[lr, lr / 2, lr / 4])
    for clip in (0.01, 1.0, 10.0):
        for seed in range(3):
            spec = synthetic_spec("mnist", "fixed_threshold", 5, 3.0, seed, lr=3.162, clip=clip)
            if clip == 10.0:
                write_run(root, spec, [0.1, math.nan], diverged="the test metric is not finite")
            else:
                value = 0.88 + 0.01 * seed - 0.1 * (clip == 1.0)
                write_run(root, spec, [0.1, value, value - 0.01])
    for seed in range(3):
        for quantile in (0.1, 0.3, 0.5, 0.7, 0.9):
            for lr in (0.003162, 0.03162, 0.3162, 3.162, 31.62):  # the whole grid, and all of it diverges
                spec = synthetic_spec("fashion_mnist", "fixed_quantile", 5, 1.0, seed, lr=lr, quantile=quantile)
                write_run(root, spec, [0.17, 0.18], diverged="parameters are not finite")
        write_run(root, synthetic_spec("mnist", "no_dp", 5, math.inf, seed, lr=0.003162), [0.1, 0.98 + 0.001 * seed])
    return root

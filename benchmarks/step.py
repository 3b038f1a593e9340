"""Milliseconds and memory of one training step at batch size 512, against plain PyTorch and every mode of Opacus.

    python benchmarks/step.py [--models cnn] [--threads 1 2] [--repetitions 15] [--json FILE]

Everything of one model and thread count is timed in one process, interleaved, so that a noisy machine is noisy for all:
compare the ratios. The dp_bench steps are whole ones (Poisson sampling, forward, backward, clipping, noise, update);
the others start from a batch that is already drawn. Memory is the growth of the peak resident set during the steps,
each contender in a process of its own.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from dp_bench.config import Config, DatasetConfig, strategy_schema
from dp_bench.data import Source
from dp_bench.data.tensors import Dataset
from dp_bench.models import recipe
from dp_bench.spec import Machine, RunSpec
from dp_bench.tasks import TASKS
from dp_bench.training import Training

MODELS = {task.model: name for name, task in TASKS.items()}
OPACUS_MODES = ("hooks", "functorch", "ew", "ghost")
BATCH, ROWS = 512, 6000
Step = Callable[[], None]


def made_up_data(dataset: str) -> Dataset:
    """Tensors of the right shapes; what a step costs does not depend on what they hold."""
    generator = torch.Generator().manual_seed(0)
    if dataset == "ag_news":
        x = torch.randn(ROWS, 25 * 50, generator=generator)
    else:
        x = torch.rand(ROWS, 1, 28, 28, generator=generator)
    y = x if dataset == "fashion_mnist" else torch.randint(4, (ROWS,), generator=generator)
    return Dataset(dataset, x, y, x[:1], y[:1], Source("stand-in", "benchmark", (), {}, ROWS, 1))


def plain(dataset: str, data: Dataset) -> Step:
    """The idiomatic non-private loop."""
    way = recipe(TASKS[dataset].model)
    model = way.build()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = data.train_x[:BATCH], data.train_y[:BATCH]

    def step() -> None:
        optimiser.zero_grad()
        way.losses(model(x), y).mean().backward()
        optimiser.step()

    return step


class Criterion(torch.nn.Module):
    """Per-example losses as Opacus wants them: it sets `reduction` to "none" for ghost clipping."""

    def __init__(self, losses: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.losses = losses
        self.reduction = "mean"

    def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        losses = self.losses(outputs, targets)
        return losses.mean() if self.reduction == "mean" else losses


def opacus(dataset: str, data: Dataset, mode: str) -> Step:
    from opacus import PrivacyEngine

    way = recipe(TASKS[dataset].model)
    model = way.build()
    x, y = data.train_x[:BATCH], data.train_y[:BATCH]
    criterion = Criterion(way.losses)
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9),
        criterion=criterion,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=BATCH),
        noise_multiplier=1.0,
        max_grad_norm=0.1,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimiser = made[0], made[1]
    loss = made[2] if mode == "ghost" else criterion

    def step() -> None:
        optimiser.zero_grad()
        loss(model(x), y).backward()
        optimiser.step()

    return step


def ours(dataset: str, data: Dataset, strategy: str) -> Step:
    hyperparameters = {"lr": 1e-3} if strategy == "online" else {"lr": 1e-3, "clip": 0.1}
    config = Config(dataset=DatasetConfig(name=dataset), strategy=strategy_schema(strategy)(**hyperparameters))
    spec = RunSpec(
        profile="benchmark",
        variant="default",
        dataset=config.dataset,
        model=config.model,
        strategy=strategy,
        hyperparameters=hyperparameters,
        grid=config.grid,
        privacy=config.privacy,
        train=config.train,
        source=data.source,
        allocation=None,
        steps=1,
        seed=0,
        seeding="named",
        machine=Machine("cpu", torch.get_num_threads(), TASKS[dataset].micro_batch),
    )
    training = Training(spec, data, torch.device("cpu"))
    training.strategy = replace(training.strategy, noise_multiplier=1.0)
    return training.advance


def contenders(model: str) -> dict[str, Callable[[], Step]]:
    dataset = MODELS[model]
    data = made_up_data(dataset)
    made: dict[str, Callable[[], Step]] = {
        "plain PyTorch": lambda: plain(dataset, data),
        "dp_bench FixedThreshold": lambda: ours(dataset, data, "fixed_threshold"),
        "dp_bench Online": lambda: ours(dataset, data, "online"),
    }
    for mode in OPACUS_MODES:
        made[f"Opacus {mode}"] = lambda mode=mode: opacus(dataset, data, mode)
    return made


def time_interleaved(model: str, repetitions: int) -> dict[str, list[float]]:
    """Seconds of each contender's steps; one that cannot run this model is left out and says why."""
    steps: dict[str, Step] = {}
    for name, make in contenders(model).items():
        try:
            steps[name] = make()
            steps[name]()
            steps[name]()
        except Exception as error:
            steps.pop(name, None)
            print(f"  {name} does not run the {model}: {str(error).splitlines()[0][:90]}", file=sys.stderr)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repetitions):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def peak_memory(model: str, name: str, threads: int) -> float | None:
    """MB that three steps add to the peak resident set of a process of their own."""
    command = [sys.executable, __file__, "--models", model, "--threads", str(threads), "--memory-of", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stdout.strip()) if done.returncode == 0 else None


def memory_of(model: str, name: str) -> float:
    step = contenders(model)[name]()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak that importing and building left
    before = _resident("VmHWM")
    for _ in range(3):
        step()
    return (_resident("VmHWM") - before) / 1024


def _resident(field: str) -> int:
    """Kilobytes, as Linux counts them."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if field in line)


def measure(model: str, threads: int, repetitions: int) -> list[dict[str, object]]:
    torch.set_num_threads(threads)
    seconds = time_interleaved(model, repetitions)
    base = seconds["plain PyTorch"]
    rows = []
    for name, ours in seconds.items():
        rows.append(
            {
                "model": model,
                "threads": threads,
                "step": name,
                "ms": statistics.median(ours) * 1e3,
                "fastest ms": min(ours) * 1e3,
                # Of neighbours in time: what disturbs one disturbs the other.
                "ratio": statistics.median(a / b for a, b in zip(ours, base, strict=True)),
                "MB": peak_memory(model, name, threads),
            }
        )
    return rows


def show(rows: list[dict[str, object]]) -> None:
    for row in rows:
        memory = "      -" if row["MB"] is None else f"{row['MB']:7.0f}"
        print(
            f"{row['model']:14} {row['threads']} thread(s)  {row['step']:26} {row['ms']:9.1f} ms "
            f"{row['ratio']:7.2f} x plain {memory} MB"
        )
    print(flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", help="write the rows to this file as well")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        torch.set_num_threads(arguments.threads[0])
        print(memory_of(arguments.models[0], arguments.memory_of))
        return
    everything: list[dict[str, object]] = []
    for model in arguments.models:
        for threads in arguments.threads:
            rows = measure(model, threads, arguments.repetitions)
            show(rows)
            everything += rows
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()

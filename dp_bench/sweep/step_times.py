"""What a step costs on this machine: the fastest of several, kept, and good enough for an ETA."""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from dp_bench.experiment.config import chosen_options
from dp_bench.experiment.spec import RunSpec
from dp_bench.files.cached import cached
from dp_bench.tasks import TASKS

if TYPE_CHECKING:
    from dp_bench.data.tensors import Dataset

_FORMAT = 4  # raise it when a step gets faster or is measured in another way: what was cached is then not read
_SECONDS = 0.5  # a step or an evaluation is repeated until so much was measured, and twice at least
_known: dict[str, dict[str, float]] = {}


def seconds(spec: RunSpec) -> float:
    """About how long a run takes with one thread: its steps and its evaluations."""
    key: dict[str, str | int] = {
        "format": _FORMAT,
        "dataset": spec.dataset.name,
        "code": spec.task_code,
        "options": json.dumps(chosen_options(spec.dataset, spec.model)),
        "batch_size": spec.train.batch_size,
        "micro_batch": spec.machine.micro_batch,
        "machine": f"{platform.node()} {platform.machine()} {os.cpu_count()}",
    }
    name = json.dumps(key)
    if name not in _known:
        _known[name] = cached("cost", key, lambda: _measure(spec))
    evaluations = spec.steps // spec.train.evaluate_every + 2
    return spec.steps * _known[name]["step"] + evaluations * _known[name]["tested"] * spec.source.test_rows


def _measure(spec: RunSpec) -> dict[str, float]:
    """Seconds per step and seconds per tested example, with one thread and synthetic data."""
    from dp_bench.training.run import prepare_device
    from dp_bench.training.trainer import Training

    dataset = synthetic(spec, rows=4 * spec.train.batch_size)
    spec = replace(spec, source=dataset.source, machine=replace(spec.machine, device="cpu", threads=1))
    training = Training(spec, dataset, prepare_device(spec))
    training.advance()
    tested = _fastest(lambda: training.evaluate(0.0)) / len(dataset.test_x)
    return {"step": _fastest(training.advance), "tested": tested}


def synthetic(spec: RunSpec, rows: int) -> "Dataset":
    """Tensors of the right shapes: what a step costs does not depend on what they hold."""
    import torch

    from dp_bench.data import Source
    from dp_bench.data.tensors import Dataset

    generator = torch.Generator().manual_seed(0)
    task = TASKS[spec.dataset.name]
    x = torch.rand(rows, *task.shape(spec.task_options), generator=generator)
    y = x if task.classes is None else torch.randint(task.classes, (rows,), generator=generator)
    source = Source("stand-in", "generated to measure speed", (), {}, rows, min(rows, 500))
    return Dataset(spec.dataset.name, x, y, x[:500], y[:500], source)


def _fastest(work: Callable[[], None]) -> float:
    times: list[float] = []
    while len(times) < 2 or sum(times) < _SECONDS:
        times.append(_timed(work))
    return min(times)


def _timed(work: Callable[[], None]) -> float:
    """Of this process's own time on one core: what others do on the machine is not part of the cost."""
    start = time.process_time()
    work()
    return time.process_time() - start

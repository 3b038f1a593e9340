"""What a worker is asked to be, and what all contenders are made from: data, models, thresholds, specs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
import truth
from torch import Tensor, nn

from dp_bench.data import Source
from dp_bench.experiment.config import Config, DatasetConfig
from dp_bench.experiment.spec import Machine, RunSpec
from dp_bench.mechanism.clipping.layers import FlattenChannelsLast
from dp_bench.sweep.step_times import synthetic
from dp_bench.tasks import TASKS
from dp_bench.tasks.base import Recipe

DATASETS = {task.model: name for name, task in TASKS.items()}
REAL_ROWS = {"cnn": 60_000, "autoencoder": 60_000, "bag_of_words": 120_000}
# So small a step that norms, and with them the share of clipped examples, stay as they are however long one measures.
LR, MOMENTUM, CLIP = 1e-6, 0.9, 0.1

Step = Callable[[], object]


@dataclass(frozen=True)
class Job:
    """What a worker is asked to be."""

    contender: str
    model: str
    threads: int
    batch: int = 512
    words: int = 25  # of the bag of words, hence its number of parameters
    rows: int | None = None  # to draw batches from; None: as many as the real data have
    lr: float = LR
    noise: float = 1.0  # noise multiplier

    def to_json(self) -> dict[str, Any]:
        """Without what is at its default: an older revision (versions.py) does not know every field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {f.name: values[f.name] for f in fields(self) if values[f.name] != f.default}


@dataclass(frozen=True)
class Contender:
    """A step to be timed. Of a private one also its model as it is now, the threshold, and what it is trained on."""

    step: Step
    module: Callable[[], nn.Module] | None = None
    clip: float | None = None
    data: tuple[Tensor, ...] = ()


def private(
    build: Callable[[], nn.Module], parameters: Sequence[Tensor], step: Step, clip: float, x: Tensor, y: Tensor
) -> Contender:
    """`parameters`: those that `step` changes, in the order of the model that is built."""
    return Contender(step, partial(copied, build, parameters), clip, (x, y))


def copied(build: Callable[[], nn.Module], parameters: Sequence[Tensor]) -> nn.Module:
    """A model of its own with these parameters as they are now."""
    made = build()
    with torch.no_grad():
        for ours, theirs in zip(made.parameters(), parameters, strict=True):
            ours.copy_(theirs)
    return made


def threshold(job: Job, module: nn.Module, x: Tensor, y: Tensor) -> float:
    """At which the share of clipped examples is that of real runs."""
    return truth.threshold(job.model, module, recipe_of(job).losses, x, y)


def share(job: Job, contender: Contender) -> float | None:
    """Of examples that are clipped now; None if it does not clip."""
    if contender.module is None or contender.clip is None:
        return None
    return truth.share(contender.module(), recipe_of(job).losses, *contender.data, contender.clip)


def recipe_of(job: Job) -> Recipe:
    return TASKS[DATASETS[job.model]].recipe({"words": job.words})


def batch_of(job: Job) -> tuple[Tensor, Tensor]:
    data = synthetic(spec_for(job, "no_dp"), job.batch)
    return data.train_x, data.train_y


def idiomatic(way: Recipe) -> nn.Sequential:
    """The model as one would write it for PyTorch's default layout, where another flattening would only cost."""
    layers = way.build()
    return nn.Sequential(*(nn.Flatten() if isinstance(layer, FlattenChannelsLast) else layer for layer in layers))


def sgd(model: nn.Module, lr: float = LR) -> torch.optim.SGD:
    """With its momentum in place, as dp_bench's is when a step begins: memory is measured from there."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM)
    for parameter in model.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def spec_for(job: Job, strategy: str) -> RunSpec:
    """A run of the paper's protocol, but for its synthetic data and its small step."""
    hyperparameters = {"lr": job.lr, "clip": CLIP} if strategy == "fixed_threshold" else {"lr": job.lr}
    config = Config(dataset=DatasetConfig(name=DATASETS[job.model], words=job.words))
    rows = REAL_ROWS[job.model] if job.rows is None else job.rows
    return RunSpec(
        profile="benchmark",
        variant="default",
        dataset=config.dataset,
        model=config.model,
        strategy=strategy,
        hyperparameters=hyperparameters,
        grid=config.grid,
        privacy=config.privacy,
        train=replace(config.train, batch_size=job.batch),
        source=Source("stand-in", "synthetic to measure speed", (), {}, rows, min(rows, 500)),
        allocation=None,
        steps=round(config.train.epochs * rows / job.batch),
        seed=0,
        seeding="named",
        machine=Machine("cpu", job.threads, TASKS[config.dataset.name].micro_batch),
    )

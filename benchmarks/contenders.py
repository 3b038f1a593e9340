"""What one training step is, for each contender. A worker (workers.py) builds one of them and lets it step.

dp_bench's steps and those of both baselines are whole: they draw a batch from as many rows as the real data have, and
gather it. Opacus starts from a batch that is drawn already, which is in its favour.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from dp_bench.data import Source
from dp_bench.experiment.config import Config, DatasetConfig
from dp_bench.experiment.spec import Machine, RunSpec
from dp_bench.mechanism import sampling
from dp_bench.mechanism.clipping import FlatModel
from dp_bench.mechanism.clipping.flat import shaped
from dp_bench.mechanism.clipping.layers import FlattenChannelsLast
from dp_bench.mechanism.rng import rng
from dp_bench.sweep.step_times import synthetic
from dp_bench.tasks import TASKS
from dp_bench.tasks.base import Recipe
from dp_bench.training.run import prepare_device
from dp_bench.training.trainer import Training

DATASETS = {task.model: name for name, task in TASKS.items()}
REAL_ROWS = {"cnn": 60_000, "autoencoder": 60_000, "bag_of_words": 120_000}
LR, MOMENTUM, CLIP = 1e-3, 0.9, 0.1
SGEMM_SIZE = 1024
SGEMM_FLOPS = 2 * SGEMM_SIZE**3

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


def build(job: Job) -> Step:
    return CONTENDERS[job.contender](job)


def plain(job: Job) -> Step:
    """The idiomatic non-private loop over data in memory."""
    way, spec = _recipe(job), spec_for(job, "no_dp")
    data = synthetic(spec, spec.source.train_rows)
    model = _idiomatic(way)
    optimiser = _sgd(model)

    def step() -> None:
        members = torch.randint(len(data.train_x), (job.batch,))
        optimiser.zero_grad()
        way.losses(model(data.train_x[members]), data.train_y[members]).mean().backward()
        optimiser.step()

    return step


def useful_flops(model: str) -> int:
    """Of the forward and backward pass of a plain step: what the work is worth, however it is done."""
    from torch.utils.flop_counter import FlopCounterMode

    step = plain(Job("plain PyTorch", model, 1))
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


class SameLayout:
    """Non-private training the way dp_bench trains: one flat tensor, channels last, micro-batches; plain autograd.

    What is left of a ratio to this baseline is the price of privacy itself: per-example norms, clipping and noise.
    """

    def __init__(self, way: Recipe, micro_batch: int) -> None:
        self.way, self.micro_batch = way, micro_batch
        self.model = FlatModel(way.build())
        self.gradient = torch.zeros_like(self.model.params)
        self.velocity = torch.zeros_like(self.model.params)
        for name, parameter in self.model.module.named_parameters():
            parameter.requires_grad_()
            # Autograd adds to a gradient that is there already, so micro-batches accumulate where they are needed.
            parameter.grad = shaped(self.gradient[self.model.slices[name]], parameter.shape)

    def summed_gradient(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self.gradient.zero_()
        for x, y in zip(inputs.split(self.micro_batch), targets.split(self.micro_batch), strict=True):
            x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
            self.way.losses(self.model.module(x), y).sum().backward()
        return self.gradient

    def update(self, inputs: Tensor, targets: Tensor, batch_size: int, noises: int = 0) -> None:
        gradient = self.summed_gradient(inputs, targets)
        for _ in range(noises):
            gradient.add_(torch.randn_like(gradient), alpha=CLIP)
        self.velocity.mul_(MOMENTUM).add_(gradient, alpha=1 / batch_size)
        self.model.params.sub_(self.velocity, alpha=LR)


def same_layout(job: Job, noises: int = 0) -> Step:
    """With `noises` vectors of torch's own normals: a step that draws as many can hardly be faster."""
    spec = spec_for(job, "no_dp")
    prepare_device(spec)
    data = synthetic(spec, spec.source.train_rows)
    training = SameLayout(_recipe(job), spec.machine.micro_batch)
    generator = rng("benchmark", "batches")

    def step() -> None:
        members = sampling.poisson(len(data.train_x), job.batch / len(data.train_x), generator)
        x, y = (t.index_select(0, members) for t in (data.train_x, data.train_y))
        training.update(x, y, job.batch, noises)

    return step


def ours(job: Job, strategy: str) -> Step:
    """dp_bench as a run does it, noise and all."""
    spec = spec_for(job, strategy)
    device = prepare_device(spec)
    training = Training(spec, synthetic(spec, spec.source.train_rows), device)
    training.strategy = replace(training.strategy, noise_multiplier=1.0)
    return training.advance


class Criterion(torch.nn.Module):
    """Per-example losses as Opacus wants them: it sets `reduction` to "none" for ghost clipping."""

    def __init__(self, losses: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.losses = losses
        self.reduction = "mean"

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = self.losses(outputs, targets)
        return losses.mean() if self.reduction == "mean" else losses


def opacus(job: Job, mode: str) -> Step:
    from opacus import PrivacyEngine

    way, (x, y) = _recipe(job), _batch(job)
    model = _idiomatic(way)
    criterion = Criterion(way.losses)
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=_sgd(model),
        criterion=criterion,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=job.batch),
        noise_multiplier=1.0,
        max_grad_norm=CLIP,
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


def sgemm(job: Job) -> Step:
    """A product of two square matrices: as fast as this machine multiplies, at its most convenient."""
    a, b = torch.rand(2, SGEMM_SIZE, SGEMM_SIZE)
    product = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=product)


def spec_for(job: Job, strategy: str) -> RunSpec:
    """A run of the paper's protocol, but for its made-up data."""
    hyperparameters = {"lr": LR, "clip": CLIP} if strategy == "fixed_threshold" else {"lr": LR}
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
        source=Source("stand-in", "generated to measure speed", (), {}, rows, min(rows, 500)),
        allocation=None,
        steps=round(config.train.epochs * rows / job.batch),
        seed=0,
        seeding="named",
        machine=Machine("cpu", job.threads, TASKS[config.dataset.name].micro_batch),
    )


def _recipe(job: Job) -> Recipe:
    return TASKS[DATASETS[job.model]].recipe({"words": job.words})


def _sgd(model: nn.Module) -> torch.optim.SGD:
    """With its momentum in place, as dp_bench's is when a step begins: memory is measured from there."""
    optimiser = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    for parameter in model.parameters():
        optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimiser


def _idiomatic(way: Recipe) -> nn.Sequential:
    """The model as one would write it for PyTorch's default layout, where another flattening would only cost."""
    layers = way.build()
    return nn.Sequential(*(nn.Flatten() if isinstance(layer, FlattenChannelsLast) else layer for layer in layers))


def _batch(job: Job) -> tuple[Tensor, Tensor]:
    data = synthetic(spec_for(job, "no_dp"), job.batch)
    return data.train_x, data.train_y


PLAIN, SAME_LAYOUT, SGEMM = "plain PyTorch", "plain, our layout", "sgemm"
WITH_NOISE = "our layout, 2 randn"  # as many numbers as Online draws
FIXED_THRESHOLD, ONLINE = "dp_bench FixedThreshold", "dp_bench Online"
# Opacus' modes that have every example's gradient: only they could release the second sum of Online.
PER_EXAMPLE = ("Opacus hooks", "Opacus functorch", "Opacus ew")
GHOST = "Opacus ghost"
OPACUS = (*PER_EXAMPLE, GHOST)

# In the order of their turns: what is compared most closely steps at nearly the same time.
CONTENDERS: dict[str, Callable[[Job], Step]] = {
    PLAIN: plain,
    SAME_LAYOUT: same_layout,
    WITH_NOISE: partial(same_layout, noises=2),
    FIXED_THRESHOLD: partial(ours, strategy="fixed_threshold"),
    ONLINE: partial(ours, strategy="online"),
    SGEMM: sgemm,
    GHOST: partial(opacus, mode="ghost"),
    **{name: partial(opacus, mode=name.removeprefix("Opacus ")) for name in PER_EXAMPLE},
}

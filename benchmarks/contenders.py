"""What one training step is, for each contender. A worker (workers.py) builds one of them and lets it step.

dp_bench's steps and those of both baselines are whole: they draw a batch from as many rows as the real data have, and
gather it. The rivals (rivals.py) start from a batch that is drawn already, which is in their favor.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import truth
from job import (
    CLIP,
    LR,
    MOMENTUM,
    Contender,
    Job,
    batch_of,
    copied,
    idiomatic,
    private,
    recipe_of,
    sgd,
    spec_for,
    synthetic,
    threshold,
)
from rivals import compiled, opacus
from torch import Tensor

from dp_bench.mechanism import sampling
from dp_bench.mechanism.clipping import FlatModel
from dp_bench.mechanism.clipping.flat import shaped
from dp_bench.mechanism.rng import rng
from dp_bench.tasks.base import Recipe
from dp_bench.training.run import prepare_device
from dp_bench.training.trainer import Training

SGEMM_SIZE = 1024
SGEMM_FLOPS = 2 * SGEMM_SIZE**3
COPY_NUMBERS = 2**24  # 64 MB, more than a cache holds
COPY_BYTES = 2 * 4 * COPY_NUMBERS  # read and written
_TWIN_ROWS, _TWIN_STEPS = 64, 3


def build(job: Job) -> Contender:
    return CONTENDERS[job.contender](job)


def warm_up(job: Job) -> None:
    """Steps of a small twin, the first of which is checked if it clips.

    Code and work space come to stay with a first step, and are not part of another.
    """
    job = replace(job, batch=_TWIN_ROWS, rows=_TWIN_ROWS, lr=1.0, noise=1e-9)  # the batch is all there is
    twin = build(job)
    before = None if twin.module is None else twin.module()
    twin.step()
    if twin.module is not None and before is not None and twin.clip is not None:
        moved = zip(before.parameters(), twin.module().parameters(), strict=True)
        found = [(b.detach() - a.detach()) * job.batch for b, a in moved]
        expected = truth.clipped_sum(before, recipe_of(job).losses, *batch_of(job), twin.clip)
        truth.check_sum(found, expected)
    for _ in range(_TWIN_STEPS - 1):
        twin.step()


def plain(job: Job) -> Contender:
    """The idiomatic non-private loop over data in memory."""
    way, spec = recipe_of(job), spec_for(job, "no_dp")
    data = synthetic(spec, spec.source.train_rows)
    model = idiomatic(way)
    optimizer = sgd(model)

    def step() -> None:
        members = torch.randint(len(data.train_x), (job.batch,))
        optimizer.zero_grad()
        way.losses(model(data.train_x[members]), data.train_y[members]).mean().backward()
        optimizer.step()

    return Contender(step)


def useful_flops(model: str) -> int:
    """Of the forward and backward pass of a plain step: what the work is worth, however it is done."""
    from torch.utils.flop_counter import FlopCounterMode

    step = plain(Job(PLAIN, model, 1, rows=512)).step
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


class SameLayout:
    """Non-private training the way dp_bench trains: one flat tensor, channels last, micro-batches; plain autograd.

    What is left of a ratio to this baseline is the price of privacy itself: per-example norms, clipping and noise.
    """

    def __init__(self, way: Recipe, micro_batch: int, lr: float = LR) -> None:
        self.way, self.micro_batch, self.lr = way, micro_batch, lr
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
        self.model.params.sub_(self.velocity, alpha=self.lr)


def same_layout(job: Job, noises: int = 0) -> Contender:
    """With `noises` vectors of torch's own normals: a step that draws as many can hardly be faster."""
    spec = spec_for(job, "no_dp")
    prepare_device(spec)
    data = synthetic(spec, spec.source.train_rows)
    training = SameLayout(recipe_of(job), spec.machine.micro_batch)
    generator = rng("benchmark", "batches")

    def step() -> None:
        members = sampling.poisson(len(data.train_x), job.batch / len(data.train_x), generator)
        x, y = (t.index_select(0, members) for t in (data.train_x, data.train_y))
        training.update(x, y, job.batch, noises)

    return Contender(step)


def ours(job: Job, strategy: str) -> Contender:
    """dp_bench as a run does it, noise and all; but Online's threshold stays where real runs have it on average."""
    spec = spec_for(job, strategy)
    device = prepare_device(spec)
    training = Training(spec, synthetic(spec, spec.source.train_rows), device)
    build_module, parameters = recipe_of(job).build, list(training.model.module.parameters())
    data = training.train_x, training.train_y
    clip = threshold(job, copied(build_module, parameters), *data)
    chosen = {"clip": clip} if strategy == "fixed_threshold" else {"clip_init": clip, "clip_lr": 0.0, "lr_lr": 0.0}
    training.strategy = replace(training.strategy, noise_multiplier=job.noise, **chosen)
    training.state = training.strategy.init(training.model.params)
    return private(build_module, parameters, training.advance, clip, *data)


def sgemm(job: Job) -> Contender:
    """A product of two square matrices: as fast as this machine multiplies, at its most convenient."""
    a, b = torch.rand(2, SGEMM_SIZE, SGEMM_SIZE)
    product = torch.empty_like(a)
    return Contender(lambda: torch.mm(a, b, out=product))


def copy(job: Job) -> Contender:
    """A vector that no cache holds, read and written: as fast as this machine moves numbers."""
    source = torch.rand(COPY_NUMBERS)
    target = torch.empty_like(source)
    return Contender(lambda: target.copy_(source))


PLAIN, SAME_LAYOUT, SGEMM, COPY = "plain PyTorch", "plain, our layout", "sgemm", "copy"
WITH_NOISE = "our layout, 2 randn"  # as many numbers as Online draws
FIXED_THRESHOLD, ONLINE = "dp_bench FixedThreshold", "dp_bench Online"
OUR_WAY = (SAME_LAYOUT, WITH_NOISE, FIXED_THRESHOLD, ONLINE)
# Opacus' modes that have every example's gradient: only they could release the second sum of Online.
PER_EXAMPLE = ("Opacus hooks", "Opacus functorch", "Opacus ew")
GHOST = "Opacus ghost"
OPACUS = (*PER_EXAMPLE, GHOST)
COMPILED = "torch.compile(vmap(grad))"
RIVALS = (COMPILED, *OPACUS)  # private training that a user could choose instead

# In the order of their turns: what is compared most closely steps at nearly the same time.
CONTENDERS: dict[str, Callable[[Job], Contender]] = {
    PLAIN: plain,
    SAME_LAYOUT: same_layout,
    WITH_NOISE: partial(same_layout, noises=2),
    FIXED_THRESHOLD: partial(ours, strategy="fixed_threshold"),
    ONLINE: partial(ours, strategy="online"),
    COMPILED: compiled,
    SGEMM: sgemm,
    COPY: copy,
    GHOST: partial(opacus, mode="ghost"),
    **{name: partial(opacus, mode=name.removeprefix("Opacus ")) for name in PER_EXAMPLE},
}

"""One step of other private training: Opacus' modes, and what a user can write with torch.func and torch.compile."""

import functools
import shutil
from collections.abc import Callable

import torch
from job import MOMENTUM, Contender, Job, batch_of, idiomatic, private, recipe_of, sgd, threshold
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, TensorDataset

# Of torch.compile(vmap(grad)). 16 and 8 were found fastest by a review; that of the bag of words is a guess.
MICRO_BATCH = {"cnn": 16, "autoencoder": 8, "bag_of_words": 128}
_COMPILERS = ("g++", "clang++", "c++")


class Criterion(torch.nn.Module):
    """Per-example losses as Opacus wants them: it sets `reduction` to "none" for ghost clipping."""

    def __init__(self, losses: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.losses = losses
        self.reduction = "mean"

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = self.losses(outputs, targets)
        return losses.mean() if self.reduction == "mean" else losses


def opacus(job: Job, mode: str) -> Contender:
    from opacus import PrivacyEngine

    way, (x, y) = recipe_of(job), batch_of(job)
    model = idiomatic(way)
    clip = threshold(job, model, x, y)
    criterion = Criterion(way.losses)
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=sgd(model, job.lr),
        criterion=criterion,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=job.batch),
        noise_multiplier=job.noise,
        max_grad_norm=clip,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimizer = made[0], made[1]
    loss = made[2] if mode == "ghost" else criterion

    def step() -> None:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return private(lambda: idiomatic(way), list(model.parameters()), step, clip, x, y)


def compiled(job: Job) -> Contender:
    """torch.compile(vmap(grad)) in micro-batches, which are what makes it fast: their gradients fit the cache."""
    if not any(map(shutil.which, _COMPILERS)):
        raise RuntimeError(f"torch.compile needs a C++ compiler, and there is none of {', '.join(_COMPILERS)}")
    way, (x, y) = recipe_of(job), batch_of(job)
    model = idiomatic(way)
    clip = torch.tensor(threshold(job, model, x, y))
    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    velocity = {name: torch.zeros_like(p) for name, p in params.items()}
    clipped_sum = _clipped_sum(job.model, job.words)
    micro_batch = MICRO_BATCH[job.model]

    def step() -> None:
        total = {name: torch.zeros_like(p) for name, p in params.items()}
        for xs, ys in zip(x.split(micro_batch), y.split(micro_batch), strict=True):
            for name, part in clipped_sum(params, xs, ys, clip).items():
                total[name] += part
        for name, p in params.items():
            noisy = total[name].add_(torch.randn_like(p) * clip, alpha=job.noise)
            velocity[name].mul_(MOMENTUM).add_(noisy, alpha=1 / job.batch)
            p.sub_(velocity[name], alpha=job.lr)

    clipped_sum(params, x[:micro_batch], y[:micro_batch], clip)  # compiles, which no step is charged for
    return private(lambda: idiomatic(way), list(params.values()), step, float(clip), x, y)


@functools.cache
def _clipped_sum(model_name: str, words: int) -> Callable[..., dict[str, Tensor]]:
    """Of one micro-batch. Cached, so that a worker compiles it once."""
    way = recipe_of(Job("", model_name, 1, words=words))
    model = idiomatic(way)

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return way.losses(functional_call(model, params, (x[None],)), y[None]).sum()

    def clipped_sum(params: dict[str, Tensor], x: Tensor, y: Tensor, clip: Tensor) -> dict[str, Tensor]:
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        factors = (clip / norms).clamp(max=1)
        return {name: torch.einsum("i,i...->...", factors, g) for name, g in gradients.items()}

    return torch.compile(clipped_sum, dynamic=False)

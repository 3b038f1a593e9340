"""Ways to per-example gradients to compare with, each of which `clipped_sums` takes as its last argument.

sums = clipped_sums(model, losses, inputs, targets, queries, gradients=one_by_one)
"""

import copy

import torch
from torch import Tensor

from dp_bench.mechanism.clipping import FlatModel
from dp_bench.mechanism.clipping.gradients import (
    Losses,
    Parts,
    batched_gradients,
    is_chain,
    materialised,
    padded,
    vmapped,
)


def fused(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor) -> Parts:
    """The fast way or none."""
    if not is_chain(model.module):
        raise TypeError(f"{type(model.module).__name__} is not a chain of layers that all have a rule")
    return batched_gradients(model, losses, inputs, targets)


def general(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor) -> Parts:
    """Any model that treats its examples independently, by vmap; slower, never wrong."""
    return vmapped(model, losses, padded(inputs), padded(targets), len(inputs))


def one_by_one(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor) -> Parts:
    """The definition itself: plain autograd on one example at a time."""
    module = copy.deepcopy(model.module).requires_grad_()
    parameters = dict(module.named_parameters())
    rows = [
        torch.autograd.grad(losses(module(x[None]), y[None]).sum(), list(parameters.values()))
        for x, y in zip(inputs, targets, strict=True)
    ]
    return materialised(model, {n: torch.stack(g) for n, g in zip(parameters, zip(*rows, strict=True), strict=True)})


def opacus(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor) -> Parts:
    """Opacus' per-example gradients."""
    from opacus import GradSampleModule

    # Opacus 1.6 reads a convolution's input as if its channels came first, whatever its strides say. A clone, because
    # contiguous() thinks that a tensor of one channel needs no change, and its strides would still say channels last.
    channels_first = copy.deepcopy(model.module).requires_grad_()
    for parameter in channels_first.parameters():
        parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
    module = GradSampleModule(channels_first, loss_reduction="sum")
    losses(module(inputs.clone(memory_format=torch.contiguous_format)), targets).sum().backward()
    return materialised(model, {n: p.grad_sample for n, p in module._module.named_parameters()})

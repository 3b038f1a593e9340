"""Passes in which an example's gradient does not depend, to the bit, on which other examples are in the batch.

A matrix product rounds a row by where it lies and by how many rows there are: one of three rows otherwise than one of
four, and with few outputs a row that does not begin at a multiple of 16 bytes otherwise than one that does. `Tanh` and
its like treat a tensor's last elements by another function than the others. So one example more can change the last
bits of all others' gradients; where norms then pass a threshold, several examples jump together, and one example moves
a sum by many bounds.

Which layers of which widths are affected depends on torch, its libraries, the processor and the threads. So no model is
taken to be safe. Before a model's first batch its passes are tried here, on synthetic examples of the batch's shapes
and with random parameters, padded to multiples of 8 rows: in passes of several sizes, at several places, each example
must have the same gradients and norms, to the bit. If it has not, multiples of 64 are tried, of which every thread gets
whole vectors. If that fails too, or the model refuses synthetic examples, each example is computed alone, in memory of
its own: many times slower, and isolated by construction. Nothing here sees an example, so the choice tells of none.

The trial costs about as much as a step of 512 examples, once per process for each model, shape and number of threads.
It is a measurement and not a proof, except for the last resort.
"""

import copy
import functools
import math
from collections.abc import Hashable, Iterator

import torch
from torch import Tensor, nn

from dp_bench.mechanism.clipping.flat import FlatModel
from dp_bench.mechanism.clipping.gradients import Losses, Passes, batched_gradients, is_chain, isolated_gradients

MULTIPLES = (8, 64)
_LARGEST = 1024  # rows: larger passes are taken to be as these are
_KEPT = 256  # models whose trial is cached

_found: dict[Hashable, int | None] = {}


def passes(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, micro_batch: int) -> Passes:
    """The fastest way to compute up to `micro_batch` examples like these that keeps them isolated."""
    # All that bits depend on but for the module.
    kinds = [(rows.shape[1:], rows.dtype, rows.device) for rows in (inputs, targets)]
    key = (_loss_key(losses), *kinds, model.params.dtype, micro_batch, torch.get_num_threads())
    if key not in model.tried:
        # A chain is what it prints; of another module only the module itself knows what it is.
        known, whole = (_found, (repr(model.module), key)) if is_chain(model.module) else (model.tried, key)
        if len(known) >= _KEPT:
            known.clear()
        if whole not in known:
            known[whole] = _multiple(model, losses, inputs, targets, micro_batch)
        model.tried[key] = known[whole]
    multiple = model.tried[key]
    return isolated_gradients if multiple is None else functools.partial(batched_gradients, multiple=multiple)


def _loss_key(losses: Losses) -> Hashable:
    """What a loss is, also one that is written anew in every step of a loop."""
    if isinstance(losses, nn.Module):
        return repr(losses)
    code, cells = getattr(losses, "__code__", None), getattr(losses, "__closure__", None)
    key = losses if code is None or cells else code
    return key if isinstance(key, Hashable) else id(key)


def _multiple(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, micro_batch: int) -> int | None:
    try:
        copied = _copy_with_random_parameters(model)
        most = min(micro_batch, _LARGEST)
        for multiple in MULTIPLES:
            rows = math.ceil(most / multiple) * multiple
            x, y = _synthetic_like(inputs, rows), _synthetic_like(targets, rows)
            if is_isolated(copied, losses, x, y, multiple):
                return multiple
    except Exception:  # a model or a loss may refuse synthetic examples in any way
        return None
    return None


def is_isolated(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, multiple: int) -> bool:
    """Whether these examples have the same gradients in one pass as in smaller ones, at other places."""
    whole = _rows(model, losses, inputs, targets, multiple)
    for size, shift in _trials(len(inputs), multiple):
        members = (torch.arange(size, device=inputs.device) + shift) % len(inputs)
        some = _rows(model, losses, inputs[members], targets[members], multiple)
        if not all(torch.equal(a, b[members]) for a, b in zip(some, whole, strict=True)):
            return False
    return True


def _trials(most: int, multiple: int) -> Iterator[tuple[int, int]]:
    """Sizes of passes, and by how many rows their examples are shifted."""
    sizes = {most, *range(multiple, 65, multiple), *(2**i for i in range(7, 11))}
    for i, size in enumerate(sorted(size for size in sizes if size <= most)):
        yield size, 2 * i + 1
        if size <= 32:
            yield size, 2 * i + 2


def _rows(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, multiple: int) -> list[Tensor]:
    """Everything that is computed of an example, one row each."""
    parts = [part for _, part in batched_gradients(model, losses, inputs, targets, None, multiple)]
    return [tensor for part in parts for tensor in (part.squared_norms(), *part.tensors)]


def _copy_with_random_parameters(model: FlatModel) -> FlatModel:
    """The same layers with other parameters: zeros, for example, would hide what is rounded."""
    module = copy.deepcopy(model.module)
    # A chain's only randomness is dropout, whose factors are exact.
    copied = FlatModel(module.eval() if is_chain(module) else module, model.params.device)
    for parameter in copied.module.parameters():
        scale = 1 / math.sqrt(max(1, parameter[0].numel())) if parameter.dim() else 1.0
        parameter.copy_(_synthetic_like(parameter, len(parameter)) * scale if parameter.dim() else parameter)
    return copied


def _synthetic_like(like: Tensor, rows: int) -> Tensor:
    """Normal numbers, or zeros and ones, of this shape but for the rows."""
    shape, generator = (rows, *like.shape[1:]), torch.Generator().manual_seed(rows)
    if like.is_floating_point():
        return torch.randn(shape, generator=generator, dtype=like.dtype).to(like.device)
    return torch.randint(2, shape, generator=generator).to(like)

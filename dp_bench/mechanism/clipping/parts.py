"""Per-example gradients of a layer, in the two forms in which norms and weighted sums of them are cheap."""

import copy
import functools
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dp_bench.mechanism.clipping.flat import shaped

_COPY = 24  # multiplications that take as long as copying a number
_SUMMED_PER_CHUNK = 128  # numbers


class _Kept(threading.local):
    def __init__(self) -> None:
        self.memory: dict[torch.dtype, Tensor] = {}


_kept = _Kept()


class Weights(NamedTuple):
    """[K, B]: of B examples for K queries."""

    values: Tensor
    members: Sequence[Tensor] | None  # of each query: the examples of non-zero weight. None: not looked for

    @classmethod
    def of(cls, values: Tensor) -> "Weights":
        # Several queries weight few examples in common; a single one weights nearly all. A GPU would have to wait.
        if len(values) == 1 or values.device.type != "cpu":
            return cls(values, None)
        return cls(values, [weights.nonzero().squeeze(1) for weights in values])


class Part(ABC):
    """The gradients of neighbouring parameters for the B examples of a micro-batch."""

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors  # all that is computed of an example, one row each

    def drop(self, rows: Tensor) -> None:
        """Make the gradients of these examples (a mask [B]) zero: 0 * inf would poison the sum."""
        self.tensors = tuple(t.masked_fill(rows[:, None], 0) for t in self.tensors)

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """|g_i|^2, [B], float64."""

    @abstractmethod
    def add_weighted(self, weights: Weights, totals: Tensor, chunk: int, first: bool) -> None:
        """totals[k] += sum_i weights[k, i] g_i for totals [K, P], in products over `chunk` examples at a time.

        The first time it does not matter what is in the totals. Products are in the weights' precision.
        """


class Materialised(Part):
    """Gradients as matrices [B, P_1], [B, P_2], ... of parameters side by side."""

    def squared_norms(self) -> Tensor:
        return torch.stack([_squared_norms(g) for g in self.tensors]).sum(0)

    def add_weighted(self, weights: Weights, totals: Tensor, chunk: int, first: bool) -> None:
        widths = [g.shape[1] for g in self.tensors]
        for gradients, total in zip(self.tensors, totals.split(widths, dim=1), strict=True):
            _add_products(weights.values.T, gradients, total, chunk, first)


class OuterProduct(Part):
    """Gradients d_i a_i^T of a linear layer's weight, never materialised, and d_i of its bias.

    Their squared norm is |d_i|^2 |a_i|^2, and |d_i|^2 more with a bias.
    """

    def __init__(self, d: Tensor, a: Tensor, bias: bool) -> None:
        super().__init__(d, a)
        self.bias = bias

    def squared_norms(self) -> Tensor:
        d, a = self.tensors
        return _squared_norms(d) * _squared_norms(a, plus=float(self.bias))

    def add_weighted(self, weights: Weights, totals: Tensor, chunk: int, first: bool) -> None:
        d, a = self.tensors
        shape = d.shape[1], a.shape[1]
        size = math.prod(shape)
        for k, weight in enumerate(weights.values):
            total = shaped(totals[k, :size], shape)
            outer, inner = d, a
            if weights.members is not None and len(weights.members[k]) == 0:
                if first:
                    total.zero_()
                continue
            if weights.members is not None and _worth_selecting(weights.members[k], *outer.shape):
                weight, outer, inner = (t.index_select(0, weights.members[k]) for t in (weight, outer, inner))
            _add_products(weight[:, None] * outer, inner, total, chunk, first)
        if self.bias:
            _add_products(weights.values.T, d, totals[:, size:], chunk, first)


def joined(parts: Sequence[Part]) -> Part:
    """The gradients of one layer for several micro-batches, as one part."""
    whole = copy.copy(parts[0])
    whole.tensors = tuple(torch.cat(some) for some in zip(*(part.tensors for part in parts), strict=True))
    return whole


def _add_products(left: Tensor, right: Tensor, total: Tensor, chunk: int, first: bool) -> None:
    """total += left^T right, as sums over `chunk` rows at a time: see `dp_bench.privacy.rounding`."""
    right = right.to(left.dtype)
    some = None
    for a, b in zip(left.T.split(chunk, dim=1), right.split(chunk), strict=True):
        if first and total.dtype == left.dtype:
            total.addmm_(a, b, beta=0)
        else:
            some = _scratch(total, left.dtype) if some is None else some
            torch.mm(a, b, out=some)
            _ = total.copy_(some) if first else total.add_(some)
        first = False


def _scratch(total: Tensor, dtype: torch.dtype) -> Tensor:
    """Memory for one product, laid out as the total is, and this thread's until the next call.

    Kept from step to step: asking the system for it again takes 2 % of a step of the bag of words.
    """
    if total.device.type != "cpu":
        return torch.empty_like(total, dtype=dtype)
    rows, columns = total.shape
    kept = _kept.memory.get(dtype)
    if kept is None or len(kept) < rows * columns:
        kept = _kept.memory[dtype] = torch.empty(rows * columns, dtype=dtype)
    flat = kept[: rows * columns]
    return flat.view(columns, rows).mT if total.stride(0) < total.stride(1) else flat.view(rows, columns)


def _worth_selecting(members: Tensor, examples: int, outputs: int) -> bool:
    """Whether copying these examples costs less than multiplying the others by zero."""
    return len(members) * _COPY < (examples - len(members)) * outputs


def _squared_norms(rows: Tensor, plus: float = 0.0) -> Tensor:
    # `vector_norm` needs no memory for the squares, but adds them up in sequence, where small ones are lost next to a
    # large one: few at a time, as they lie in memory, and their sums in double, so that no root of this is too small by
    # more than 1e-6, nor a product of two by more than 2e-6.
    rows = rows.contiguous()
    width = rows.shape[1]
    if width <= _SUMMED_PER_CHUNK:
        squares = _squared(torch.linalg.vector_norm(rows, dim=1))
    else:
        chunk = _chunk(width)
        whole = width // chunk * chunk
        chunks = rows[:, :whole].unflatten(1, (-1, chunk))
        squares = _squared(torch.linalg.vector_norm(chunks, dim=2)).sum(1)
        if whole < width:
            squares += _squared(torch.linalg.vector_norm(rows[:, whole:], dim=1))
    # Squares of tiny numbers vanish, and against a large other factor the clip would be escaped: what can have vanished
    # is added.
    return squares.add_(width * torch.finfo(rows.dtype).tiny + plus)


def _squared(norms: Tensor) -> Tensor:
    # In single precision still: there too large numbers overflow, and their example is dropped.
    return norms.mul_(norms).double()


@functools.cache
def _chunk(width: int) -> int:
    """Numbers to sum per chunk: a divisor of the width if one is large enough, so that nothing is left over."""
    divisors = (n for n in range(_SUMMED_PER_CHUNK, _SUMMED_PER_CHUNK // 4, -1) if width % n == 0)
    return next(divisors, _SUMMED_PER_CHUNK)

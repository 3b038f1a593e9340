"""Per-example gradients of a layer, in the two forms in which norms and weighted sums of them are cheap."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dp_bench.engine.flat import shaped

_COPY = 24  # multiplications that take as long as copying a number
_SUMMED_AT_ONCE = 128  # numbers


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


class Part(Protocol):
    """The gradients of neighbouring parameters for the B examples of a micro-batch."""

    def squared_norms(self) -> Tensor:
        """|g_i|^2, [B], float64."""
        ...

    def drop(self, rows: Tensor) -> None:
        """Make the gradients of these examples (a mask [B]) zero: 0 * inf would poison the sum."""
        ...

    def add_weighted(self, weights: Weights, sums: Tensor, beta: float) -> None:
        """sums[k] = beta sums[k] + sum_i weights[k, i] g_i for sums [K, P].

        At beta = 0 it does not matter what is in the sums.
        """
        ...


class Materialised:
    """Gradients as matrices [B, P_1], [B, P_2], ... of parameters side by side."""

    def __init__(self, *gradients: Tensor) -> None:
        self.gradients = gradients

    def squared_norms(self) -> Tensor:
        return torch.stack([_squared_norms(g) for g in self.gradients]).sum(0)

    def drop(self, rows: Tensor) -> None:
        self.gradients = tuple(g.masked_fill(rows[:, None], 0) for g in self.gradients)

    def add_weighted(self, weights: Weights, sums: Tensor, beta: float) -> None:
        widths = [g.shape[1] for g in self.gradients]
        for gradients, total in zip(self.gradients, sums.split(widths, dim=1), strict=True):
            total.addmm_(weights.values, gradients, beta=beta)


class OuterProduct:
    """Gradients d_i a_i^T of a linear layer's weight, never materialised, and d_i of its bias.

    Their squared norm is |d_i|^2 |a_i|^2, and |d_i|^2 more with a bias.
    """

    def __init__(self, outer: Tensor, inner: Tensor, bias: bool) -> None:
        self.outer = outer
        self.inner = inner
        self.bias = bias

    def squared_norms(self) -> Tensor:
        return _squared_norms(self.outer) * _squared_norms(self.inner, plus=float(self.bias))

    def drop(self, rows: Tensor) -> None:
        self.outer, self.inner = (t.masked_fill(rows[:, None], 0) for t in (self.outer, self.inner))

    def add_weighted(self, weights: Weights, sums: Tensor, beta: float) -> None:
        shape = self.outer.shape[1], self.inner.shape[1]
        size = math.prod(shape)
        for k, weight in enumerate(weights.values):
            total = shaped(sums[k, :size], shape)
            outer, inner = self.outer, self.inner
            if weights.members is not None and len(weights.members[k]) == 0:
                if beta == 0:
                    total.zero_()
                continue
            if weights.members is not None and _worth_selecting(weights.members[k], *outer.shape):
                weight, outer, inner = (t.index_select(0, weights.members[k]) for t in (weight, outer, inner))
            total.addmm_((weight[:, None] * outer).T, inner, beta=beta)
        if self.bias:
            sums[:, size:].addmm_(weights.values, self.outer, beta=beta)


def _worth_selecting(members: Tensor, examples: int, outputs: int) -> bool:
    """Whether copying these examples costs less than multiplying the others by zero."""
    return len(members) * _COPY < (examples - len(members)) * outputs


def _squared_norms(rows: Tensor, plus: float = 0.0) -> Tensor:
    # `vector_norm` needs no memory for the squares, but adds them up in sequence, where small ones are lost beside a
    # large one: few at a time, as they lie in memory, and their sums in double, so that no root of this is too small by
    # more than 1e-6, nor a product of two by more than 2e-6.
    rows = rows.contiguous()
    width = rows.shape[1]
    if width <= _SUMMED_AT_ONCE:
        squares = _squared(torch.linalg.vector_norm(rows, dim=1))
    else:
        piece = _piece(width)
        whole = width // piece * piece
        pieces = rows[:, :whole].unflatten(1, (-1, piece))
        squares = _squared(torch.linalg.vector_norm(pieces, dim=2)).sum(1)
        if whole < width:
            squares += _squared(torch.linalg.vector_norm(rows[:, whole:], dim=1))
    # Squares of tiny numbers vanish, and against a large other factor the clip would be escaped: what can have vanished
    # is added.
    return squares.add_(width * torch.finfo(rows.dtype).tiny + plus)


def _squared(norms: Tensor) -> Tensor:
    # In single precision still: there too large numbers overflow, and their example is dropped.
    return norms.mul_(norms).double()


@functools.cache
def _piece(width: int) -> int:
    """Numbers to sum at once: a divisor of the width if one is large enough, so that nothing is left over."""
    divisors = (n for n in range(_SUMMED_AT_ONCE, _SUMMED_AT_ONCE // 4, -1) if width % n == 0)
    return next(divisors, _SUMMED_AT_ONCE)

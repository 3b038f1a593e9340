"""Per-example gradients of one parameter, in the two forms in which norms and weighted sums of them are cheap."""

from typing import Protocol

import torch
from torch import Tensor

# Outputs from which on multiplying a row by zero costs more than leaving the row out by a copy of the others.
_WORTH_SELECTING = 64
_PIECE = 2**17  # numbers whose squares stay in a core's cache


class Part(Protocol):
    """The gradients of one parameter for the B examples of a micro-batch."""

    def squared_norms(self) -> Tensor:
        """|g_i|^2, [B], float64."""
        ...

    def drop(self, rows: Tensor) -> None:
        """Make the gradients of these examples (a mask [B]) zero: 0 * inf would poison the sum."""
        ...

    def add_weighted(self, weights: Tensor, sums: Tensor) -> None:
        """sums[k] += sum_i weights[k, i] g_i for weights [K, B] and sums [K, P]."""
        ...


class Materialised:
    """Gradients as a matrix [B, P]."""

    def __init__(self, gradients: Tensor) -> None:
        self.gradients = gradients

    def squared_norms(self) -> Tensor:
        return _squared_norms(self.gradients)

    def drop(self, rows: Tensor) -> None:
        self.gradients = self.gradients.masked_fill(rows[:, None], 0)

    def add_weighted(self, weights: Tensor, sums: Tensor) -> None:
        sums.addmm_(weights, self.gradients)


class OuterProduct:
    """Gradients d_i a_i^T of a linear layer's weight, never materialised: |d_i a_i^T| = |d_i| |a_i|."""

    def __init__(self, outer: Tensor, inner: Tensor) -> None:
        self.outer = outer
        self.inner = inner

    def squared_norms(self) -> Tensor:
        return _squared_norms(self.outer) * _squared_norms(self.inner)

    def drop(self, rows: Tensor) -> None:
        self.outer, self.inner = (t.masked_fill(rows[:, None], 0) for t in (self.outer, self.inner))

    def add_weighted(self, weights: Tensor, sums: Tensor) -> None:
        for weight, total in zip(weights, sums, strict=True):
            outer, inner = self.outer, self.inner
            if outer.device.type == "cpu" and outer.shape[1] >= _WORTH_SELECTING:
                rows = weight.nonzero().squeeze(1)
                if len(rows) < len(weight):
                    weight, outer, inner = (t.index_select(0, rows) for t in (weight, outer, inner))
            total.view(outer.shape[1], -1).addmm_((weight[:, None] * outer).T, inner)


def _squared_norms(rows: Tensor) -> Tensor:
    # Squares of tiny numbers vanish, and against a large other factor the clip would be escaped: what can have vanished
    # is added, so that a norm is never too small. Too large numbers overflow, and their example is dropped. `sum` adds
    # pairwise; `vector_norm` adds in sequence and was seen 1.5e-5 too small on 160,000 numbers.
    # In pieces, so that the squares stay in the cache.
    squares = torch.cat([piece.square().sum(1) for piece in rows.split(max(1, _PIECE // rows.shape[1]))])
    return squares.double() + rows.shape[1] * torch.finfo(rows.dtype).tiny

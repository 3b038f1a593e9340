"""Synthetic twins of data sets: the same shapes, something to learn, the same bits for ever.

They show that the machinery works, nothing about the methods; every result made with one says so.
"""

import numpy as np
from numpy.typing import NDArray

from dp_bench.data import Arrays, Rows

_SEED = 404
_NOISE = 0.2


class Draws:
    """Uniform draws from the raw bits of PCG64, which NumPy promises never to change (of its Generator it does not)."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self, *shape: int) -> NDArray[np.float64]:
        raw = self._bits.random_raw(shape)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, count: int, *shape: int) -> NDArray[np.int64]:
        return (self.uniform(*shape) * count).astype(np.int64)


def clusters(shape: tuple[int, ...], classes: int | None, sizes: tuple[int, int], rows: Rows) -> Arrays:
    """Inputs in [0, 1]: each is the centre of its class with noise."""
    draws, total = Draws(_SEED), sum(sizes)
    centres = draws.uniform(classes or 10, *shape)
    labels = draws.integers(classes or 10, total)
    inputs = ((1 - _NOISE) * centres[labels] + _NOISE * draws.uniform(total, *shape)).astype(np.float32)
    train, test = slice(0, sizes[0]), slice(sizes[0], total)
    train_y, test_y = (None, None) if classes is None else (labels[train][rows], labels[test])
    return Arrays(inputs[train][rows], train_y, inputs[test], test_y)

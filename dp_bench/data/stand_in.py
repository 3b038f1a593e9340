"""Generated stand-ins with the shapes of the real data sets and something to learn: for machines without the data.

They show that the machinery works, nothing about the methods; every result made with one says so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_bench.data.facts import NUMBERS_PER_WORD
from dp_bench.data.news import News
from dp_bench.tasks import MAX_WORDS

TRAIN_ROWS = 6_000
TEST_ROWS = 1_000

_ROWS = TRAIN_ROWS + TEST_ROWS
_PATCH = 4
_IMAGE_SIDE = 28
_IMAGE_CLASSES = 10
_NEWS_CLASSES = 4
_WORDS_OF_A_CLASS = 50
_COMMON_WORDS = 200
_SHARE_OF_CLASS_WORDS = 0.2
_SEEDS = {"mnist": 101, "fashion_mnist": 202, "ag_news": 303}


@dataclass(frozen=True)
class Images:
    """Images as bytes, (rows, 28, 28), and their classes."""

    train: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


class _Draws:
    """Uniform draws from the raw bits of PCG64, which NumPy promises never to change (of its Generator it does not)."""

    def __init__(self, name: str) -> None:
        self._bits = np.random.PCG64(_SEEDS[name])

    def uniform(self, *shape: int) -> NDArray[np.float64]:
        raw = self._bits.random_raw(shape)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, count: int, *shape: int) -> NDArray[np.int64]:
        return (self.uniform(*shape) * count).astype(np.int64)


def images(name: str) -> Images:
    """Each class is a pattern of bright and dark patches; an image is its class' pattern, dimmed, with noise."""
    draws = _Draws(name)
    patches = _IMAGE_SIDE // _PATCH
    patterns = draws.integers(2, _IMAGE_CLASSES, patches, patches).repeat(_PATCH, axis=1).repeat(_PATCH, axis=2)
    labels = draws.integers(_IMAGE_CLASSES, _ROWS)
    brightness = 0.4 + 0.4 * draws.uniform(_ROWS, 1, 1)
    noise = 0.2 * draws.uniform(_ROWS, _IMAGE_SIDE, _IMAGE_SIDE)
    pixels = (255 * (brightness * patterns[labels] + noise)).astype(np.uint8)
    classes = labels.astype(np.uint8)
    return Images(pixels[:TRAIN_ROWS], classes[:TRAIN_ROWS], pixels[TRAIN_ROWS:], classes[TRAIN_ROWS:])


def news() -> News:
    """Texts of made-up words, four in five common to all classes and one in five from their class' own."""
    draws = _Draws("ag_news")
    vocabulary = _COMMON_WORDS + _NEWS_CLASSES * _WORDS_OF_A_CLASS
    vectors = np.zeros((1 + vocabulary, NUMBERS_PER_WORD), dtype=np.float32)
    vectors[1:] = 2 * draws.uniform(vocabulary, NUMBERS_PER_WORD) - 1
    # As in real word vectors, words of one subject lie near each other.
    for label in range(_NEWS_CLASSES):
        first = 1 + _COMMON_WORDS + label * _WORDS_OF_A_CLASS
        vectors[first : first + _WORDS_OF_A_CLASS] += 2 * draws.uniform(NUMBERS_PER_WORD) - 1

    labels = draws.integers(_NEWS_CLASSES, _ROWS)
    common = 1 + draws.integers(_COMMON_WORDS, _ROWS, MAX_WORDS)
    of_class = 1 + _COMMON_WORDS + labels[:, None] * _WORDS_OF_A_CLASS
    of_class = of_class + draws.integers(_WORDS_OF_A_CLASS, _ROWS, MAX_WORDS)
    ids = np.where(draws.uniform(_ROWS, MAX_WORDS) < _SHARE_OF_CLASS_WORDS, of_class, common).astype(np.int32)
    return News(ids[:TRAIN_ROWS], labels[:TRAIN_ROWS], ids[TRAIN_ROWS:], labels[TRAIN_ROWS:], vectors)

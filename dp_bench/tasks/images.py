"""What the two image data sets share: IDX files of 28 x 28 bytes, and synthetic images of few patterns."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_bench.data import Arrays, File, Found, Rows, Version
from dp_bench.data.formats import parse_idx
from dp_bench.tasks.base import Options, Task
from dp_bench.tasks.synthetic import Draws

_SIDE, _PATCH, _CLASSES = 28, 4, 10
_NAMES = {
    "train": ("train-images-idx3-ubyte", 60_000),
    "train_labels": ("train-labels-idx1-ubyte", 60_000),
    "test": ("t10k-images-idx3-ubyte", 10_000),
    "test_labels": ("t10k-labels-idx1-ubyte", 10_000),
}


def idx_files(**checksums: str) -> dict[str, File]:
    """The four files of a data set of the MNIST family, by the SHA-256 of each role."""
    return {
        role: File((name,), (Version("complete", "sha256", checksums[role], rows),))
        for role, (name, rows) in _NAMES.items()
    }


class Images(Task):
    """Pixels are in [0, 1], as (rows, 1, 28, 28)."""

    synthetic_seed: ClassVar[int]

    def shape(self, options: Options) -> tuple[int, ...]:
        return 1, _SIDE, _SIDE

    def arrays(self, files: Mapping[str, Found], rows: Rows, options: Options) -> Arrays:
        return self._arrays({role: parse_idx(found.content(), found.path.name) for role, found in files.items()}, rows)

    def synthetic(self, rows: Rows, options: Options) -> Arrays:
        """Each class is a pattern of bright and dark patches; an image is its class' pattern, dimmed, with noise."""
        draws, (train, test) = Draws(self.synthetic_seed), self.synthetic_rows
        patches = _SIDE // _PATCH
        patterns = draws.integers(2, _CLASSES, patches, patches).repeat(_PATCH, axis=1).repeat(_PATCH, axis=2)
        labels = draws.integers(_CLASSES, train + test)
        brightness = 0.4 + 0.4 * draws.uniform(train + test, 1, 1)
        noise = 0.2 * draws.uniform(train + test, _SIDE, _SIDE)
        pixels = (255 * (brightness * patterns[labels] + noise)).astype(np.uint8)
        classes = labels.astype(np.uint8)
        parts = {"train": pixels[:train], "train_labels": classes[:train]}
        return self._arrays({**parts, "test": pixels[train:], "test_labels": classes[train:]}, rows)

    def _arrays(self, parts: Mapping[str, NDArray[np.uint8]], rows: Rows) -> Arrays:
        train_x, test_x = (
            np.divide(images, np.float32(255), dtype=np.float32).reshape(len(images), *self.shape({}))
            for images in (parts["train"][rows], parts["test"])
        )
        if self.classes is None:
            return Arrays(train_x, None, test_x, None)
        labels = parts["train_labels"][rows].astype(np.int64), parts["test_labels"].astype(np.int64)
        return Arrays(train_x, labels[0], test_x, labels[1])

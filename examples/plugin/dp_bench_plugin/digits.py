"""scikit-learn's digits: 1,797 images of 8 x 8 pixels, which come with the library, and a small network."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dp_bench import Classification
from dp_bench.data import Arrays, Collection, File, Found, Rows, Version
from dp_bench.errors import invalid
from dp_bench.tasks.base import Options

if TYPE_CHECKING:
    from torch import nn

_SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"  # of the unpacked file
_IMAGES, _TEST = 1_797, 360  # the last ones, written by other people than the first


class Digits(Classification):
    name = "digits"
    title = "Digits"
    collections = (
        Collection(
            "digits",
            ("digits",),
            {"images": File(("digits.csv",), (Version("complete", "sha256", _SHA256, _IMAGES),))},
            package="sklearn.datasets.data",
        ),
    )
    classes = 10
    model = "perceptron"
    model_title = "Perceptron"
    model_options: ClassVar[Options] = {"hidden": 32}  # model.hidden=16 on the command line, charged if it is swept
    epsilons = (3, 9)
    synthetic_rows = (_IMAGES - _TEST, _TEST)

    def check(self, options: Options) -> None:
        if options["hidden"] < 1:
            raise invalid("model.hidden", "a positive number", options["hidden"], "leave it out for the default")

    def shape(self, options: Options) -> tuple[int, ...]:
        return (64,)

    def rows(self, versions: Mapping[str, Version]) -> tuple[int, int]:
        return _IMAGES - _TEST, _TEST

    def arrays(self, files: Mapping[str, Found], rows: Rows, options: Options) -> Arrays:
        table = np.loadtxt(files["images"].content().decode().splitlines(), delimiter=",", dtype=np.float32)
        x, y = table[:, :64] / np.float32(16), table[:, 64].astype(np.int64)
        return Arrays(x[:-_TEST][rows], y[:-_TEST][rows], x[-_TEST:], y[-_TEST:])

    def build(self, options: Options) -> "nn.Sequential":
        from torch import nn

        hidden = options["hidden"]
        return nn.Sequential(nn.Linear(64, hidden), nn.LeakyReLU(), nn.Linear(hidden, self.classes))

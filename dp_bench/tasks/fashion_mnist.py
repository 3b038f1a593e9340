"""Fashion-MNIST: images of clothes, reproduced by a convolutional autoencoder."""

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from dp_bench.data import Collection, origins
from dp_bench.errors import invalid
from dp_bench.tasks.base import Options, Reconstruction
from dp_bench.tasks.images import Images, idx_files

if TYPE_CHECKING:
    from torch import nn

_DEBIAN_PACKAGE = "dataset-fashion-mnist"


class FashionMnist(Images, Reconstruction):
    name = "fashion_mnist"
    title = "Fashion MNIST"
    collections = (
        Collection(
            "fashion_mnist",
            ("fashion_mnist", "FashionMNIST/raw"),
            idx_files(
                train="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                train_labels="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                test="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                test_labels="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
            {
                "torchvision": partial(origins.torchvision, "FashionMNIST"),
                f"apt {_DEBIAN_PACKAGE}": partial(origins.debian, _DEBIAN_PACKAGE, "usr/share/datasets/fashion-mnist"),
            },
        ),
    )
    synthetic_seed = 202
    model = "autoencoder"
    model_title = "AutoEncoder"
    model_options: ClassVar[Options] = {"autoencoder_padding": 0}
    published_size = 48_705
    metric_range = (0, 1)  # of pixels and outputs in [0, 1]
    epsilons = (1, 2, 3, 4)
    step_cost = 100

    def check(self, options: Options) -> None:
        if options["autoencoder_padding"] not in (0, 1):
            raise invalid("model.autoencoder_padding", "0 or 1", options["autoencoder_padding"], "choose one of them")

    def build(self, options: Options) -> "nn.Sequential":
        """48,705 parameters, whichever the padding."""
        from torch import nn

        widths, padding = [1, 8, 16, 32, 64], options["autoencoder_padding"]
        layers: list[nn.Module] = []
        for i, o in pairwise(widths):
            layers += [nn.Conv2d(i, o, 3, padding=padding), nn.LeakyReLU()]
        for i, o in pairwise(reversed(widths)):
            layers += [nn.ConvTranspose2d(i, o, 3, padding=padding), nn.LeakyReLU()]
        return nn.Sequential(*layers[:-1], nn.Sigmoid())

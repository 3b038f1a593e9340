"""The three models of the paper's appendix, found again from their printed parameter counts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dp_bench.engine.layers import FlattenChannelsLast

_PIECE = 100  # examples evaluated at once


def cnn(*, output_activation: bool = False) -> nn.Sequential:
    """MNIST, 551,322 parameters: that count needs a 23 x 23 map before the first linear layer, hence padding 3."""
    layers: list[nn.Module] = [
        nn.Conv2d(1, 16, 8, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4),
        nn.ReLU(),
        FlattenChannelsLast(),
        nn.Linear(32 * 23 * 23, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    ]
    return nn.Sequential(*layers, *([nn.ReLU()] if output_activation else []))


def autoencoder(*, padding: int = 0) -> nn.Sequential:
    """Fashion-MNIST, 48,705 parameters, whichever the padding."""
    widths = [1, 8, 16, 32, 64]
    layers: list[nn.Module] = []
    for i, o in pairwise(widths):
        layers += [nn.Conv2d(i, o, 3, padding=padding), nn.LeakyReLU()]
    for i, o in pairwise(reversed(widths)):
        layers += [nn.ConvTranspose2d(i, o, 3, padding=padding), nn.LeakyReLU()]
    return nn.Sequential(*layers[:-1], nn.Sigmoid())


def bag_of_words(*, words: int = 25, output_activation: bool = False) -> nn.Sequential:
    """AG News: 177,156 parameters with the text's 25 words, 113,156 (the count in Table 1) with 15."""
    layers: list[nn.Module] = [
        nn.Linear(words * 50, 128),
        nn.LeakyReLU(),
        nn.Linear(128, 128),
        nn.LeakyReLU(),
        nn.Linear(128, 4),
    ]
    return nn.Sequential(*layers, *([nn.LeakyReLU()] if output_activation else []))


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    if outputs.shape != targets.shape:  # torch would broadcast, and compare each output with every target
        raise ValueError(f"targets: found shape {tuple(targets.shape)}, expected the outputs' {tuple(outputs.shape)}")
    return (outputs - targets).square().flatten(1).mean(1)


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.argmax(1) == targets


@dataclass(frozen=True)
class Recipe:
    """How a model is made, trained and judged: loss and score are per example, the metric is the mean score."""

    build: Callable[[], nn.Sequential]
    losses: Callable[[Tensor, Tensor], Tensor]
    scores: Callable[[Tensor, Tensor], Tensor]


def recipe(name: str, *, words: int = 25, output_activation: bool = False, autoencoder_padding: int = 0) -> Recipe:
    if name == "cnn":
        return Recipe(partial(cnn, output_activation=output_activation), cross_entropy, correct)
    if name == "autoencoder":
        return Recipe(partial(autoencoder, padding=autoencoder_padding), mean_squared_error, mean_squared_error)
    if name == "bag_of_words":
        build = partial(bag_of_words, words=words, output_activation=output_activation)
        return Recipe(build, cross_entropy, correct)
    raise KeyError(name)


@torch.inference_mode()
def evaluate(module: nn.Module, scores: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, targets: Tensor) -> float:
    """The mean score over a whole set, in pieces that fit the cache."""
    total = torch.zeros((), dtype=torch.float64, device=inputs.device)
    for x, y in zip(inputs.split(_PIECE), targets.split(_PIECE), strict=True):
        x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
        total += scores(module(x), y).double().sum()
    return float(total / len(inputs))

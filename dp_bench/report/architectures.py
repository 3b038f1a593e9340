"""The models' layers and parameter counts, without torch: a test holds them against the modules that are trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Layer:
    kind: str
    size: str  # kernel or output size, as the paper's appendix prints it
    stride: str
    padding: str
    activation: str
    parameters: int


def layers(model: str, options: Mapping[str, Any]) -> list[Layer]:
    """The layers of a model of `dp_bench.models`, made with the options that a run stores."""
    if model == "cnn":
        return _cnn(options["output_activation"])
    if model == "autoencoder":
        return _autoencoder(options["autoencoder_padding"])
    if model == "bag_of_words":
        return _bag_of_words(options["words"], options["output_activation"])
    return []


def size(model: str, options: Mapping[str, Any]) -> int:
    return sum(layer.parameters for layer in layers(model, options))


def _cnn(output_activation: bool) -> list[Layer]:
    return [
        _convolution("2D Conv", 1, 16, 8, padding=3, activation="ReLU"),
        Layer("2D MaxPool", "2×2", "1×1", "-", "-", 0),
        _convolution("2D Conv", 16, 32, 4, padding=0, activation="ReLU"),
        _linear(32 * 23 * 23, 32, "ReLU"),
        _linear(32, 10, "ReLU" if output_activation else "-"),
    ]


def _autoencoder(padding: int) -> list[Layer]:
    widths = [1, 8, 16, 32, 64]
    there = [_convolution("2D Conv", i, o, 3, padding, "LeakyReLU") for i, o in pairwise(widths)]
    back = list(pairwise(reversed(widths)))
    activations = ["LeakyReLU"] * (len(back) - 1) + ["Sigmoid"]
    return there + [
        _convolution("2D Transpose Conv", i, o, 3, padding, activation)
        for (i, o), activation in zip(back, activations, strict=True)
    ]


def _bag_of_words(words: int, output_activation: bool) -> list[Layer]:
    return [
        _linear(words * 50, 128, "LeakyReLU"),
        _linear(128, 128, "LeakyReLU"),
        _linear(128, 4, "LeakyReLU" if output_activation else "-"),
    ]


def _convolution(kind: str, inputs: int, outputs: int, kernel: int, padding: int, activation: str) -> Layer:
    parameters = outputs * (inputs * kernel**2 + 1)
    return Layer(kind, f"{outputs}×{kernel}×{kernel}", "1×1", f"{padding}×{padding}", activation, parameters)


def _linear(inputs: int, outputs: int, activation: str) -> Layer:
    return Layer("Linear", str(outputs), "-", "-", activation, outputs * (inputs + 1))

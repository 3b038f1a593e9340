"""Per-example gradients of single layers, from a layer's input and the gradient of its output."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dp_bench.engine.parts import Materialised, OuterProduct, Part


def rule_for(layer: nn.Module) -> Callable[[Tensor, Tensor], list[Part]] | None:
    """(input, output gradient) -> the gradients of weight and bias, or None for a layer without a rule of its own."""
    if type(layer) is nn.Linear:
        return lambda a, d: _linear(layer, a, d)
    zero_padded = getattr(layer, "padding_mode", None) == "zeros" and not isinstance(layer.padding, str)
    if type(layer) is nn.Conv2d and zero_padded:
        return lambda a, d: _with_bias(layer, _convolution_gradients(layer, a, d), d.flatten(2).sum(2))
    if type(layer) is nn.ConvTranspose2d and zero_padded:
        # The transpose of a convolution: the same sum with input and output gradient in each other's place.
        return lambda a, d: _with_bias(layer, _convolution_gradients(layer, d, a), d.flatten(2).sum(2))
    return None


def _linear(layer: nn.Linear, a: Tensor, d: Tensor) -> list[Part]:
    if a.dim() == 2:
        return _with_bias(layer, OuterProduct(d, a), d)
    # Applied at several positions: an example's gradient is a sum of outer products.
    a, d = a.flatten(1, -2), d.flatten(1, -2)
    return _with_bias(layer, Materialised(torch.bmm(d.transpose(1, 2), a).flatten(1)), d.sum(1))


def _with_bias(layer: nn.Module, weight: Part, bias: Tensor) -> list[Part]:
    return [weight] if layer.bias is None else [weight, Materialised(bias)]


def _convolution_gradients(layer: nn.Conv2d | nn.ConvTranspose2d, images: Tensor, d: Tensor) -> Materialised:
    """sum over positions of d[position] patch[position]^T, for each example, in the weight's channels-last layout."""
    patches = _patches(layer, images, d.shape[2:])
    b, groups = len(images), layer.groups
    per_group = d.reshape(b * groups, d.shape[1] // groups, -1)
    return Materialised(torch.bmm(per_group, patches).view(b, -1))


def _patches(layer: nn.Conv2d | nn.ConvTranspose2d, images: Tensor, positions: torch.Size) -> Tensor:
    """What the kernel sees at each position: [B * groups, positions, kh * kw * channels], channels last.

    One copy of contiguous runs, several times faster than F.unfold, which puts the channels first.
    """
    (sh, sw), (dh, dw), (kh, kw) = layer.stride, layer.dilation, layer.kernel_size
    ph, pw = (int(p) for p in layer.padding)
    # A transposed convolution's output_padding, and a stride that does not fit, leave a margin no kernel reads.
    padded = F.pad(images, (pw, pw, ph, ph)) if ph or pw else images
    padded = padded.contiguous(memory_format=torch.channels_last)
    b, channels, height, width = padded.shape
    per_group = channels // layer.groups
    row, column = width * channels, channels
    windows = padded.as_strided(
        (b, layer.groups, *positions, kh, kw, per_group),
        (height * row, per_group, sh * row, sw * column, dh * row, dw * column, 1),
    )
    return windows.reshape(b * layer.groups, positions.numel(), kh * kw * per_group)

"""Per-example gradients of single layers, from a layer's input and the gradient of its output."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dp_bench.engine.parts import Materialised, OuterProduct, Part

Rule = Callable[[Tensor, Tensor], Part]  # input, output gradient -> the gradients of weight and bias

_PIECE = 2**18  # numbers in the patches that a core makes at once


class FlattenChannelsLast(nn.Module):
    """Images to rows in the order in which they lie in memory: position by position, there all channels.

    To a linear layer any order is as good as `nn.Flatten`'s, which copies them, and their gradients back.
    """

    def forward(self, images: Tensor) -> Tensor:
        return images.permute(0, 2, 3, 1).flatten(1)


def rule_for(layer: nn.Module) -> Rule | None:
    """None for a layer without a rule of its own."""
    if [*layer._parameters] != ["weight", "bias"]:  # somebody added one, or put them in another order
        return None
    if type(layer) is nn.Linear:
        return lambda a, d: _linear(layer, a, d)
    zero_padded = getattr(layer, "padding_mode", None) == "zeros" and not isinstance(layer.padding, str)
    if type(layer) is nn.Conv2d and zero_padded:
        return lambda a, d: _side_by_side(layer, _convolution_gradients(layer, a, d), d.flatten(2).sum(2))
    if type(layer) is nn.ConvTranspose2d and zero_padded:
        # The transpose of a convolution: the same sum with input and output gradient in each other's place.
        return lambda a, d: _side_by_side(layer, _convolution_gradients(layer, d, a), d.flatten(2).sum(2))
    return None


def _linear(layer: nn.Linear, a: Tensor, d: Tensor) -> Part:
    if a.dim() == 2:
        return OuterProduct(d, a, bias=layer.bias is not None)
    # Applied at several positions: an example's gradient is a sum of outer products.
    a, d = a.flatten(1, -2), d.flatten(1, -2)
    return _side_by_side(layer, torch.bmm(d.transpose(1, 2), a).flatten(1), d.sum(1))


def _side_by_side(layer: nn.Module, weight: Tensor, bias: Tensor) -> Materialised:
    return Materialised(weight) if layer.bias is None else Materialised(weight, bias)


def _convolution_gradients(layer: nn.Conv2d | nn.ConvTranspose2d, images: Tensor, d: Tensor) -> Tensor:
    """sum over positions of d[position] patch[position]^T, for each example, in the weight's channels-last layout."""
    windows = _windows(layer, images, d.shape[2:])
    b, groups, _, _, *patch = windows.shape
    positions, size, outputs = d.shape[2:].numel(), math.prod(patch), d.shape[1] // groups
    # A copy is fast along what lies together: all channels of a patch's row, or of a single channel, at stride 1, the
    # positions.
    positions_last = images.shape[1] == 1
    if positions_last:
        windows = windows.permute(0, 1, 4, 5, 6, 2, 3)
    # A few examples at a time, in a buffer that stays in the cores' caches: the patches are kh * kw times the images.
    piece = max(1, torch.get_num_threads() * _PIECE // (groups * positions * size))
    buffer = windows.new_empty(piece, *windows.shape[1:])
    patches = buffer.view(-1, size, positions).mT if positions_last else buffer.view(-1, positions, size)
    gradients = windows.new_empty(b * groups, outputs, size)
    by_group = (t.split(piece * groups) for t in (d.reshape(b * groups, outputs, positions), gradients))
    for some, d_of_some, out in zip(windows.split(piece), *by_group, strict=True):
        buffer[: len(some)].copy_(some)
        torch.bmm(d_of_some, patches[: len(out)], out=out)
    return gradients.view(b, -1)


def _windows(layer: nn.Conv2d | nn.ConvTranspose2d, images: Tensor, positions: torch.Size) -> Tensor:
    """What the kernel sees at each position, as a view: [B, groups, *positions, kh, kw, channels].

    Channels last, so that a copy of it is one of contiguous runs, several times faster than F.unfold.
    """
    (sh, sw), (dh, dw), (kh, kw) = layer.stride, layer.dilation, layer.kernel_size
    ph, pw = (int(p) for p in layer.padding)
    # A transposed convolution's output_padding, and a stride that does not fit, leave a margin no kernel reads.
    padded = F.pad(images, (pw, pw, ph, ph)) if ph or pw else images
    padded = padded.contiguous(memory_format=torch.channels_last)
    b, channels, height, width = padded.shape
    per_group = channels // layer.groups
    row, column = width * channels, channels
    return padded.as_strided(
        (b, layer.groups, *positions, kh, kw, per_group),
        (height * row, per_group, sh * row, sw * column, dh * row, dw * column, 1),
    )

"""Per-example gradients of single layers, from a layer's input and the gradient of its output."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dp_bench.mechanism.clipping.flat import flattened
from dp_bench.mechanism.clipping.parts import Materialised, OuterProduct, Part

Rule = Callable[[Tensor, Tensor], Part]  # input, output gradient -> the gradients of weight and bias

_CHUNK = 2**19  # numbers that a core copies per chunk


class FlattenChannelsLast(nn.Module):
    """Images to rows in the order in which they lie in memory: position by position, there all channels.

    To a linear layer any order is as good as `nn.Flatten`'s, which copies them, and their gradients back.
    """

    def forward(self, images: Tensor) -> Tensor:
        return images.permute(0, 2, 3, 1).flatten(1)


class MaxPool2d(nn.MaxPool2d):
    """torch's, with the same values, which for 2 x 2 windows at every position are two maxima of neighbors.

    Where no gradient is asked for: torch notes where each maximum came from, which takes six times as long.
    """

    def forward(self, images: Tensor) -> Tensor:
        window = (self.kernel_size, self.stride, self.padding, self.dilation)
        if torch.is_grad_enabled() or window != (2, 1, 0, 1) or images.shape[-1] < 2 or images.shape[-2] < 2:
            pooled: Tensor = super().forward(images)
            return pooled
        rows = torch.maximum(images[..., 1:, :], images[..., :-1, :])
        return torch.maximum(rows[..., 1:], rows[..., :-1])


def rule_for(layer: nn.Module) -> Rule | None:
    """None for a layer without a rule of its own."""
    if [*layer._parameters] != ["weight", "bias"]:  # one was added, or they are in another order
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
    return _side_by_side(layer, flattened(torch.bmm(d.mT, a)), d.sum(1))


def _side_by_side(layer: nn.Module, weight: Tensor, bias: Tensor) -> Materialised:
    return Materialised(weight) if layer.bias is None else Materialised(weight, bias)


def _convolution_gradients(layer: nn.Conv2d | nn.ConvTranspose2d, images: Tensor, d: Tensor) -> Tensor:
    """sum over positions of d[position] patch[position]^T, for each example, in the weight's channels-last layout."""
    ph, pw = (int(p) for p in layer.padding)
    # A transposed convolution's output_padding, and a stride that does not fit, leave a margin no kernel reads.
    padded = F.pad(images, (pw, pw, ph, ph)) if ph or pw else images
    padded = padded.contiguous(memory_format=torch.channels_last)
    return _by_patches(layer, padded, d) if images.shape[1] == 1 else _by_rows(layer, padded, d)


def _by_rows(layer: nn.Conv2d | nn.ConvTranspose2d, images: Tensor, d: Tensor) -> Tensor:
    """One row of the kernel after another.

    What they see, all channels of neighbouring pixels side by side, is copied once: the next row of a kernel sees what
    this one sees, a line further down.
    """
    (sh, sw), (dh, dw), (kh, kw) = layer.stride, layer.dilation, layer.kernel_size
    b, channels, height, width = images.shape
    groups, outputs, h, w = layer.groups, d.shape[1] // layer.groups, *d.shape[2:]
    per_group, line = channels // groups, width * channels
    seen = images.as_strided(
        (b, groups, height, w, kw, per_group),
        (height * line, per_group, line, sw * channels, dw * channels, 1),
    )
    chunk, buffer = _chunk_of(seen)
    d = d.reshape(b * groups, outputs, h * w)
    gradients = seen.new_empty(b * groups, outputs, kh, kw * per_group)
    by_row = seen.new_empty(kh, chunk * groups, outputs, kw * per_group)
    by_chunk = (seen.split(chunk), *(t.split(chunk * groups) for t in (d, gradients)))
    for some, d_of_some, out in zip(*by_chunk, strict=True):
        copied = buffer[: len(some)].copy_(some)
        rows = by_row[:, : len(out)]
        for y in range(kh):
            lines = copied[:, :, y * dh : y * dh + (h - 1) * sh + 1 : sh]
            torch.bmm(d_of_some, lines.reshape(len(out), h * w, kw * per_group), out=rows[y])
        out.copy_(rows.permute(1, 2, 0, 3))
    return gradients.view(b, -1)


def _by_patches(layer: nn.Conv2d | nn.ConvTranspose2d, images: Tensor, d: Tensor) -> Tensor:
    """Whole patches of a single channel, whose rows are short: side by side lie the positions instead."""
    (sh, sw), (dh, dw), (kh, kw) = layer.stride, layer.dilation, layer.kernel_size
    (b, _, height, width), (_, outputs, h, w) = images.shape, d.shape
    seen = images.as_strided((b, kh, kw, h, w), (height * width, dh * width, dw, sh * width, sw))
    chunk, buffer = _chunk_of(seen)
    patches = buffer.view(chunk, kh * kw, h * w).mT
    gradients = seen.new_empty(b, outputs, kh * kw)
    by_chunk = (t.split(chunk) for t in (seen, d.reshape(b, outputs, h * w), gradients))
    for some, d_of_some, out in zip(*by_chunk, strict=True):
        buffer[: len(some)].copy_(some)
        torch.bmm(d_of_some, patches[: len(some)], out=out)
    return gradients.view(b, -1)


def _chunk_of(seen: Tensor) -> tuple[int, Tensor]:
    """How many examples to copy per chunk, and where to: copies are several times the images, caches are small."""
    chunk = min(len(seen), max(1, torch.get_num_threads() * _CHUNK // seen[0].numel()))
    return chunk, seen.new_empty(chunk, *seen.shape[1:])

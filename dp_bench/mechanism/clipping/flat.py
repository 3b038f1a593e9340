"""A model whose parameters are views of one flat tensor."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor, nn


class FlatModel:
    """`params` holds every parameter of `module`; writing to it changes the module.

    So noise, dot products, the update and a checkpoint are one call each. Weights lie in memory as is fastest on a CPU:
    see `shaped`.

    >>> import torch
    >>> model = FlatModel(torch.nn.Linear(3, 2))
    >>> model.params.shape
    torch.Size([8])
    >>> model.params.zero_().add_(1).sum()
    tensor(8.)
    >>> model.module(torch.ones(3))
    tensor([4., 4.])
    """

    def __init__(self, module: nn.Module, device: torch.device | str = "cpu") -> None:
        for name, layer in module.named_modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm) or getattr(layer, "track_running_stats", False):
                raise TypeError(
                    f"`{name}` is a {type(layer).__name__}, which mixes the examples of a batch or keeps sums of them, "
                    "unclipped and without noise; use GroupNorm or LayerNorm"
                )
        self.module = module.to(device)
        named = list(module.named_parameters())
        self.params = torch.empty(sum(p.numel() for _, p in named), dtype=named[0][1].dtype, device=device)
        self.slices: dict[str, slice] = {}
        self.tried: dict[Hashable, int | None] = {}  # what `isolated` found of passes through it
        self.layers: dict[str, slice] = {}  # a layer's own parameters, which are neighbours
        start = 0
        for name, parameter in named:
            where = slice(start, start + parameter.numel())
            view = shaped(self.params[where], parameter.shape)
            view.copy_(parameter.detach())
            # Frozen: the engine asks autograd for the layers' output gradients only.
            parameter.requires_grad_(False)
            parameter.data = view
            self.slices[name] = where
            layer = name.rpartition(".")[0]
            self.layers[layer] = slice(self.layers.get(layer, where).start, where.stop)
            start = where.stop


_MANY_OUTPUTS = 16  # with fewer of them a product into the transpose takes several times as long


def shaped(flat: Tensor, shape: Sequence[int]) -> Tensor:
    """The view of `flat` that has this shape.

    Convolution weights are stored channels-last, which is fastest for convolutions and for stride-1 pooling. A matrix
    of many rows is stored as its transpose, which a product of inputs and output gradients fills faster.
    """
    if len(shape) == 4:
        o, i, h, w = shape
        return flat.view(o, h, w, i).permute(0, 3, 1, 2)
    if len(shape) == 2 and shape[0] >= _MANY_OUTPUTS:
        return flat.view(*reversed(shape)).mT
    return flat.view(shape)


def flattened(tensor: Tensor) -> Tensor:
    """The inverse of `shaped`, for a leading batch dimension: [B, *shape] -> [B, numel]."""
    if tensor.dim() == 5:
        tensor = tensor.permute(0, 1, 3, 4, 2)
    if tensor.dim() == 3 and tensor.shape[1] >= _MANY_OUTPUTS:
        tensor = tensor.mT
    return tensor.reshape(tensor.shape[0], -1)

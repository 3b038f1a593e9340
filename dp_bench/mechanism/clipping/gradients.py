"""Per-example gradients of a whole model: the fast way, and the general way; slow ones are in `testing/oracles.py`."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dp_bench.mechanism.clipping.flat import FlatModel, flattened
from dp_bench.mechanism.clipping.layers import FlattenChannelsLast, MaxPool2d, Rule, rule_for
from dp_bench.mechanism.clipping.parts import Materialised, Part, joined

# Layers that treat examples independently, use no parameters and overwrite nothing. Of others that is not known.
_WITHOUT_PARAMETERS = {
    *(nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Tanh, nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish),
    *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d, nn.ZeroPad2d, nn.Upsample),
    *(nn.Dropout, nn.Dropout2d, nn.PixelShuffle, nn.PixelUnshuffle, FlattenChannelsLast, MaxPool2d),
}

_ALIGNMENT = 64  # bytes: where torch's tensors begin

Losses = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> one loss per example [B]
Parts = Sequence[tuple[slice, Part]]  # each parameter once
Gradients = Callable[[FlatModel, Losses, Tensor, Tensor], Parts]
Passes = Callable[[FlatModel, Losses, Tensor, Tensor, int], Parts]  # the last: how many rows are not padding
Chain = list[tuple[str, nn.Module, Rule | None]]  # layers, and the rules of those that have parameters


def batched_gradients(
    model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, rows: int | None = None, multiple: int = 8
) -> Parts:
    """Fused where every layer has a rule, the general way otherwise; all examples in one pass.

    Of the inputs only the first `rows` are examples (None: all), and the others are padding. There will be a multiple
    of `multiple` of them. See `dp_bench.mechanism.clipping.isolated`.
    """
    chain = _chain(model.module)
    rows = len(inputs) if rows is None else rows
    inputs, targets = padded(inputs, multiple), padded(targets, multiple)
    if chain is None:
        return vmapped(model, losses, inputs, targets, rows)
    return _along(chain, model, losses, inputs, targets, rows)


def isolated_gradients(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, rows: int) -> Parts:
    """One example after another, each in memory of its own: what is computed of it cannot depend on the others."""
    passes = [
        batched_gradients(model, losses, inputs[i : i + 1].clone(), targets[i : i + 1].clone(), 1, 1)
        for i in range(rows)
    ]
    return [(some[0][0], joined([part for _, part in some])) for some in zip(*passes, strict=True)]


def _along(chain: Chain, model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, rows: int) -> Parts:
    """One forward and one backward pass; no weight gradient is computed that is not per example.

    The parameters are frozen, so autograd returns the gradients of the layers' outputs and nothing else.
    """
    x = inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs
    recorded = []
    with torch.enable_grad():
        for name, layer, rule in chain:
            a, x = x, layer(x)
            if rule is not None:
                x = x if x.requires_grad else x.requires_grad_()
                recorded.append((name, rule, a.detach(), x))
        total = losses(x, targets).sum()
    output_gradients = torch.autograd.grad(total, [x for *_, x in recorded])
    return [
        (model.layers[name], rule(a[:rows], d[:rows]))
        for (name, rule, a, _), d in zip(recorded, output_gradients, strict=True)
    ]


def padded(rows: Tensor, multiple: int = 8) -> Tensor:
    """Zeros appended up to a multiple of so many rows, from an address at which a tensor of its own would begin."""
    missing = -len(rows) % multiple
    if missing:
        return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])])
    return rows.clone() if rows.data_ptr() % _ALIGNMENT else rows


def vmapped(model: FlatModel, losses: Losses, inputs: Tensor, targets: Tensor, rows: int) -> Parts:
    """Any model that treats its examples independently; slower, never wrong."""

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return losses(functional_call(model.module, parameters, (x[None],)), y[None])[0]

    parameters = {n: p.detach() for n, p in model.module.named_parameters()}
    owned = [(layer, name, p) for layer in model.module.modules() for name, p in layer._parameters.items()]
    per_example = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(parameters, inputs, targets)
    per_example = {name: gradients[:rows] for name, gradients in per_example.items()}
    for layer, name, parameter in owned:  # functional_call does not put back those of a layer that is used twice
        layer._parameters[name] = parameter
    return materialised(model, per_example)


def materialised(model: FlatModel, per_example: dict[str, Tensor]) -> Parts:
    return [(model.slices[name], Materialised(flattened(g))) for name, g in per_example.items()]


def is_chain(module: nn.Module) -> bool:
    """Whether its passes are fused: its layers, as they print, are then all that there is to it."""
    return _chain(module) is not None


def _chain(module: nn.Module, name: str = "") -> Chain | None:
    """The layers of nested `Sequential`s in order, if that is all there is and each owns its parameters alone.

    Anything else, hooks included, could use a parameter where this engine does not look, and its norms would be wrong.
    """
    if module._forward_hooks or module._forward_pre_hooks:
        return None
    if type(module) is nn.Sequential:
        if module._parameters:
            return None
        chain: Chain = []
        for child, layer in module._modules.items():  # named_children() would leave out a layer's second use
            assert layer is not None
            inner = _chain(layer, f"{name}.{child}".lstrip("."))
            if inner is None:
                return None
            chain += inner
        owners = [id(p) for _, layer, _ in chain for p in layer._parameters.values() if p is not None]
        return chain if len(owners) == len(set(owners)) else None
    if module._modules:
        return None
    if (rule := rule_for(module)) is not None:
        return [(name, module, rule)]
    known = type(module) in _WITHOUT_PARAMETERS and not getattr(module, "inplace", False)
    if type(module) is nn.Flatten:
        known = module.start_dim == 1
    return [(name, module, None)] if known and not module._parameters else None

"""A model's layers and parameter counts, read off the module that is trained."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dp_bench.tasks.base import Recipe

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Layer:
    kind: str
    size: str  # kernel or output size, as the paper's appendix prints it
    stride: str
    padding: str
    activation: str
    parameters: int


def layers(recipe: Recipe) -> list[Layer]:
    """The layers of a model in order, each with the activation that follows it; reshaping is left out."""
    import torch  # a report without tables of models needs none

    with torch.device("meta"):  # shapes only, nothing is drawn or stored
        modules = [module for module in recipe.build().modules() if not list(module.children())]
    found: list[Layer] = []
    for module in modules:
        kind = type(module).__name__
        if found and type(module).__module__ == torch.nn.modules.activation.__name__:
            found[-1] = replace(found[-1], activation=kind)
        elif "Flatten" not in kind:
            found.append(_layer(module))
    return found


def _layer(module: "nn.Module") -> Layer:
    kind, parameters = type(module).__name__, sum(p.numel() for p in module.parameters())
    known: dict[str, Any] = vars(module)
    if "kernel_size" in known:
        sizes = [*([known["out_channels"]] if "out_channels" in known else []), *_pair(known["kernel_size"])]
        padding = _times(_pair(known["padding"])) if parameters else "-"
        return Layer(_in_print(kind), _times(sizes), _times(_pair(known["stride"])), padding, "-", parameters)
    return Layer(kind, str(known.get("out_features", "-")), "-", "-", "-", parameters)


def _in_print(kind: str) -> str:
    """Conv2d is a "2D Conv", ConvTranspose2d a "2D Transpose Conv"."""
    name = kind.removesuffix("2d").replace("ConvTranspose", "Transpose Conv")
    return f"2D {name}" if kind.endswith("2d") else name


def _pair(value: Any) -> tuple[Any, ...]:
    """torch takes one number for both, and paddings by name."""
    return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else (value, value)


def _times(sizes: Iterable[Any]) -> str:
    return "×".join(str(size) for size in sizes)

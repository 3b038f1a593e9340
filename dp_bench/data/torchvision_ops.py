"""Import torchvision under a CPU-only torch.

PyPI's torchvision is a CUDA build. Its compiled operators do not load under a CPU-only torch, which torchvision takes
in its stride, but importing it then fails all the same with "operator torchvision::nms does not exist", because it
registers shape rules for two operators that nobody has declared. Declaring them, without any implementation, is enough
for everything that does not call them, and data sets do not.
"""

import importlib
import importlib.util
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import torch

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def import_torchvision() -> ModuleType:
    """The torchvision module, with its own operators where they load and bare declarations where they do not."""
    _load_compiled_operators()
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", _SCHEMA)
    return importlib.import_module("torchvision")


def _load_compiled_operators() -> None:
    """Load the operators as torchvision itself will; declaring them before that would make its own loading fail."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return
    for library in Path(found.origin).parent.glob("_C.*"):
        with suppress(OSError):
            torch.ops.load_library(library)

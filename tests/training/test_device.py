"""A step on a device that is not the CPU, as far as that can be seen without one.

Tensors of torch's meta device have shapes and no values: whatever asks for a value, which on a GPU would wait for it,
is an error there.
"""

import os
import subprocess
import sys

import pytest
import torch
from running import data_of, smoke

from dp_bench.mechanism import rng as rng_module
from dp_bench.mechanism.clipping import sums as sums_module
from dp_bench.mechanism.clipping.gradients import batched_gradients
from dp_bench.strategies import STRATEGIES
from dp_bench.training.trainer import Training

META = torch.device("meta")
pytestmark = pytest.mark.usefixtures("without_data")


class ShapesOnly:
    """The generator of a device that has no generator."""

    def __init__(self, key: bytes, device: torch.device) -> None:
        self.device = device

    def uniform(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(size, dtype=dtype, device=self.device)


ON_THE_HOST = {"dc_sgd_e", "dc_sgd_p"}  # they search the next threshold by released counts, which must be read


# Strategies see flat vectors and models see examples: every one of both, not every pair.
PAIRS = [(name, "ag_news") for name in STRATEGIES if name not in ON_THE_HOST]
PAIRS += [(name, dataset) for name in ("online", "no_dp") for dataset in ("mnist", "fashion_mnist")]


@pytest.mark.parametrize(("strategy", "dataset"), PAIRS)
@pytest.mark.slow(reason="trains small models")
def test_no_step_waits_for_the_device(strategy: str, dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rng_module, "_PhiloxRng", ShapesOnly)
    # Numbers that are not there cannot be compared: a model that is tried would count as one that fails.
    monkeypatch.setattr(sums_module, "passes", lambda *model: batched_gradients)
    spec = smoke(strategy, f"dataset={dataset}")[0]
    training = Training(spec, data_of(spec), META)
    for _ in range(2):
        training.advance()
    assert training.model.params.device == META
    with pytest.raises((RuntimeError, NotImplementedError)):
        float(training.model.params.sum())  # so that it would be noticed


@pytest.mark.slow(reason="trains small models")
def test_huge_pages_are_asked_for_before_torch_is_there_and_change_no_bits() -> None:
    code = """
import os, sys
import dp_bench.training
assert "torch" not in sys.modules
print(os.environ["THP_MEM_ALLOC_ENABLE"])
import torch
torch.set_num_threads(1)
a = torch.arange(2**22, dtype=torch.float32).view(2048, 2048).cos()  # 16 MB: torch asks from 2 MB on
print((a @ a.mT).double().sum().item().hex(), a.data_ptr() % 4096)
"""
    apart = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}
    answers = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()
        for env in (apart, apart | {"THP_MEM_ALLOC_ENABLE": "0"})
    ]
    (asked, product, offset), (forbidden, same, _) = answers
    assert (asked, forbidden) == ("1", "0")  # what a user has set stays
    assert product == same
    assert offset == "0"  # whole pages

"""Every strategy's state is in its checkpoint: a run that was stopped half-way ends with the same bits."""

import pytest
import torch
from running import data_of, smoke

from dp_bench.strategies import STRATEGIES
from dp_bench.training.checkpoint import checkpoint_of, resume
from dp_bench.training.trainer import Training

pytestmark = pytest.mark.usefixtures("without_data")
CPU = torch.device("cpu")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.slow(reason="trains small models")
def test_a_stopped_run_ends_with_the_same_bits(strategy: str) -> None:
    spec = smoke(strategy)[0]
    dataset = data_of(spec)
    whole, stopped = Training(spec, dataset, CPU), Training(spec, dataset, CPU)
    for _ in range(5):
        whole.advance()
    for _ in range(2):
        stopped.advance()
    resumed = Training(spec, dataset, CPU)
    resume(resumed, checkpoint_of(stopped))
    for _ in range(3):
        resumed.advance()
    assert resumed.step == 5
    assert torch.equal(resumed.model.params, whole.model.params)
    assert bool(whole.model.params.isfinite().all())
    assert checkpoint_of(resumed) == checkpoint_of(whole)

"""Figures that docs/fidelity.md quotes."""

import math
from pathlib import Path

import pytest

from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.accounting import epsilon
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.calibration import allocate
from dp_bench.strategies import STRATEGIES

MNIST, STEPS, CANDIDATES = Sampling(512, 60_000), 1172, 7


@pytest.mark.parametrize(("claimed", "true"), [(3, 5.32), (9, 25.6)])
def test_algorithm_1_as_printed_spends_more_than_it_claims(claimed: float, true: float) -> None:
    nu = allocate(Budget(claimed, 1e-5, "rdp"), MNIST, CANDIDATES, STEPS).noise_multiplier
    nu_g = STRATEGIES["online"](noise_multiplier=nu, batch_size=512, lr=1.0).multipliers()["gradient"]
    spent = epsilon("rdp", nu_g / math.sqrt(2), MNIST, CANDIDATES * STEPS, 1e-5)
    assert spent == pytest.approx(true, rel=5e-3)
    assert str(true) in (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text()

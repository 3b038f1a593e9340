"""The maximiser finds what an example can do at most, also where it does so at one norm only."""

import math

import pytest
import torch

from dp_bench.privacy.query import Query
from dp_bench.strategies.base import clipped_gradient
from dp_bench.testing.joint import objection, worst


def scalar(weight, multiplier=1.0):
    return Query("scalar", "scalar", weight, 1.0, multiplier)


@pytest.mark.parametrize("place", [1e-11, 0.0123456789, 0.1, 7.1, 1e20])
@pytest.mark.parametrize(
    "weight",
    [
        lambda place: lambda n: (n <= place) * n / place,  # jumps to 0 behind it
        lambda place: lambda n: (n >= place) * place / n,  # and before it
        lambda place: lambda n: torch.minimum(n / place, place / n),  # a kink
        lambda place: lambda n: (-((n / place).log() ** 2)).exp(),  # smooth
    ],
    ids=["jump", "jump before", "kink", "smooth"],
)
def test_a_maximum_is_found_wherever_it_is(place, weight):
    found = worst([scalar(weight(place))])
    assert found.influence == pytest.approx(1, rel=1e-7)
    assert found.norm == pytest.approx(place, rel=1e-4)


def test_many_jumps_are_all_looked_at():
    """Twenty steps; the 13th is where the clipped gradient and the step are largest together."""
    edges = torch.arange(1, 21, dtype=torch.float64) * 0.0777
    steps = [scalar(lambda n, e=e: ((n <= e) & (n > e - 0.0777)).to(n.dtype), 1.0)._replace(name=str(e)) for e in edges]
    assert worst([clipped_gradient(13 * 0.0777, 1.0), *steps]).influence == pytest.approx(math.sqrt(2), rel=1e-9)


def test_the_objection_names_the_norm_and_what_is_wrong():
    assert objection([clipped_gradient(0.1, 2.0)], 2.0) is None
    assert "wastes budget" in objection([clipped_gradient(0.1, 2.01)], 2.0)
    assert "at norm" in objection([clipped_gradient(0.1, 1.99)], 2.0)
    assert "spends more than its budget" in objection([clipped_gradient(0.1, 1.99)], 2.0)

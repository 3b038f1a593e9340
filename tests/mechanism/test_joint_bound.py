"""The engine holds every example to the joint bound, whatever a strategy's queries say."""

import math

import pytest
import torch
from torch import nn

from dp_bench.mechanism.clipping import FlatModel, clipped_sums
from dp_bench.privacy.query import Query, joint_sensitivity
from dp_bench.strategies.base import clipped_gradient

NU = 1.3


def losses(outputs, _):
    return outputs.sum(1)


def sums_of(gradients, queries, **options):
    """A linear model without bias: an example's gradient is its input."""
    model = FlatModel(nn.Sequential(nn.Linear(gradients.shape[1], 1, bias=False).double()))
    return clipped_sums(model, losses, gradients, torch.zeros(len(gradients)), queries, 4, **options)


def moved(with_it, without, queries):
    return math.sqrt(
        sum(float((with_it[q.name] - without[q.name]).norm() / (q.noise_multiplier * q.bound)) ** 2 for q in queries)
    )


def overspending():
    """Both get the whole budget, and both are at their bounds above 0.1: Online, had it forgotten to split."""
    return [
        clipped_gradient(0.1, NU),
        Query("direction", "vector", lambda n: (n > 0.1) / n, 1.0, NU, clipped_only=True),
        Query("count", "scalar", lambda n: (n > 0.5).to(n.dtype), 1.0, NU),
    ]


@pytest.mark.parametrize("size", [1e-3, 0.1, 0.3, 1.0, 1e4, 1e20])
@pytest.mark.parametrize("queries", [overspending(), overspending()[:2], overspending()[::2]])
def test_one_example_moves_a_step_by_no_more_than_its_budget(queries, size):
    generator = torch.Generator().manual_seed(0)
    others = torch.randn(9, 5, generator=generator, dtype=torch.float64)
    canary = size * torch.nn.functional.normalize(torch.randn(1, 5, generator=generator, dtype=torch.float64))
    everyone = torch.cat([others[:4], canary, others[4:]])
    bounded = [sums_of(some, queries, noise_multiplier=NU) for some in (everyone, others)]
    assert moved(*bounded, queries) <= (1 + 1e-8) / NU
    plain = [sums_of(some, queries) for some in (everyone, others)]
    if size > 0.5:  # all that is asked for is at its bound: root 2 or 3 times the budget
        assert moved(*plain, queries) == pytest.approx(math.sqrt(len(queries)) / NU, rel=1e-8)
        assert moved(*bounded, queries) == pytest.approx(1 / NU, rel=1e-8)


def test_a_second_query_that_only_says_it_sees_what_is_clipped_is_bounded_too():
    """The engine sums the first query at its bound there, even if that one asked for nothing."""
    queries = [
        Query("gradient", "vector", lambda n: 0 * n, 1.0, NU),
        Query("direction", "vector", lambda n: 1 / n, 1.0, NU, clipped_only=True),
    ]
    canary = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    worlds = [sums_of(some, queries, noise_multiplier=NU) for some in (canary, canary[:0])]
    assert moved(*worlds, queries) == pytest.approx(1 / NU, rel=1e-8)  # root 2 times as much without
    norms = torch.tensor([1.0], dtype=torch.float64)
    assert joint_sensitivity(queries, norms) == pytest.approx(math.sqrt(2) / NU)


def test_what_is_within_the_budget_keeps_its_bits():
    gradients = torch.randn(50, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    # 1/4 + 3/4 at n = 1/2, 1 from n = 1 on: together 1/nu, though the multipliers compose to less than nu.
    queries = [
        clipped_gradient(1.0, NU),
        Query("shorter", "scalar", lambda n: (n <= 0.5).to(n.dtype), 1.0, NU * math.sqrt(4 / 3)),
    ]
    bounded, plain = sums_of(gradients, queries, noise_multiplier=NU), sums_of(gradients, queries)
    assert all(torch.equal(bounded[name], plain[name]) for name in plain)
    assert sums_of(gradients, overspending(), noise_multiplier=0.0).keys() == {"gradient", "direction", "count"}

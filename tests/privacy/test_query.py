import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_bench.privacy.query import (
    LONGEST_NORM,
    SHORTEST_NORM,
    SMALLEST_BOUND,
    Query,
    bounded_weights,
    influence,
    joint_sensitivity,
    jointly_bounded,
    multipliers_suffice,
)

# Norms are float64, roots of finite float64 numbers: none exceeds 1.3e154.
NORMS = torch.tensor(
    [
        0,
        5e-324,
        1e-310,
        1e-45,
        1e-20,
        9.9e-13,
        1e-12,
        1e-6,
        0.1,
        1,
        3.7,
        1e19,
        1e38,
        1e154,
        math.inf,
        -math.inf,
        math.nan,
    ],
    dtype=torch.float64,
)
BOUNDS = [5e-324, 1e-300, 1e-45, 1e-38, 1e-31, 1e-30, 1e-12, 0.1, 1.0, 1e30]


def constant(kind, weight, bound):
    return Query("q", kind, lambda n: torch.full_like(n, weight), bound, 1.0)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("weight", [0.0, 1.0, -1.0, 1e300, -1e300, math.inf, -math.inf])
def test_no_weight_function_escapes_the_bound(weight, bound, as_tensor):
    limit = torch.tensor(bound, dtype=torch.float64) if as_tensor else bound
    finite = NORMS.isfinite()
    vector = bounded_weights(constant("vector", weight, limit), NORMS)
    assert ((vector * NORMS)[finite].abs() <= bound * (1 + 1e-6)).all()
    scalar = bounded_weights(constant("scalar", weight, limit), NORMS)
    assert (scalar.abs() <= bound).all()
    assert (vector[~finite] == 0).all()
    assert (scalar[~finite] == 0).all()


@pytest.mark.parametrize("kind", ["vector", "scalar"])
def test_a_weight_that_is_not_a_number_counts_for_nothing(kind):
    """One example must not be able to poison the sum, whatever the strategy wrote."""
    assert (bounded_weights(constant(kind, math.nan, 1.0), NORMS) == 0).all()


@given(
    norms=st.lists(st.floats(0, 1e154, allow_subnormal=True), min_size=1, max_size=20),
    weight=st.floats(allow_nan=False, width=64),
    bound=st.floats(5e-324, 1e100),
)
@settings(derandomize=True, deadline=None)
def test_bound_holds_on_random_numbers(norms, weight, bound):
    n = torch.tensor(norms, dtype=torch.float64)
    assert ((bounded_weights(constant("vector", weight, bound), n) * n).abs() <= bound * (1 + 1e-6)).all()
    assert (bounded_weights(constant("scalar", weight, bound), n).abs() <= bound).all()


def test_weights_within_the_bound_are_left_as_they_are():
    norms = torch.tensor([0.0, 0.2, 1.0, 5.0], dtype=torch.float64)
    query = Query("q", "vector", lambda n: -0.3 / (1 + n), 2.0, 1.0)
    assert bounded_weights(query, norms).tolist() == [0.0, *(-0.3 / (1 + norms[1:])).tolist()]
    count = Query("q", "scalar", lambda n: (n <= 0.2).to(n.dtype) - 0.5, 0.5, 1.0)
    assert bounded_weights(count, norms).tolist() == [0.5, 0.5, -0.5, -0.5]


def test_only_what_cannot_be_measured_is_left_out():
    norms = torch.tensor(
        [0.999 * SHORTEST_NORM, SHORTEST_NORM, LONGEST_NORM, 1.001 * LONGEST_NORM], dtype=torch.float64
    )
    assert bounded_weights(constant("vector", 1.0, math.inf), norms).tolist() == [0, 1, 1, 0]
    smallest = bounded_weights(constant("vector", 1.0, SMALLEST_BOUND), norms) * norms
    assert smallest.tolist() == pytest.approx([0, min(SHORTEST_NORM, SMALLEST_BOUND), SMALLEST_BOUND, 0], abs=0)
    assert (bounded_weights(constant("vector", 1.0, 0.999 * SMALLEST_BOUND), norms) == 0).all()
    assert bounded_weights(constant("scalar", 1.0, 2.0), norms).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_without_a_bound_a_vector_query_sums_nothing(bound):
    assert (bounded_weights(constant("vector", 1.0, bound), NORMS) == 0).all()


# Joint sensitivity


def clipped(clip, multiplier):
    return Query("gradient", "vector", lambda n: (clip / n).clamp(max=1), clip, multiplier)


def shorter(than, multiplier):
    return Query("shorter", "scalar", lambda n: (n <= than).to(n.dtype), 1.0, multiplier)


def test_influence_is_the_distance_of_two_whitened_releases():
    """By the definition: the sums with and without an example, each over the standard deviation of its noise."""
    generator = torch.Generator().manual_seed(0)
    queries = [clipped(0.5, 1.2), Query("slope", "vector", lambda n: (-n).exp(), 1.0, 3.0), shorter(0.7, 2.0)]
    for scale in (0.01, 0.5, 0.7, 1.0, 30.0):
        gradient = scale * torch.nn.functional.normalize(torch.randn(7, generator=generator).double(), dim=0)
        norm = gradient.norm()[None]
        sums = [torch.outer(q.weight(norm), gradient).sum(0) if q.kind == "vector" else q.weight(norm) for q in queries]
        whitened = torch.cat([s / (q.noise_multiplier * q.bound) for q, s in zip(queries, sums, strict=True)])
        found = influence(queries, [bounded_weights(q, norm) for q in queries], norm)
        assert float(found) == pytest.approx(float(whitened.norm()), rel=1e-12)


def test_queries_that_no_norm_brings_to_their_bounds_together_cost_less_than_they_compose_to():
    """Clipped from 1 on, counted up to 1/2: 1 at n >= 1, and (1/4 + 3/4)^(1/2) = 1 at n = 1/2."""
    queries = [clipped(1.0, 1.0), shorter(0.5, math.sqrt(4 / 3))]
    norms = torch.tensor([0.1, 0.5, 0.51, 1.0, 9.0], dtype=torch.float64)
    assert joint_sensitivity(queries, norms) == pytest.approx(1, rel=1e-15)
    assert not multipliers_suffice(queries, 1.0)
    assert multipliers_suffice(queries, (1 + 3 / 4) ** -0.5)


def test_weights_that_are_jointly_bounded_keep_their_bits():
    queries = [clipped(1.0, 1.0), shorter(0.5, math.sqrt(4 / 3))]
    norms = torch.logspace(-12, 25, 5000, dtype=torch.float64)
    weights = [bounded_weights(q, norms) for q in queries]
    assert all(map(torch.equal, weights, jointly_bounded(queries, weights, norms, 1.0)))
    split = [clipped(1.0, 1.01), Query("d", "vector", lambda n: (n > 1) / n, 1.0, 1 / math.sqrt(1 - 1.01**-2))]
    own = [bounded_weights(q, norms) for q in split]
    assert jointly_bounded(split, own, norms, 1.0) is own


@given(
    multipliers=st.lists(st.floats(0.01, 100), min_size=1, max_size=4),
    nu=st.floats(0.01, 100),
    scale=st.floats(1e-6, 1e6),
)
@settings(derandomize=True, deadline=None)
def test_no_multipliers_escape_the_joint_bound(multipliers, nu, scale):
    kinds = ["vector", "scalar", "vector", "scalar"]
    queries = [
        Query(f"{i}", kind, lambda n: scale / (1 + n), scale, z)
        for i, (kind, z) in enumerate(zip(kinds, multipliers, strict=False))
    ]
    norms = torch.logspace(-12, 25, 500, dtype=torch.float64)
    weights = [bounded_weights(q, norms) for q in queries]
    bounded = jointly_bounded(queries, weights, norms, nu)
    assert float(influence(queries, bounded, norms).max()) <= (1 + 2e-9) / nu
    factors = torch.stack([b / w for b, w in zip(bounded, weights, strict=True) if (w > 0).all()] or [norms * 0])
    assert (factors <= 1).all()
    assert torch.allclose(factors, factors[:1].expand_as(factors), rtol=1e-12)  # one factor per example


@pytest.mark.parametrize("multiplier", [0.0, math.inf])
def test_a_query_without_noise_is_summed_only_where_nothing_is_claimed(multiplier):
    norms = torch.tensor([0.1, 3.0], dtype=torch.float64)
    queries = [clipped(1.0, 1.0), shorter(1.0, multiplier)]
    weights = [bounded_weights(q, norms) for q in queries]
    found = jointly_bounded(queries, weights, norms, 1.0)
    assert found[1].tolist() == ([0, 0] if multiplier == 0 else [1, 0])
    assert found[0].tolist() == pytest.approx([0 if multiplier == 0 else 1, 1 / 3])
    assert jointly_bounded(queries, weights, norms, 0.0) is weights

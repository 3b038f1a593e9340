import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_bench.queries import LONGEST_NORM, SHORTEST_NORM, SMALLEST_BOUND, Query, bounded_weights

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

"""Sums keep their sensitivity in floating point: one example's influence, measured on inputs made to break it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dp_bench.errors import UserError
from dp_bench.mechanism.clipping import FlatModel, clipped_sums
from dp_bench.mechanism.noise import release
from dp_bench.mechanism.rng import rng
from dp_bench.privacy.query import Query
from dp_bench.privacy.rounding import DOUBLE, ROUNDING, SINGLE, SUM_ERROR, Summation, rounding, sum_error, summation
from dp_bench.strategies.base import clipped_gradient

LAYERS = {
    "one input, one output": lambda: nn.Linear(1, 1, bias=False),
    "bias": lambda: nn.Linear(1, 1),
    "convolution": lambda: nn.Conv2d(1, 1, 1, bias=False),
    "transposed convolution": lambda: nn.ConvTranspose2d(1, 1, 1, bias=False),
    "without a rule": lambda: nn.Conv1d(1, 1, 1, bias=False),
}


def hovering(size):
    """Numbers of at most 1, the first of which decides on which float32 grid the running sum of the others is rounded.

    Ones bring the sum to just below a power of two, 2^p. Pairs h, -h' then leave it there, up to 2 tiny: below 2^p
    the grid is fine enough to see that h and h' are alike; above, h is rounded up and h' down, and the sum drifts by a
    unit of its last place with every pair.
    """
    p = int(math.log2(size)) - 1
    unit, tiny = 2.0 ** (p - 24), 2.0 ** (p - 27)
    ones = torch.ones(2**p - 1)
    pairs = torch.tensor([0.5 + unit + tiny, -(0.5 + unit - tiny)]).repeat((size - len(ones)) // 2)
    return torch.cat([torch.ones(1), ones, pairs])  # one more than `size`: the first one is the example


def online_queries(clip):
    return [clipped_gradient(clip, 1.0), Query("direction", "vector", lambda n: (n > clip) / n, 1.0, 1.0, True)]


def sums_of(layer, numbers, queries, micro_batch):
    module = nn.Sequential(layer)
    shape = {nn.Linear: (-1, 1), nn.Conv1d: (-1, 1, 1)}.get(type(layer), (-1, 1, 1, 1))

    def losses(outputs, _):
        return outputs.flatten(1).sum(1)

    x = numbers.view(shape)
    return clipped_sums(FlatModel(module), losses, x, torch.zeros(len(x)), queries, micro_batch)


BATCHES = [512, 4096, 8192, pytest.param(60_000, marks=pytest.mark.slow(reason="sums over 60,000 examples"))]


@pytest.mark.parametrize("size", BATCHES)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_one_example_moves_a_computed_sum_by_hardly_more_than_its_bound(layer, size):
    """Summed example by example in float32 it moves it by 1.004, 1.2, 2.0 and 40 times its bound."""
    numbers = hovering(size)
    # With a bias, an example's gradient is (x, 1): everything is clipped a little.
    for queries in ([clipped_gradient(2.0, 1.0)], online_queries(2.0), online_queries(0.1)):
        with_it, without = (
            sums_of(LAYERS[layer](), some, queries, micro_batch=128 if size < 60_000 else 1024)
            for some in (numbers, numbers[1:])
        )
        for query in queries:
            moved = (with_it[query.name].double() - without[query.name].double()).norm()
            assert moved <= (1 + ROUNDING) * query.bound, query.name
        # What it moves an exact sum by, where nothing is clipped.
        if queries[0].bound == 2.0 and layer != "bias":
            moved = with_it["gradient"].double() - without["gradient"].double()
            assert moved.item() == pytest.approx(1, abs=2 * SUM_ERROR * 2)


def test_the_numbers_do_refute_a_float32_sum_in_sequence():
    """The instrument works: adding example by example, as a matrix-vector product may."""

    def in_sequence(numbers):
        return numbers.numpy().cumsum(dtype="float32")[-1]

    moved = {size: float(in_sequence(hovering(size)) - in_sequence(hovering(size)[1:])) for size in (4096, 8192)}
    assert moved[4096] > 1.2
    assert moved[8192] > 1.9


@pytest.mark.slow(reason="tries many batches")
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3000),
    st.sampled_from([1, 7, 64, 128, 1024]),
    st.sampled_from([1e-3, 1.0, 1e4]),
    st.integers(0, 2**32 - 1),
)
def test_the_error_of_a_sum_stays_within_its_bound(size, micro_batch, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator).abs() * scale  # of one sign: rounding errors add up
    model = FlatModel(nn.Sequential(nn.Linear(6, 20)))
    losses = lambda outputs, _: outputs.sum(1)  # noqa: E731
    for clip in (0.3 * scale, 30 * scale):
        query = clipped_gradient(clip, 1.0)
        found = clipped_sums(model, losses, x, torch.zeros(size), [query], micro_batch)["gradient"]
        row = torch.cat([x, torch.ones(size, 1)], 1).double()
        norms = (20 * row.square().sum(1)).sqrt()
        weighted = (row * (clip / norms).clamp(max=1)[:, None]).sum(0)
        truth = torch.cat([weighted[:6].repeat_interleave(20), weighted[6:].repeat(20)])
        assert (found.double() - truth).norm() <= SUM_ERROR * clip + 1e-5 * size * clip


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4_000_000), st.integers(1, 5000))
def test_every_batch_has_a_way_within_the_error(examples, micro_batch):
    way = summation(examples, micro_batch)
    assert sum_error(examples, micro_batch, way) <= SUM_ERROR
    assert 1 <= way.chunk <= max(1, min(examples, micro_batch))


def test_the_error_is_higham_s_bound():
    # 512 examples in 4 chunks of 128, single: 128 + 4 + 7 roundings, each coordinate at most 512 bounds large.
    k = 139 * SINGLE
    assert sum_error(512, 128, Summation(128, "single", "single")) == pytest.approx(512 * k / (1 - k))
    k = 130 * SINGLE
    double = 9 * DOUBLE / (1 - 9 * DOUBLE)
    assert sum_error(512, 128, Summation(128, "single", "double")) == pytest.approx(512 * (k / (1 - k) + double))


def test_a_batch_that_no_precision_can_sum_is_refused():
    with pytest.raises(UserError, match=r"train\.batch_size"):
        summation(10**8, 128)


def test_the_charge_is_less_than_a_percent():
    assert ROUNDING < 0.01


@pytest.mark.parametrize("kind", ["vector", "scalar"])
def test_rounding_is_charged_to_the_noise(kind):
    exact = torch.zeros(100_000, dtype=torch.float64)
    query = Query("sum", kind, lambda n: n, 0.5, 2.0)
    released = release({"sum": exact}, [query], 10, rng("charged", kind))["sum"]
    assert released.std().item() == pytest.approx((1 + ROUNDING) * 2.0 * 0.5 / 10, rel=0.01)
    assert released.dtype == torch.float64


def test_double_sums_are_released_in_single_precision_and_rounded_once():
    exact = torch.full((1000,), 1e6 + 1 / 3, dtype=torch.float64)
    query = clipped_gradient(1.0, 1e-3)
    single = release({"gradient": exact}, [query], 1, rng("rounded", "noise"), torch.float32)["gradient"]
    noise = release({"gradient": torch.zeros(1000)}, [query], 1, rng("rounded", "noise"))["gradient"]
    assert single.dtype == torch.float32
    torch.testing.assert_close(single, (noise.double() + exact).float(), rtol=0, atol=0)


@pytest.mark.parametrize("clip", [1e-13, 1e-43, 0.0])
def test_a_bound_below_what_float32_can_noise_leaves_a_sum_of_zero(clip):
    """Below 1e-42 float32 noise vanishes; Online's first sum must not come back from its second."""
    bound = torch.tensor(clip, dtype=torch.float64)
    sums = sums_of(nn.Linear(1, 1, bias=False), torch.ones(512), online_queries(bound), 128)
    assert bool((sums["gradient"] == 0).all())
    assert float(sums["direction"]) == pytest.approx(512)


def test_rounding_is_charged_for_each_vector_query():
    """Whitened, each sum is off by 2 SUM_ERROR / z_k; in units of 1/nu, by nu (sum z_k^-2)^(1/2) times that."""
    first, second, count = (
        Query(name, kind, torch.ones_like, 1.0, z)
        for name, kind, z in (("a", "vector", 1.0), ("b", "vector", 0.75), ("c", "scalar", 0.01))
    )
    assert rounding([first, count], 1.0) == rounding([first, second], None) == ROUNDING
    assert rounding([first, second], 1.0) == pytest.approx(2 * SUM_ERROR * 5 / 3 + 1e-4, rel=1e-12)
    assert rounding([first, second], 0.6 * (1 + 1e-12)) == ROUNDING  # they compose to 0.6, up to the last bits
    assert rounding([first, second], 0.0) == ROUNDING
    sums = {"a": torch.zeros(200_000), "b": torch.zeros(200_000)}
    together = release(sums, [first, second], 1, rng("together", "noise"), noise_multiplier=1.0)
    alone = release(sums, [first, second], 1, rng("together", "noise"))
    ratio = (1 + rounding([first, second], 1.0)) / (1 + ROUNDING)
    for name in sums:
        assert float(together[name].norm() / alone[name].norm()) == pytest.approx(ratio, rel=1e-5)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_products_of_fewer_bits_than_the_proof_counts_on_are_refused(precision):
    model = FlatModel(nn.Sequential(nn.Linear(2, 1)))
    query = Query("gradient", "vector", lambda n: 1 / n, 1.0, 1.0)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        with pytest.raises(UserError, match=f"float32_matmul_precision: expected highest.* got {precision}"):
            clipped_sums(model, lambda outputs, _: outputs[:, 0], torch.ones(1, 2), torch.zeros(1), [query])
    finally:
        torch.set_float32_matmul_precision(before)

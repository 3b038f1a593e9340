import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dp_bench.mechanism import sampling
from dp_bench.mechanism.rng import rng

# Streams are fixed, so nothing here is flaky; thresholds are those that a right sampler misses once in a million.
P = 1e-6
Z = stats.norm.isf(P / 2)


def drawn(size, rate, times, name="sampling"):
    """Which examples entered each of `times` batches: [times, size], 0 or 1."""
    generator = rng(f"{name} {size} {rate}", "batches")
    chosen = torch.zeros(times, size, dtype=torch.float64)
    for row in chosen:
        row[sampling.poisson(size, rate, generator)] = 1
    return chosen


@pytest.fixture(scope="module")
def batches():
    return drawn(60, 0.12, 15_000)


def standardised(chosen, rate):
    return (chosen - rate) / math.sqrt(rate * (1 - rate))


@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_every_position_is_included_at_the_rate(batches):
    times, size = batches.shape
    z = standardised(batches, 0.12).sum(0) / math.sqrt(times)
    assert abs(z[0]) < Z
    assert abs(z[-1]) < Z
    assert P < stats.chi2.sf(float(z.square().sum()), size) < 1 - P


@pytest.mark.parametrize("lag", [1, 2, 3, 16])
def test_examples_enter_independently(batches, lag):
    x = standardised(batches, 0.12)
    products = x[:, lag:] * x[:, :-lag]
    assert abs(float(products.sum())) < Z * math.sqrt(products.numel())
    # Joint inclusion, place by place.
    both = (batches[:, lag:] * batches[:, :-lag]).sum(0)
    variance = len(batches) * 0.12**2 * (1 - 0.12**2)
    assert float((both - len(batches) * 0.12**2).abs().max()) < 6 * math.sqrt(variance)


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_steps_are_independent(batches, lag):
    x = standardised(batches, 0.12)
    products = x[lag:] * x[:-lag]
    assert abs(float(products.sum())) < Z * math.sqrt(products.numel())
    sizes = (batches.sum(1) - 60 * 0.12) / math.sqrt(60 * 0.12 * 0.88)
    assert abs(float((sizes[lag:] * sizes[:-lag]).sum())) < Z * math.sqrt(len(sizes))


def test_batch_size_is_binomial(batches):
    sizes = batches.sum(1).int().numpy()
    expected = stats.binom(60, 0.12).pmf(np.arange(17)) * len(sizes)
    observed = np.bincount(sizes.clip(max=16), minlength=17)
    expected[16] = len(sizes) - expected[:16].sum()
    assert expected.min() > 5
    assert stats.chisquare(observed, expected).pvalue > P


@pytest.mark.parametrize("rate", [0.03, 0.5, 0.93])
@pytest.mark.parametrize("block", [None, 2])
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_every_subset_is_as_likely_as_with_a_coin_per_example(monkeypatch, rate, block):
    if block:  # too few gaps per draw: the loop must continue where it stopped
        monkeypatch.setattr(sampling, "math", SimpleNamespace(ceil=lambda _: block, sqrt=math.sqrt, log1p=math.log1p))
    size, times = 5, 4_000
    subsets = (drawn(size, rate, times, f"subsets {block}") * 2.0 ** torch.arange(size)).sum(1).int()
    members = np.array([bin(s).count("1") for s in range(2**size)])
    expected = times * rate**members * (1 - rate) ** (size - members)
    observed = np.bincount(subsets.numpy(), minlength=2**size)
    rare = expected < 5
    if rare.any():
        observed, expected = ([*v[~rare], v[rare].sum()] for v in (observed, expected))
    assert stats.chisquare(observed, expected).pvalue > P


def test_the_papers_rate():
    size, rate, times = 60_000, 512 / 60_000, 2000
    generator = rng("paper", "batches")
    sizes = torch.tensor([len(sampling.poisson(size, rate, generator)) for _ in range(times)], dtype=torch.float64)
    spread = math.sqrt(size * rate * (1 - rate))
    assert float(sizes.mean()) == pytest.approx(512, abs=Z * spread / math.sqrt(times))
    assert float(sizes.std()) == pytest.approx(spread, rel=Z / math.sqrt(2 * times))


@pytest.mark.parametrize(("size", "rate"), [(2 * 10**9, 1e-9), (1, 0.3), (1, 1e-3), (3000, 1 - 1e-3), (2, 1 - 1e-3)])
def test_extreme_rates(size, rate):
    generator = rng(f"extreme {size} {rate}", "batches")
    times = 4000 if size != 3000 else 300
    total = sum(len(sampling.poisson(size, rate, generator)) for _ in range(times))
    assert total == pytest.approx(times * size * rate, abs=Z * math.sqrt(times * size * rate * (1 - rate)))


@pytest.mark.parametrize("rate", [1e-9, 1e-17, 1e-300, 5e-324, 0.0])
def test_hardly_ever(rate):
    generator = rng("never", "batches")
    assert all(len(sampling.poisson(100, rate, generator)) == 0 for _ in range(200))


@pytest.mark.parametrize("rate", [1.0, math.nextafter(1, 0), 1 - 1e-13])
def test_always(rate):
    for size in (0, 1, 1000):
        members = sampling.poisson(size, rate, rng("always", "batches"))
        assert members.dtype == torch.int64
        assert torch.equal(members, torch.arange(size))


@given(size=st.integers(0, 3000), rate=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
@settings(derandomize=True, deadline=None, max_examples=200)
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_sorted_unique_and_in_range(size, rate, seed):
    members = sampling.poisson(size, rate, rng(f"{seed}", "batches"))
    assert members.dtype == torch.int64
    assert (members.diff() > 0).all()
    assert ((members >= 0) & (members < size)).all()


def test_a_restored_generator_draws_the_same_batches():
    one = rng("restored", "batches")
    sampling.poisson(1000, 0.1, one)
    other = rng("elsewhere", "batches")
    other.restore(one.state())
    for _ in range(3):
        assert torch.equal(sampling.poisson(1000, 0.1, one), sampling.poisson(1000, 0.1, other))


@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_fixed_size_draws_that_many_uniformly_without_replacement():
    size, batch_size, times = 20, 6, 10_000
    generator = rng("fixed", "batches")
    chosen = torch.zeros(times, size, dtype=torch.float64)
    for row in chosen:
        members = sampling.fixed_size(size, batch_size, generator)
        assert len(members) == len(members.unique()) == batch_size
        row[members] = 1
    rate = batch_size / size
    z = (chosen.sum(0) - times * rate) / math.sqrt(times * rate * (1 - rate))
    # Each batch has 6 of 20, so the counts are tied by one equation.
    assert P < stats.chi2.sf(float(z.square().sum()) * (size - 1) / size, size - 1) < 1 - P
    pair = batch_size * (batch_size - 1) / (size * (size - 1))
    both = float((chosen[:, 0] * chosen[:, -1]).sum())
    assert both == pytest.approx(times * pair, abs=Z * math.sqrt(times * pair * (1 - pair)))
    assert torch.equal(sampling.fixed_size(size, size, generator).sort().values, torch.arange(size))


def test_a_batch_larger_than_the_data_set_is_refused():
    with pytest.raises(ValueError, match="expected at most the 20 examples there are, got 21"):
        sampling.fixed_size(20, 21, rng("fixed", "batches"))


def test_a_batch_is_drawn_by_what_its_sampling_is_called():
    def generator():
        return rng("kinds", "batches")

    assert torch.equal(sampling.draw("poisson", 1000, 100, generator()), sampling.poisson(1000, 0.1, generator()))
    assert torch.equal(sampling.draw("fixed_size", 1000, 100, generator()), sampling.fixed_size(1000, 100, generator()))
    with pytest.raises(ValueError, match="expected poisson or fixed_size, got 'shuffled'"):
        sampling.draw("shuffled", 1000, 100, generator())

"""Statistics against what is known: exact cases, symmetry, and coverage by simulation."""

import math

import numpy as np
import pytest

from dp_bench.report.analysis.statistics import compare, holm, mean_interval, pooled_sd


def test_interval_of_five_values_is_nearly_their_range() -> None:
    low, high = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0]) or (math.nan, math.nan)
    assert 1.0 <= low < 1.4
    assert 4.6 < high <= 5.0
    assert low + high == pytest.approx(6.0)
    assert mean_interval([1.0]) is None
    assert mean_interval([1.0, 2.0, 3.0, 4.0]) is None
    assert mean_interval([2.0] * 5) == (2.0, 2.0)


def test_interval_covers_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        low, high = mean_interval(list(generator.normal(size=5))) or (math.nan, math.nan)
        inside += low <= 0 <= high
    assert inside / 400 > 0.89  # the mean of five lies outside their range in 6 % of cases already


def test_interval_of_many_values_is_the_usual_one() -> None:
    values = list(np.random.default_rng(2).normal(size=100))
    low, high = mean_interval(values) or (math.nan, math.nan)
    half = 1.984 * np.std(values, ddof=1) / 10
    assert low == pytest.approx(np.mean(values) - half, abs=0.03)
    assert high == pytest.approx(np.mean(values) + half, abs=0.03)


def test_holm() -> None:
    assert holm([0.01, 0.04, None, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_pooled_sd() -> None:
    assert pooled_sd(3.0, 4.0) == pytest.approx(math.sqrt(12.5))
    assert pooled_sd(None, 4.0) == 4.0
    assert pooled_sd(None, None) is None


def test_clear_difference_over_many_cells() -> None:
    generator = np.random.default_rng(3)
    pairs = [(list(0.9 + 0.01 * generator.normal(size=5)), list(0.8 + 0.01 * generator.normal(size=5)))] * 12
    found = compare(pairs)
    assert found is not None
    assert (found.cells, found.ahead, found.superiority) == (12, 12, 1.0)
    assert found.difference == pytest.approx(np.mean(pairs[0][0]) - np.mean(pairs[0][1]))
    assert found.interval is not None
    low, high = found.interval
    assert low < found.difference < high
    assert found.p == pytest.approx(1e-4)
    turned = compare([(b, a) for a, b in pairs])
    assert turned is not None
    assert (turned.ahead, turned.superiority, turned.p) == (0, 0.0, found.p)
    assert turned.difference == pytest.approx(-found.difference)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_no_difference_gives_every_p_equally_often() -> None:
    generator = np.random.default_rng(4)
    small = 0
    for _ in range(100):
        pairs = [(list(generator.normal(size=5)), list(generator.normal(size=5))) for _ in range(4)]
        found = compare(pairs)
        assert found is not None
        assert found.p is not None
        small += found.p <= 0.1
    assert 3 <= small <= 20


def test_five_pairs_support_no_p_value() -> None:
    found = compare([([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0])])
    assert found is not None
    assert found.p is None
    assert found.difference == -5
    assert compare([([1.0], [2.0])]) is None


def test_ties_count_half() -> None:
    found = compare([([1.0, 1.0], [1.0, 1.0])] * 8)
    assert found is not None
    assert (found.superiority, found.difference, found.ahead) == (0.5, 0.0, 0)
    assert found.p == 1.0


def test_a_difference_has_an_interval_only_where_the_values_carry_one():
    assert compare([([1.0, 2.0], [3.0, 4.0])] * 3).interval is None
    assert compare([([1.0, 2.0], [3.0, 4.0])] * 4).interval is not None
    assert compare([([1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 4.0])]).interval is None


@pytest.mark.parametrize("spreads", [[1.0] * 4, [1.0, 0.2, 0.2, 0.2]], ids=["even", "uneven"])
@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_interval_of_a_difference_covers_as_often_as_it_says(spreads: list[float]) -> None:
    """Two seeds in each of four cells: what resampling them would cover in 85 to 92 of 100 cases."""
    generator = np.random.default_rng(4)
    inside, times = 0, 600
    for _ in range(times):
        pairs = [(list(sd * generator.normal(size=2)), list(sd * generator.normal(size=2))) for sd in spreads]
        found = compare(pairs)
        assert found is not None
        assert found.interval is not None
        inside += found.interval[0] <= 0 <= found.interval[1]
    assert inside / times > 0.93


def test_what_has_no_value_loses_and_is_not_in_the_mean() -> None:
    pairs = [([0.9, 0.9], [-math.inf, -math.inf]), ([0.7, 0.8], [0.9, 0.9]), ([0.9, -math.inf], [0.8, 0.8])]
    found = compare(pairs)
    assert found is not None
    assert (found.cells, found.ahead) == (3, 1)
    assert found.difference == pytest.approx(-0.15)
    assert found.superiority == pytest.approx((1 + 0 + 0.5) / 3)
    all_diverged = compare(pairs[:1])
    assert all_diverged is not None
    assert (all_diverged.ahead, all_diverged.difference, all_diverged.interval) == (1, None, None)

"""The secret number of trials: its probabilities, and that these are what is drawn."""

import itertools
import math
import random
import secrets
from collections import Counter

import pytest
from scipy import stats

from dp_bench.privacy.selection import DISTRIBUTIONS, Trials


def by_scipy(trials: Trials, k: int) -> float:
    if trials.distribution == "poisson":
        return float(stats.poisson(trials.mean).pmf(k))
    if trials.distribution == "geometric":
        return float(stats.geom(1 / trials.mean).pmf(k))
    return float(stats.logser(1 - trials.stopping).pmf(k))


def most(trials: Trials, count: int = 5000) -> dict[int, float]:
    return {k: float(p) for k, p in itertools.islice(trials.probabilities(), count)}


@pytest.mark.parametrize("mean", [1.5, 9, 25])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_probabilities_are_those_of_the_distribution(distribution: str, mean: float) -> None:
    trials = Trials(distribution, mean)
    found = most(trials)
    assert min(found) == (0 if distribution == "poisson" else 1)
    assert math.fsum(found.values()) == pytest.approx(1, abs=1e-12)
    assert math.fsum(k * p for k, p in found.items()) == pytest.approx(mean, rel=1e-9)
    for k in (1, 2, 7, 30):
        assert found[k] == pytest.approx(by_scipy(trials, k), rel=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_what_is_drawn_has_these_probabilities(distribution: str, monkeypatch) -> None:
    """Chi-squared, over every k that is expected five times or more, and the rest together."""
    monkeypatch.setattr(secrets, "randbits", random.Random(distribution).getrandbits)
    trials, draws = Trials(distribution, 5), 6000
    counts = Counter(trials.draw() for _ in range(draws))
    expected = {k: draws * p for k, p in most(trials).items() if draws * p >= 5}
    observed = [counts[k] for k in expected]
    rest = draws - sum(expected.values())
    test = stats.chisquare([*observed, draws - sum(observed)], [*expected.values(), rest])
    assert test.pvalue > 0.001


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_ends_of_the_randomness_are_numbers_too(distribution: str, monkeypatch) -> None:
    trials = Trials(distribution, 5)
    monkeypatch.setattr(secrets, "randbits", lambda bits: 0)
    assert trials.draw() == (0 if distribution == "poisson" else 1)
    monkeypatch.setattr(secrets, "randbits", lambda bits: 2**bits - 1)
    assert 20 < trials.draw() < 2000


def test_each_draw_asks_the_operating_system(monkeypatch) -> None:
    asked = []
    randbits = secrets.randbits
    monkeypatch.setattr(secrets, "randbits", lambda bits: (asked.append(bits), randbits(bits))[1])
    drawn = {Trials("geometric", 1000).draw() for _ in range(20)}
    assert asked == [128] * 20
    assert len(drawn) > 5

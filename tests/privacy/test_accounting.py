"""Accountants against closed forms, against each other, and against the laws of composition."""

import dataclasses
import functools
import itertools
import math
import random
import subprocess
import sys
import warnings
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_bench.errors import UserError
from dp_bench.privacy import accountants
from dp_bench.privacy.accountants import (
    ACCOUNTANTS,
    RDP_ORDERS,
    Sampling,
    proven,
    quiet_libraries,
    rdp_poisson_at,
)
from dp_bench.privacy.accounting import Part, composed_epsilon, epsilon, epsilon_curve, rounded_up
from dp_bench.privacy.conversion import smallest_epsilon
from dp_bench.privacy.multiplier_search import smallest_multiplier
from dp_bench.privacy.noise_tail import NOISE_TAIL, ideal_delta, smallest_delta, uncovered

MNIST, AG_NEWS = Sampling(512, 60_000), Sampling(512, 120_000)
EVERY_50_STEPS = [*range(0, 1172, 50), 1172]

phi = NormalDist().cdf


def root(function, low, high):
    """Where the decreasing `function` crosses zero."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return high


def exact_epsilon_without_sampling(noise_multiplier, steps, delta):
    """Balle and Wang 2018, theorem 8, for one Gaussian of standard deviation nu / sqrt(steps)."""
    sigma = noise_multiplier / math.sqrt(steps)

    def excess(e):
        return phi(0.5 / sigma - e * sigma) - math.exp(e) * phi(-0.5 / sigma - e * sigma) - delta

    return root(excess, 0.0, 100.0)


def exact_epsilon_of_one_step(noise_multiplier, rate, delta):
    """Hockey-stick divergence of (1-q) N(0, nu^2) + q N(1, nu^2) from N(0, nu^2): one example removed."""

    def excess(e):
        threshold = noise_multiplier**2 * math.log((math.expm1(e) + rate) / rate) + 0.5
        absent, present = phi(-threshold / noise_multiplier), phi((1 - threshold) / noise_multiplier)
        return (1 - rate) * absent + rate * present - math.exp(e) * absent - delta

    return root(excess, 0.0, 20.0)


@pytest.mark.parametrize(
    ("sampling", "noise_multiplier", "steps"),
    [(MNIST, 0.837, 1172), (MNIST, 3.994, 81 * 1172), (AG_NEWS, 0.636, 5 * 2344), (MNIST, 0.723, 25 * 1172)],
)
def test_opacus_rdp_agrees(sampling, noise_multiplier, steps):
    from opacus.accountants import RDPAccountant

    second_opinion = RDPAccountant()
    second_opinion.history = [(noise_multiplier, sampling.rate, steps)]
    expected = second_opinion.get_epsilon(1e-5, alphas=accountants.RDP_ORDERS)
    found = epsilon("rdp", noise_multiplier, sampling, steps, 1e-5)
    # At fractional orders dp_accounting adds up a series' absolute values: at least as large, by very little.
    assert expected * (1 - 1e-9) <= found <= expected * 1.005


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize(("noise_multiplier", "steps"), [(2.0, 1), (10.0, 50), (40.0, 50)])
def test_upper_bounds_on_the_exact_epsilon_without_sampling(noise_multiplier, steps, delta):
    exact = exact_epsilon_without_sampling(noise_multiplier, steps, delta)
    found = {a: epsilon(a, noise_multiplier, Sampling(100, 100), steps, delta) for a in ACCOUNTANTS if proven(a)}
    assert all(bound >= exact for bound in found.values())
    assert found["pld"] == pytest.approx(exact, abs=2e-3)
    assert found["prv"] == pytest.approx(exact, abs=2 * accountants.PRV_EPSILON_ERROR)
    assert found["rdp"] <= 1.3 * exact


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(0.7, 0.01), (1.0, 0.1), (2.0, 0.2)])
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_upper_bounds_on_the_exact_epsilon_of_one_sampled_step(noise_multiplier, rate):
    sampling = Sampling(round(1000 * rate), 1000)
    exact = exact_epsilon_of_one_step(noise_multiplier, rate, 1e-5)
    found = {a: epsilon(a, noise_multiplier, sampling, 1, 1e-5) for a in ACCOUNTANTS if proven(a)}
    assert all(bound >= exact for bound in found.values())
    assert found["pld"] == pytest.approx(exact, abs=2e-3)
    assert found["prv"] == pytest.approx(exact, abs=2 * accountants.PRV_EPSILON_ERROR)


@pytest.mark.parametrize(("noise_multiplier", "steps"), [(1.358, 1172), (3.994, 81 * 1172), (10.67, 81 * 1172)])
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_pld_is_below_rdp_and_agrees_with_prv(noise_multiplier, steps):
    rdp, pld, prv = (epsilon(a, noise_multiplier, MNIST, steps, 1e-5) for a in ("rdp", "pld", "prv"))
    assert pld < rdp
    assert prv == pytest.approx(pld + accountants.PRV_EPSILON_ERROR, abs=2e-3)


def test_without_replacement_costs_more_and_is_not_called_private():
    assert epsilon("rdp_wor", 2.0, MNIST, 1172, 1e-5) > 1.5 * epsilon("rdp", 2.0, MNIST, 1172, 1e-5)
    kinds = {name: (accountant.sampling, accountant.proven) for name, accountant in ACCOUNTANTS.items()}
    poisson, fixed_size = ("poisson", True), ("fixed_size", False)
    assert kinds == {"rdp": poisson, "pld": poisson, "prv": poisson, "rdp_wor": fixed_size, "rdp_wor_10": fixed_size}
    assert not proven("no such accountant")


@pytest.mark.parametrize("noise_multiplier", [0.5, 2.0, 5.37, 40.0])
@pytest.mark.parametrize("steps", [1, 50, 1172, 25 * 1172])
@pytest.mark.parametrize("delta", [1e-5, 0.01, 0.3])
def test_without_replacement_is_the_librarys_number_though_few_orders_are_computed(noise_multiplier, steps, delta):
    import dp_accounting as dpa

    whole = _library_without_replacement(noise_multiplier)
    spent = [steps * max(rdp, accountants.RDP_ROUNDING) for rdp in whole.rdp.tolist()]
    expected = dpa.rdp.compute_epsilon(whole.orders.tolist(), spent, delta)[0]
    assert accountants.ACCOUNTANTS["rdp_wor"].count(noise_multiplier, MNIST, steps, delta) == expected


@functools.cache
def _library_without_replacement(noise_multiplier):
    import dp_accounting as dpa

    whole = dpa.rdp.RdpAccountant(neighboring_relation=dpa.NeighboringRelation.REPLACE_ONE)
    return whole.compose(dpa.SampledWithoutReplacementDpEvent(60_000, 512, dpa.GaussianDpEvent(noise_multiplier)))


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_with_the_orders_2_to_10_a_small_epsilon_costs_twice_the_noise():
    """The hypothesis in docs/fidelity.md; its numbers were found outside this code."""

    def multiplier(accountant, candidates, target):
        return smallest_multiplier(lambda nu: epsilon(accountant, nu, MNIST, candidates * 1172, 1e-5), target, 5.0)

    assert multiplier("rdp_wor_10", 5, 1) == pytest.approx(10.25, abs=5e-3)
    assert multiplier("rdp_wor", 5, 1) == pytest.approx(5.37, abs=5e-3)
    assert multiplier("rdp_wor_10", 25, 1) == pytest.approx(22.8, abs=0.05)
    assert multiplier("rdp_wor", 25, 1) == pytest.approx(11.9, abs=0.05)
    for target in (2, 3, 4):
        assert multiplier("rdp_wor_10", 25, target) == pytest.approx(multiplier("rdp_wor", 25, target), rel=1e-4)
    assert epsilon("rdp_wor_10", 1e3, MNIST, 1172, 1e-5) == pytest.approx(0.918, abs=1e-3)


def test_the_orders_are_fine_enough():
    """A run's epsilon is near what every order up to 200 would give; the library's default orders are 7 % off here."""
    import dp_accounting as dpa

    noise_multiplier = 7.037  # 35 candidates, epsilon 1
    fine = dpa.rdp.RdpAccountant([1 + i / 20 for i in range(1, 200)] + list(range(11, 200)))
    fine.compose(dpa.PoissonSampledDpEvent(MNIST.rate, dpa.GaussianDpEvent(noise_multiplier)), 1172)
    assert epsilon("rdp", noise_multiplier, MNIST, 1172, 1e-5) <= 1.001 * fine.get_epsilon(1e-5)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_curve_is_monotone_and_ends_in_epsilon(accountant):
    steps = EVERY_50_STEPS if accountant.startswith("rdp") else [0, 50, 600, 1150, 1172]
    curve = epsilon_curve(accountant, 3.994, MNIST, steps, 1e-5)
    assert curve[0] == 0
    assert all(before < after for before, after in itertools.pairwise(curve))
    assert curve[-1] == epsilon(accountant, 3.994, MNIST, 1172, 1e-5)


def test_rdp_curve_equals_epsilon_pointwise_and_computes_one_step_once():
    accountants.rdp_poisson_at.cache_clear()
    curve = epsilon_curve("rdp", 0.837, MNIST, EVERY_50_STEPS, 1e-5)
    assert accountants.rdp_poisson_at.cache_info().misses == 1
    assert curve == [epsilon("rdp", 0.837, MNIST, steps, 1e-5) for steps in EVERY_50_STEPS]


def test_curve_is_lowered_to_what_more_steps_cost(monkeypatch):
    noisy = {50: 1.0, 100: 2.0000001, 150: 2.0}
    exact = dataclasses.replace(ACCOUNTANTS["pld"], count=lambda nu, sampling, steps, delta: noisy[steps])
    monkeypatch.setitem(ACCOUNTANTS, "pld", exact)
    assert epsilon_curve("pld", 1.0, MNIST, [50, 100, 150], 1e-5) == [1.0, 2.0, 2.0]


@settings(max_examples=10, deadline=None)
@given(
    batch_size=st.integers(1, 200),
    noise_multiplier=st.floats(0.5, 50.0),
    steps=st.integers(1, 100_000),
    more=st.floats(1.01, 3.0),
)
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_more_steps_more_examples_or_less_noise_never_cost_less(batch_size, noise_multiplier, steps, more):
    sampling = Sampling(batch_size, 2000)
    larger_batch = Sampling(min(math.ceil(batch_size * more), 2000), 2000)
    spent = epsilon("rdp", noise_multiplier, sampling, steps, 1e-5)
    assert 0 <= spent < math.inf
    assert epsilon("rdp", noise_multiplier, sampling, math.ceil(steps * more), 1e-5) >= spent
    assert epsilon("rdp", noise_multiplier, larger_batch, steps, 1e-5) >= spent
    assert epsilon("rdp", noise_multiplier / more, sampling, steps, 1e-5) >= spent


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_no_noise_no_steps_and_nothing_but_noise(accountant):
    assert epsilon(accountant, 0.0, MNIST, 1, 1e-5) == math.inf
    assert epsilon(accountant, 0.0, MNIST, 0, 1e-5) == 0
    assert epsilon(accountant, 1.0, MNIST, 0, 1e-5) == 0
    assert epsilon(accountant, math.inf, MNIST, 1000, 1e-5) == 0


def test_rounding_never_makes_steps_free():
    """Here the library's RDP values are rounding errors, some of them negative, and it would conclude epsilon = 0."""
    assert epsilon("rdp", 1e9, MNIST, 10**6, 1e-5) > 0


def test_prv_is_never_negative_and_says_where_it_ends():
    assert epsilon("prv", 1.0, MNIST, 1000, 0.5) == 0
    with pytest.raises(UserError, match=r"privacy.accountant: .* delta 1e-17; use rdp or pld"):
        accountants._prv(1.0, MNIST, 1000, 1e-17)


def test_the_libraries_do_not_chatter(capfd, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epsilon("rdp", 5.0, Sampling(1000, 2000), 50, 1e-5)  # orders below 2 do not converge
        epsilon("prv", 10.0, Sampling(2000, 2000), 50, 1e-5)  # log(1 - q)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_rate():
    assert Sampling(512, 60_000).rate == 512 / 60_000


@pytest.mark.parametrize(("batch_size", "dataset_size"), [(0, 10), (11, 10), (-1, 10), (1, 0)])
def test_sampling_refuses_impossible_batches(batch_size, dataset_size):
    with pytest.raises(UserError, match=f"got {batch_size}"):
        Sampling(batch_size, dataset_size)


def test_bad_arguments_are_refused():
    with pytest.raises(UserError, match=r"privacy.accountant: expected one of rdp, pld, .*, got gdp"):
        epsilon("gdp", 1.0, MNIST, 1, 1e-5)
    for noise_multiplier, steps, delta in [(-1.0, 1, 1e-5), (math.nan, 1, 1e-5), (1.0, -1, 1e-5), (1.0, 1, 0.0)]:
        with pytest.raises(ValueError, match=r"^(noise_multiplier|steps|delta): expected .*, got "):
            epsilon("rdp", noise_multiplier, MNIST, steps, delta)
    with pytest.raises(ValueError, match="ascending"):
        epsilon_curve("rdp", 1.0, MNIST, [100, 50], 1e-5)


# The end of the noise's tail


def test_no_epsilon_is_found_for_what_the_tail_does_not_cover():
    """The noise ends at 10.06 standard deviations: at nu = 0.12 the two worlds' discs hardly overlap."""
    for accountant in ("rdp", "pld"):
        assert epsilon(accountant, 0.12, MNIST, 1, 1e-5) == math.inf
    assert epsilon("rdp", 1.207, MNIST, 5860, 1e-30) == math.inf
    assert epsilon("rdp", 1.207, MNIST, 5860, 1e-12) < math.inf


def given_away_exactly(shift, pairs, end):
    """By integration over a pair's length: how much of each circle the other world's disc does not reach."""
    import numpy as np

    each = shift / math.sqrt(pairs)
    lengths = np.linspace(end - each, end, 20_001)
    cosines = np.clip((end**2 - lengths**2 - each**2) / (2 * lengths * each), -1, 1)
    density = lengths * np.exp(-(lengths**2) / 2) * np.arccos(cosines) / math.pi
    return pairs * np.trapezoid(density, lengths)


@pytest.mark.parametrize(("shift", "pairs"), [(1.0, 1), (1.0, 50), (1.0, 4000), (4.0, 1), (4.0, 50)])
def test_the_bound_on_what_the_tail_gives_away_holds(monkeypatch, shift, pairs):
    """With a tail that ends early enough to count: a shift in one pair, and the same one spread over many."""
    from dp_bench.privacy import noise_tail

    monkeypatch.setattr(noise_tail, "NOISE_TAIL", 6.5)
    monkeypatch.setattr(noise_tail, "_MOST_PAIRS", float(pairs))
    worst = max(given_away_exactly(shift, n, 6.5) for n in (1, pairs))
    assert worst <= noise_tail.uncovered(1 / shift, 1) < 20 * worst


def test_a_shift_spread_over_many_pairs_can_be_the_worse_one():
    """Hence the term with the number of pairs: concentrating the shift is not always the worst case."""
    ends = math.exp(-(NOISE_TAIL**2) / 2)

    def given_away(shift):
        return math.exp(-((NOISE_TAIL - shift) ** 2) / 2) - ends

    nu, pairs = 4.0, 275_661  # of MNIST's model
    concentrated, spread = given_away(1 / nu), pairs * ends * math.expm1(NOISE_TAIL / nu / math.sqrt(pairs))
    assert spread > 10 * concentrated
    assert uncovered(nu, 1) > spread


def test_the_tail_costs_more_with_more_steps_and_less_noise():
    assert uncovered(1.0, 2000) == pytest.approx(2 * uncovered(1.0, 1000))
    assert uncovered(0.5, 1) > 10 * uncovered(1.0, 1) > 10 * uncovered(2.0, 1) > 0
    assert uncovered(0.0, 1) == uncovered(0.1, 1) == uncovered(0.3, 10**10) == 1
    assert uncovered(0.1, 0) == uncovered(math.inf, 5) == 0
    assert smallest_delta(1) >= 6e-22
    assert 0.99999 * 1e-5 < ideal_delta(1e-5, 1e-13, 10**6) < 1e-5
    assert ideal_delta(1e-5, 2e-5, 1) == ideal_delta(1e-5, 0, 10**15) == ideal_delta(1e-5, 1, 10**15) == 0


def test_the_noise_ends_where_accounting_says_it_does():
    """The smallest uniforms that there are, of either kind, make the longest pair."""
    import torch

    from dp_bench.mechanism.noise import normal

    class Smallest:
        def uniform(self, size, dtype):
            return torch.full((size,), 1 - 2**-53 if dtype == torch.float64 else 2**-33, dtype=dtype)

    assert float(normal(torch.zeros(2), 1.0, Smallest()).double().norm()) == pytest.approx(NOISE_TAIL, rel=1e-6)


# What is composed, what is printed


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_composition_of_unlike_steps_is_dp_accountings():
    import dp_accounting as dpa

    parts = [Part(1.2, MNIST, 5860), Part(0.8, Sampling(256, 120_000), 2000), Part(3.0, Sampling(600, 1000), 7)]
    other = dpa.rdp.RdpAccountant(accountants.RDP_ORDERS)
    for part in parts:
        event = dpa.PoissonSampledDpEvent(part.sampling.rate, dpa.GaussianDpEvent(part.noise_multiplier))
        other.compose(event, part.steps)
    assert composed_epsilon(parts, 1e-5) == pytest.approx(other.get_epsilon(1e-5), rel=1e-6)
    assert composed_epsilon(parts[:1], 1e-5) == epsilon("rdp", 1.2, MNIST, 5860, 1e-5)
    assert composed_epsilon([], 1e-5) == 0
    assert composed_epsilon([*parts, Part(0.0, MNIST, 1)], 1e-5) == math.inf
    assert composed_epsilon([*parts, Part(0.12, MNIST, 1)], 1e-5) == math.inf


@pytest.mark.parametrize(
    ("value", "printed"),
    [(2.9999, "3.000"), (3.0001, "3.001"), (3.0, "3.000"), (9.900341, "9.901"), (0.0, "0.000"), (1e-9, "0.001")],
)
def test_an_epsilon_is_printed_rounded_up(value, printed):
    assert rounded_up(value) == printed


@given(st.floats(0, 1e300), st.integers(0, 8))
def test_what_is_printed_is_never_less_than_what_is_spent(value, digits):
    from fractions import Fraction

    printed, exact = Fraction(rounded_up(value, digits)), Fraction(value)
    assert exact <= printed < exact + Fraction(1, 10**digits)
    assert rounded_up(math.inf, digits) == "inf"


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_importing_and_using_it_needs_no_torch():
    code = """
import sys
import dp_bench.privacy.accounting as a, dp_bench.privacy.calibration, dp_bench.experiment.grid
heavy = {"torch", "opacus", "dp_accounting", "numpy", "scipy"} & set(sys.modules)
assert not heavy, heavy
for accountant in ("rdp", "pld", "rdp_wor"):
    a.epsilon(accountant, 4.0, a.Sampling(512, 60000), 10, 1e-5)
assert "dp_accounting" in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("rows", [1_000, 6_000, 60_000, 120_000])
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_the_smallest_epsilon_is_that_of_all_orders_though_few_are_looked_at(rows: int) -> None:
    """A large rate is where dp_accounting overstates fractional orders."""
    import dp_accounting as dpa

    dice = random.Random(rows)
    for _ in range(12):
        nu, steps, delta = 10 ** dice.uniform(-0.3, 1.5), int(10 ** dice.uniform(0, 5.5)), 10 ** dice.uniform(-9, -3)
        with quiet_libraries():
            rdp = {order: rdp_poisson_at(nu, Sampling(512, rows))(order) for order in RDP_ORDERS}
        looked_at: list[float] = []

        def one_step(order: float, rdp: dict[float, float] = rdp, looked_at: list[float] = looked_at) -> float:
            looked_at.append(order)
            return rdp[order]

        found = smallest_epsilon(one_step, RDP_ORDERS, steps, delta)
        of_all, _ = dpa.rdp.compute_epsilon(RDP_ORDERS, [steps * one for one in rdp.values()], delta)
        assert found == pytest.approx(of_all, rel=1e-9)
        assert len(looked_at) < len(RDP_ORDERS) / 3
        assert len(looked_at) == len(set(looked_at))

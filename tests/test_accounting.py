"""Accountants against closed forms, against each other, and against the laws of composition."""

import itertools
import math
import subprocess
import sys
import warnings
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_bench import accounting
from dp_bench.accounting import ACCOUNTANTS, PRIVATE_ACCOUNTANTS, Sampling, compose_multipliers, epsilon, epsilon_curve
from dp_bench.errors import UserError

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
    expected = second_opinion.get_epsilon(1e-5, alphas=accounting.RDP_ORDERS)
    found = epsilon("rdp", noise_multiplier, sampling, steps, 1e-5)
    # At fractional orders dp_accounting adds up a series' absolute values: at least as large, by very little.
    assert expected * (1 - 1e-9) <= found <= expected * 1.005


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize(("noise_multiplier", "steps"), [(2.0, 1), (10.0, 50), (40.0, 50)])
def test_upper_bounds_on_the_exact_epsilon_without_sampling(noise_multiplier, steps, delta):
    exact = exact_epsilon_without_sampling(noise_multiplier, steps, delta)
    found = {a: epsilon(a, noise_multiplier, Sampling(100, 100), steps, delta) for a in PRIVATE_ACCOUNTANTS}
    assert all(bound >= exact for bound in found.values())
    assert found["pld"] == pytest.approx(exact, abs=2e-3)
    assert found["prv"] == pytest.approx(exact, abs=2 * accounting.PRV_EPSILON_ERROR)
    assert found["rdp"] <= 1.3 * exact


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(0.7, 0.01), (1.0, 0.1), (2.0, 0.2)])
def test_upper_bounds_on_the_exact_epsilon_of_one_sampled_step(noise_multiplier, rate):
    sampling = Sampling(round(1000 * rate), 1000)
    exact = exact_epsilon_of_one_step(noise_multiplier, rate, 1e-5)
    found = {a: epsilon(a, noise_multiplier, sampling, 1, 1e-5) for a in PRIVATE_ACCOUNTANTS}
    assert all(bound >= exact for bound in found.values())
    assert found["pld"] == pytest.approx(exact, abs=2e-3)
    assert found["prv"] == pytest.approx(exact, abs=2 * accounting.PRV_EPSILON_ERROR)


@pytest.mark.parametrize(("noise_multiplier", "steps"), [(1.358, 1172), (3.994, 81 * 1172), (10.67, 81 * 1172)])
def test_pld_is_below_rdp_and_agrees_with_prv(noise_multiplier, steps):
    rdp, pld, prv = (epsilon(a, noise_multiplier, MNIST, steps, 1e-5) for a in ("rdp", "pld", "prv"))
    assert pld < rdp
    assert prv == pytest.approx(pld + accounting.PRV_EPSILON_ERROR, abs=2e-3)


def test_without_replacement_costs_more_and_is_not_called_private():
    assert epsilon("rdp_wor", 2.0, MNIST, 1172, 1e-5) > 1.5 * epsilon("rdp", 2.0, MNIST, 1172, 1e-5)
    assert set(ACCOUNTANTS) - set(PRIVATE_ACCOUNTANTS) == {"rdp_wor"}


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
    accounting._rdp_poisson.cache_clear()
    curve = epsilon_curve("rdp", 0.837, MNIST, EVERY_50_STEPS, 1e-5)
    assert accounting._rdp_poisson.cache_info().misses == 1
    assert curve == [epsilon("rdp", 0.837, MNIST, steps, 1e-5) for steps in EVERY_50_STEPS]


def test_curve_is_lowered_to_what_more_steps_cost(monkeypatch):
    noisy = {50: 1.0, 100: 2.0000001, 150: 2.0}
    monkeypatch.setitem(accounting._SPENT_AFTER, "pld", lambda *_: noisy.__getitem__)
    assert epsilon_curve("pld", 1.0, MNIST, [50, 100, 150], 1e-5) == [1.0, 2.0, 2.0]


@settings(max_examples=10, deadline=None)
@given(
    batch_size=st.integers(1, 200),
    noise_multiplier=st.floats(0.5, 50.0),
    steps=st.integers(1, 100_000),
    more=st.floats(1.01, 3.0),
)
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
    with pytest.raises(UserError, match=r"delta 1e-17.*accountant=rdp or pld"):
        epsilon("prv", 1.0, MNIST, 1000, 1e-17)


def test_the_libraries_do_not_chatter(capfd, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epsilon("rdp", 5.0, Sampling(1000, 2000), 50, 1e-5)  # orders below 2 do not converge
        epsilon("prv", 10.0, Sampling(2000, 2000), 50, 1e-5)  # log(1 - q)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_compose_multipliers_by_the_formula():
    assert compose_multipliers([3.0, 4.0]) == pytest.approx((3**-2 + 4**-2) ** -0.5)
    nu = 1.358  # Online: 1 % more noise on the gradient pays for its derivative
    assert compose_multipliers([1.01 * nu, nu / math.sqrt(1 - 1.01**-2)]) == pytest.approx(nu)


def test_compose_multipliers_at_the_ends():
    assert compose_multipliers([2.0, 0.0, math.inf]) == 0
    assert compose_multipliers([2.0, math.inf]) == 2
    assert compose_multipliers([math.inf, math.inf]) == math.inf
    assert compose_multipliers([]) == math.inf
    assert compose_multipliers([1e-200, 1e-200]) == pytest.approx(1e-200 / math.sqrt(2), abs=0)
    with pytest.raises(ValueError, match="at least 0"):
        compose_multipliers([1.0, math.nan])


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=5))
def test_compose_multipliers_is_associative_and_below_each(multipliers):
    together = compose_multipliers(multipliers)
    assert together < min(multipliers) or max(multipliers) > 1e7 * min(multipliers)
    assert compose_multipliers([multipliers[0], compose_multipliers(multipliers[1:])]) == pytest.approx(together)


def test_rate():
    assert Sampling(512, 60_000).rate == 512 / 60_000


@pytest.mark.parametrize(("batch_size", "dataset_size"), [(0, 10), (11, 10), (-1, 10), (1, 0)])
def test_sampling_refuses_impossible_batches(batch_size, dataset_size):
    with pytest.raises(UserError, match=f"Found {batch_size}"):
        Sampling(batch_size, dataset_size)


def test_bad_arguments_are_refused():
    with pytest.raises(UserError, match=r"Found 'gdp'. Choose one of rdp, pld, prv, rdp_wor"):
        epsilon("gdp", 1.0, MNIST, 1, 1e-5)
    for noise_multiplier, steps, delta in [(-1.0, 1, 1e-5), (math.nan, 1, 1e-5), (1.0, -1, 1e-5), (1.0, 1, 0.0)]:
        with pytest.raises(ValueError, match="Found"):
            epsilon("rdp", noise_multiplier, MNIST, steps, delta)
    with pytest.raises(ValueError, match="ascending"):
        epsilon_curve("rdp", 1.0, MNIST, [100, 50], 1e-5)


def test_importing_and_using_it_needs_no_torch():
    code = """
import sys
import dp_bench.accounting as a, dp_bench.budget, dp_bench.grid
heavy = {"torch", "opacus", "dp_accounting", "numpy", "scipy"} & set(sys.modules)
assert not heavy, heavy
for accountant in ("rdp", "pld", "rdp_wor"):
    a.epsilon(accountant, 4.0, a.Sampling(512, 60000), 10, 1e-5)
assert "dp_accounting" in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)

"""What is read from disk is held against what can be computed: at any budget, for every accountant."""

import dataclasses
import itertools
import math
import time

import pytest

from dp_bench.errors import UserError
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.accounting import epsilon
from dp_bench.privacy.allocation import Allocation, Budget
from dp_bench.privacy.checks import violation
from dp_bench.privacy.lower_bound import is_possible

# Rates, steps, candidates, noise multipliers and deltas, from tiny budgets (epsilon 0.02) to large ones.
SEARCHES = [
    (Sampling(batch, rows), steps, candidates, nu, delta)
    for (batch, rows), (steps, candidates), nu, delta in itertools.product(
        [(512, 60_000), (50, 1000), (100, 100)], [(1, 1), (20, 5), (400, 5)], [1.2, 4.0, 40.0], [1e-5, 1e-7]
    )
]


def honest(accountant, sampling, steps, candidates, nu, delta):
    """What calibration makes, the other way around: the budget is what the noise multiplier spends."""
    run, grid = (epsilon(accountant, nu, sampling, count, delta) for count in (steps, candidates * steps))
    return Allocation(Budget(grid, delta, accountant), sampling, candidates, steps, nu, grid, min(run, grid))


@pytest.mark.parametrize(("accountant", "every"), [("pld", 3), ("prv", 4)])
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_less_noise_is_refused_and_the_true_one_accepted_at_any_budget(accountant, every):
    tried = []
    for sampling, steps, candidates, nu, delta in SEARCHES[::every]:
        if not 0.02 < epsilon("rdp", nu, sampling, steps * candidates, delta) < 25:
            continue
        good = honest(accountant, sampling, steps, candidates, nu, delta)
        tried.append(good.budget.epsilon)
        assert violation(good) is None, good
        for share in (0.9, 0.4) if good.budget.epsilon < 0.5 else (0.9,):
            less = dataclasses.replace(good, noise_multiplier=share * good.noise_multiplier)
            assert violation(less) is not None, less
    assert min(tried) < 0.1
    assert max(tried) > 3
    assert len(tried) >= 8


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_a_claim_well_below_what_is_spent_is_impossible_and_the_true_one_possible():
    tried = []
    for sampling, steps, candidates, nu, delta in SEARCHES[::3]:
        n = steps * candidates
        if not 0.02 < epsilon("rdp", nu, sampling, n, delta) < 25:
            continue
        spent = epsilon("pld", nu, sampling, n, delta)
        tried.append(spent)
        assert is_possible(spent, nu, sampling, n, delta)
        # Noise of 0.8 nu spends a quarter more, which is more than pld's own rounding adds at the smallest budgets.
        assert not is_possible(spent, 0.8 * nu, sampling, n, delta)
    assert len(tried) > 6


@pytest.mark.parametrize("claimed", [0.0, -1.0, math.nan, 5e-324, 1e-12])
def test_absurd_claims_are_impossible(claimed):
    assert not is_possible(claimed, 1.2, Sampling(512, 60_000), 5860, 1e-5)


def test_one_gaussian_release_has_the_epsilon_of_the_analytic_mechanism():
    """Without sampling and with one step, delta(epsilon) is known exactly (Balle and Wang 2018)."""

    def cdf(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    for nu, eps in [(1.0, 2.0), (2.0, 1.0), (5.0, 0.4)]:
        delta = cdf(0.5 / nu - eps * nu) - math.exp(eps) * cdf(-0.5 / nu - eps * nu)
        assert is_possible(eps, nu, Sampling(100, 100), 1, delta)
        assert not is_possible(0.97 * eps, nu, Sampling(100, 100), 1, delta)


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_an_epsilon_of_another_accountant_is_plausible_only_if_it_is_not_too_small():
    good = honest("rdp", Sampling(512, 60_000), 1172, 5, 1.2, 1e-5)
    pld = epsilon("pld", 1.2, good.sampling, 5860, 1e-5)
    assert is_possible(pld, 1.2, good.sampling, 5860, 1e-5)
    assert not is_possible(0.95 * pld, 1.2, good.sampling, 5860, 1e-5)


# Effort


@pytest.mark.parametrize("accountant", ["pld", "prv"])
@pytest.mark.parametrize(
    ("nu", "sampling", "steps"),
    [
        (100.0, Sampling(512, 60_000), 10**10),  # too many compositions
        (0.5, Sampling(60_000, 60_000), 10_000),  # too large an epsilon
    ],
)
def test_slow_accountants_refuse_what_would_take_minutes_or_gigabytes(accountant, nu, sampling, steps):
    started = time.monotonic()
    with pytest.raises(UserError, match=r"^privacy.accountant: expected .*; use rdp$"):
        epsilon(accountant, nu, sampling, steps, 1e-5)
    assert time.monotonic() - started < 10


def test_prv_refuses_more_points_than_memory_holds():
    with pytest.raises(UserError, match="points to sum over"):
        epsilon("prv", 0.5, Sampling(50, 1000), 6000, 1e-5)


@pytest.mark.parametrize("accountant", ["rdp", "pld", "prv"])
@pytest.mark.parametrize("asked", [1e-200, 5e-324, 1e300, math.inf, math.nan, 0.0])
def test_an_epsilon_that_no_accountant_counts_is_refused_by_name(accountant, asked):
    with pytest.raises(UserError, match=r"^privacy.epsilon: expected a .*number.*, got .*; set it, for example, to 3$"):
        Budget(asked, 1e-5, accountant)

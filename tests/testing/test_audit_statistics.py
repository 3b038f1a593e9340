"""The statistics of the audit: bounds that hold as often as they say, tests that are the optimal ones."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dp_bench.testing.statistics import Known, Worlds, audit, joint_statistic, likelihood_ratio, mu_lower_bound

DRAWS = 10_000


def decisions(positives, total):
    return np.arange(total) < positives


def test_bound_is_exact_where_it_can_be_written_down():
    # All n canaries found, none seen elsewhere: TPR >= e^(1/n), FPR <= 1 - e^(1/n), e = 0.0005 each.
    rate = 0.0005 ** (1 / DRAWS)
    found = mu_lower_bound(decisions(0, DRAWS), decisions(DRAWS, DRAWS), 0.999)
    assert found == pytest.approx(2 * norm.ppf(rate))
    assert 6 < found < 6.5


def test_bound_proves_nothing_from_a_blind_test_or_from_no_draws():
    assert mu_lower_bound(decisions(500, 1000), decisions(500, 1000), 0.999) < 0
    assert mu_lower_bound(decisions(0, 0), decisions(0, 0), 0.999) == -math.inf
    assert mu_lower_bound(decisions(0, 10), decisions(0, 10), 0.999) == -math.inf


@pytest.mark.slow(reason="starts a process, or tries many sums")
def test_bound_holds_as_often_as_it_says():
    """80 % confidence, 1,000 audits of N(0, 1) against N(1, 1) by 200 draws each: at most 20 % overstate mu.

    Clopper-Pearson is conservative, so the share is lower; it must not be so low that the bound says nothing.
    """
    random = np.random.default_rng(0)
    beyond_a_half = norm.sf([[0.5], [-0.5]])
    without, canary = random.binomial(200, beyond_a_half, (2, 1000))
    bounds = [mu_lower_bound(decisions(f, 200), decisions(t, 200), 0.8) for f, t in zip(without, canary, strict=True)]
    assert 0.01 < np.mean(np.array(bounds) > 1) <= 0.2


def test_joint_statistic_is_the_formula_of_two_queries():
    x, y, nu_g, nu_q = 1.7, -0.4, 1.01, 1 / math.sqrt(1 - 1.01**-2)
    z = joint_statistic(np.array([[x, y]]), np.array([1 / nu_g, 1 / nu_q]))
    assert z == pytest.approx([x / nu_g + y / nu_q])  # nu = 1


def test_likelihood_ratio_of_fitted_gaussians_approaches_the_true_one():
    random = np.random.default_rng(0)
    without, canary = random.normal(0, 1, (100_000, 1)), random.normal(1, 2, (100_000, 1))
    x = np.array([[-1.0], [0.0], [3.0]])
    true = -0.5 * ((x - 1) ** 2 / 4 - x**2)[:, 0] - math.log(2)
    np.testing.assert_allclose(likelihood_ratio(without, canary)(x), true, atol=0.1)


def test_a_canary_that_moves_nothing_is_refused():
    nothing, worlds = Known(np.zeros(1), np.zeros(1), np.ones(1)), Worlds(np.zeros((9, 1)), np.zeros((9, 1)))
    with pytest.raises(ValueError, match="expected one that moves"):
        audit(nothing, worlds, worlds, 0.99)

"""How private a release is seen to be: a lower bound on mu from draws with and without a canary.

Gaussian DP: a release is mu-GDP if no test tells two neighbouring data sets apart better than N(0, 1) from N(mu, 1),
that is, if TPR <= Phi(Phi^-1(FPR) + mu) for every test. A Gaussian mechanism of noise multiplier nu claims mu = 1/nu.
So each test gives mu >= Phi^-1(TPR) - Phi^-1(FPR), and rates known only from draws give it with confidence
(Clopper-Pearson). A bound above 1/nu refutes the claim; one below it proves nothing, unless it comes close.

The auditor knows what the mechanism claims to release (`Known`), not what could be wrong with it. It runs two tests,
both fixed before it looks at the draws that it judges by:

- the optimal one if the claim holds: the joint statistic, whitened with the claimed noise;
- the optimal one whatever Gaussians the two worlds release: the likelihood ratio of those fitted to draws set aside.
  It finds noise that is too small, correlated (where a contrast of two queries cancels it), of a scale that depends
  on the data, and any shift that is not claimed.

A value that is not finite counts as a sign of the canary in both.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

Numbers = NDArray[np.float64]
Decisions = NDArray[np.bool_]  # "the canary is in", for each draw

# In units of the claimed noise's variance: the fitted Gaussians are not believed to be narrower than this, since
# noise that cancels leaves rounding errors, whose shape is not known.
NARROWEST_VARIANCE = 1e-9


class Worlds(NamedTuple):
    """Draws of all that one step releases, [draws, values], from two data sets that differ by the canary."""

    without: Numbers
    canary: Numbers


class Known(NamedTuple):
    """What the auditor knows of each of the values released, [values]: all of it is public, or claimed."""

    rest: Numbers  # what is released of the other examples, without noise
    canary: Numbers  # what the canary adds to it: as much as the query's bound allows, or nothing
    noise: Numbers  # the standard deviation that is claimed

    @property
    def shifts(self) -> Numbers:
        """s_k: what the canary adds, over the noise. Its length is the claimed mu."""
        return self.canary / self.noise

    @property
    def mu(self) -> float:
        """(sum_k s_k^2)^(1/2), which is 1/nu where the canary moves every query by its bound."""
        return float(np.linalg.norm(self.shifts))

    def whitened(self, released: Numbers) -> Numbers:
        """x_k = (released_k - rest_k) / noise_k: N(0, 1) without the canary and N(s_k, 1) with it, by the claim."""
        return (released - self.rest) / self.noise


def audit(known: Known, aside: Worlds, judged: Worlds, confidence: float) -> float:
    """The largest lower bound on mu that either test gives; with this confidence, mu is at least that.

    The draws `aside` fit the likelihood ratio, which `judged` then tests: no draw does both. Each of the two tests
    may err with half of 1 - confidence (Bonferroni).
    """
    if not known.mu > 0:
        raise ValueError(f"canary: expected one that moves a released value, got shifts {known.shifts}")
    ratio = likelihood_ratio(*map(known.whitened, aside))
    tests: tuple[Callable[[Numbers], Decisions], ...] = (
        lambda x: joint_statistic(x, known.shifts) > known.mu / 2,
        lambda x: ratio(x) > 0,
    )
    without, canary = map(known.whitened, judged)
    with np.errstate(invalid="ignore"):  # inf - inf, in values that `_strange` decides upon
        return max(
            mu_lower_bound(test(without) | _strange(without), test(canary) | _strange(canary), (1 + confidence) / 2)
            for test in tests
        )


def joint_statistic(whitened: Numbers, shifts: Numbers) -> Numbers:
    """z = sum_k s_k x_k / |s|: N(0, 1) without the canary, N(|s|, 1) with it; the optimal statistic for that pair.

    With s_k = +-1/nu_k and sum_k nu_k^-2 = nu^-2 this is z = nu * (x_1/nu_1 + x_2/nu_2 + ...), each x_k with the sign
    with which the canary moves it.
    """
    z: Numbers = whitened @ shifts / np.linalg.norm(shifts)
    return z


def likelihood_ratio(without: Numbers, canary: Numbers) -> Callable[[Numbers], Numbers]:
    """log p(x | canary) - log p(x | without), for Gaussians fitted to draws: positive where the canary is likelier."""
    finite = [draws[~_strange(draws)] for draws in (without, canary)]
    if min(map(len, finite)) <= 2 * without.shape[1]:
        # With hardly a finite draw in one world there is nothing to fit, and nothing left to find either.
        return lambda whitened: np.zeros(len(whitened))
    density_without, density_canary = map(_log_density, finite)
    return lambda whitened: density_canary(whitened) - density_without(whitened)


def _log_density(draws: Numbers) -> Callable[[Numbers], Numbers]:
    """Of the Gaussian fitted to these draws, up to a constant that all Gaussians share."""
    mean = draws.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(draws, rowvar=False).reshape(draws.shape[1], -1))
    variances = variances.clip(min=NARROWEST_VARIANCE)

    def density(values: Numbers) -> Numbers:
        along = (values - mean) @ axes
        found: Numbers = -0.5 * (along**2 / variances + np.log(variances)).sum(axis=1)
        return found

    return density


def _strange(draws: Numbers) -> Decisions:
    return np.logical_not(np.isfinite(draws).all(axis=1))


def mu_lower_bound(without: Decisions, canary: Decisions, confidence: float) -> float:
    """Phi^-1(TPR's lower limit) - Phi^-1(FPR's upper limit), from one test's decisions.

    Each rate's Clopper-Pearson limit fails with probability (1 - confidence) / 2 at most, so both hold, and mu is at
    least this, with this confidence, whatever is released and however few the draws are.
    """
    error = (1 - confidence) / 2
    lowest_true = _lowest_rate(int(canary.sum()), len(canary), error)
    highest_false = 1 - _lowest_rate(len(without) - int(without.sum()), len(without), error)
    return float(norm.ppf(lowest_true) - norm.ppf(highest_false))


def _lowest_rate(successes: int, trials: int, error: float) -> float:
    """The rate at which so many successes or more have the probability `error`."""
    return float(beta.ppf(error, successes, trials - successes + 1)) if successes > 0 else 0.0

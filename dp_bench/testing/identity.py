"""Whole short runs under the real sampler: the likelihood ratio of all that is released must have expectation 1.

Let p_0 and p_1 be the densities of everything that a run releases without and with one example. Whatever they are,
E_0[p_1/p_0] = 1 = E_1[p_0/p_1]. The ratio is computed from what is claimed: at each step, given all released before and
who else was drawn, the canary enters with probability q and then moves each whitened sum by its bound over its noise,

    p_1/p_0 = product over steps of (1 - q + q exp(s . x - |s|^2/2)),   s_k = 1 / ((1 + `rounding`) z_k),

x the released sums without what the others add, over the claimed noise. If noise is smaller, larger or correlated, if
the bound, the divisor or the sampling rate is another one, then some mean is not 1. Lower bounds on epsilon see none of
that in a whole sub-sampled run: what an attacker can tell of a run is far less than its epsilon.

One run is many experiments. The model is linear without bias and its loss too, so that a gradient is its example's
input whatever the parameters are; example j's is K e_j, far above any threshold, and there are twice as many parameters
as examples. So each coordinate has noise of its own and is an experiment: with a canary (E_1) in the first half and
without one (E_0) in the second. Only scalar queries are shared; what the other examples add to them is known.
Updates are the strategy's own: an adaptive threshold moves, and the auditor reads it from the public state.

The test. Runs are independent, so z = (mean - 1) / deviation is compared with the normal quantile, on both sides. The
deviation of E_0's mean is known exactly under the claim: a coordinate's ratio has the second moment
(1 + q^2 (exp(|s|^2) - 1))^steps, and the product of two has (1 + q^2 (exp(|s'|^2) - 1))^steps, s' the scalar queries'
part of s, which they share. E_1's is estimated from the runs: its ratios are bounded, 0 < p_0/p_1 < (1 - q)^-steps. The
mean of E_0 is skewed, by 0.02 at nu = 1, q = 1/5, 4 steps and 1,000 runs (0.1 with FixedQuantile's shared count), which
raises a normal tail at z by a factor of exp(skewness z^3 / 6): less than 10 for errors down to 1e-6.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from scipy.stats import norm
from torch import Tensor

from dp_bench.privacy.query import Query, Released
from dp_bench.strategies import Strategy
from dp_bench.testing.harness import Harness, K, claimed_noise, contribution
from dp_bench.testing.results import Finding
from dp_bench.testing.subjects import Subject

NU, BATCH_SIZE = 1.0, 20
EXAMPLES = 5 * BATCH_SIZE  # q = 1/5
STEPS = 4
ERROR = 2.5e-7  # correct code is refuted 10 times as often at most
LIMIT = float(norm.isf(ERROR / 4))  # two means, two sides


class Identity(NamedTuple):
    """The means of p_1/p_0 without and of p_0/p_1 with a canary; how many deviations each is from 1."""

    absent: float
    present: float
    z_absent: float
    z_present: float

    @property
    def holds(self) -> bool:
        return all(abs(z) <= LIMIT for z in (self.z_absent, self.z_present))  # not if one is NaN


def check(subject: Subject, key: str, *, runs: int) -> Finding:
    """Is the likelihood ratio of whole sub-sampled runs 1 in the mean, on both sides?"""
    found = identity(subject.build(NU, BATCH_SIZE), f"{key}, identity, {subject.name}", runs)
    return Finding(
        "identity",
        subject.name,
        f"{found.absent:.4f} (z {found.z_absent:+.1f}) without, {found.present:.4f} (z {found.z_present:+.1f}) with",
        found.absent,
        f"1 (|z| <= {LIMIT:.1f})",
        found.holds,
    )


class _Run(Harness):
    """A run whose steps also multiply up the likelihood ratio of each coordinate."""

    def restart(self, name: str) -> None:
        super().restart(name)
        self.ratios = torch.ones(2 * EXAMPLES, dtype=torch.float64)

    def _draw(self) -> Tensor:
        members = super()._draw()
        self._drawn = torch.zeros(2 * EXAMPLES, dtype=torch.float64)
        self._drawn[members] = 1
        return members

    def _update(self, state: Any, params: Tensor, released: Released) -> tuple[Tensor, Any]:
        batch_size = self.wrapped.batch_size
        q = batch_size / EXAMPLES
        queries = self.wrapped.queries(state)
        noise, shifts = claimed_noise(queries, self.wrapped.noise_multiplier), self.shifts(queries)
        exponent = torch.zeros(2 * EXAMPLES, dtype=torch.float64)
        for query in queries:
            shift = shifts[query.name]
            # Less what the other examples add to it; in a vector, a coordinate has one example or none.
            whitened = released[query.name].double() * batch_size / noise[query.name]
            if query.kind == "scalar":
                whitened = whitened - (self._drawn.sum() - self._drawn) * shift
            exponent += shift * whitened - shift**2 / 2
        self.ratios *= 1 - q + q * exponent.exp()
        return self.wrapped.update(state, params, released)

    def shifts(self, queries: Sequence[Query]) -> dict[str, float]:
        """What a canary adds to each sum, over the claimed noise."""
        noise = claimed_noise(queries, self.wrapped.noise_multiplier)
        return {query.name: contribution(query) / noise[query.name] for query in queries}


def identity(strategy: Strategy[Any], name: str, runs: int, steps: int = STEPS) -> Identity:
    """The two means over `runs` runs of `steps` steps; `name` keys batches and noise."""
    run = _Run(strategy, K * torch.eye(EXAMPLES, 2 * EXAMPLES), name)
    means = torch.empty(2, runs, dtype=torch.float64)
    for i in range(runs):
        run.restart(f"{name}, run {i}")
        for _ in range(steps):
            run.advance()
        means[0, i], means[1, i] = run.ratios[EXAMPLES:].mean(), (1 / run.ratios[:EXAMPLES]).mean()
    absent, present = means.mean(1).tolist()
    estimated = float(means[1].std()) / math.sqrt(runs)
    return Identity(absent, present, (absent - 1) / deviation(run, runs, steps), (present - 1) / estimated)


def deviation(run: _Run, runs: int, steps: int) -> float:
    """Of the mean of p_1/p_0 over the coordinates without an example and over the runs, if the claim holds."""
    squares = {"vector": 0.0, "scalar": 0.0}
    queries = run.wrapped.queries(run.wrapped.init(run.model.params))
    for query, shift in zip(queries, run.shifts(queries).values(), strict=True):
        squares[query.kind] += shift**2
    q = run.wrapped.batch_size / EXAMPLES
    alone, shared = (
        (1 + q**2 * math.expm1(square)) ** steps - 1 for square in (sum(squares.values()), squares["scalar"])
    )
    return math.sqrt((alone + (EXAMPLES - 1) * shared) / (EXAMPLES * runs))

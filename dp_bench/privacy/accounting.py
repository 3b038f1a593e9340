"""What training spends: epsilon of (noise multiplier, sampling, steps, delta) under five accountants.

The guarantee, stated once for the whole project. Every step draws a Poisson sample of the training set: each example
enters independently with probability q = B/N. The step then releases sums over that sample, to which one example
contributes a bounded amount, with Gaussian noise of `noise_multiplier` times that bound (several sums jointly:
`dp_bench.privacy.query.influence`), and divides them by the nominal B, never by the size that was drawn. An empty
sample still releases noise and still counts. The sequence of releases, and all that is computed from it, is
(epsilon, delta)-differentially private for neighbours that differ by adding or removing one training example.
N and the test set are public.

`rdp`, `pld` and `prv` are upper bounds on epsilon for exactly that mechanism. `rdp_wor` is for another one: batches of
fixed size drawn without replacement, neighbours that replace one example. It is here to compare with the paper, which
probably used it. As dp_accounting codes it the sensitivity is not doubled for replacement, so its epsilon is not a
proven guarantee and must never be called private. `rdp_wor_10` is the same with the orders 2 to 10 only, a hypothesis
about the paper's code (docs/fidelity.md): at small epsilons it finds about twice the noise multiplier.

Code asks an accountant for its properties (`Accountant`), never for its name.

Every epsilon here is of the noise that is drawn, whose tail ends at `NOISE_TAIL` standard deviations, not of an ideal
Gaussian: what the end of the tail gives away is taken off delta first (`uncovered`).
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import NamedTuple

from dp_bench.privacy.accountants import (
    RDP_ORDERS,
    Sampling,
    accountant_of,
    quiet_libraries,
    rdp_poisson_at,
)
from dp_bench.privacy.conversion import smallest_epsilon
from dp_bench.privacy.noise_tail import ideal_delta, uncovered
from dp_bench.privacy.selection import Trials, selection_rdp, with_tail

_MANY_DIGITS = Context(prec=400)  # a float's exact value, whatever its size


def epsilon(accountant: str, noise_multiplier: float, sampling: Sampling, steps: int, delta: float) -> float:
    """Epsilon spent, at `delta`, by `steps` compositions of the sampled Gaussian mechanism; infinite without noise.

    >>> from dp_bench import Sampling, epsilon
    >>> round(epsilon("rdp", noise_multiplier=1.2, sampling=Sampling(512, 60_000), steps=1172, delta=1e-5), 2)
    1.32
    """
    return epsilon_curve(accountant, noise_multiplier, sampling, [steps], delta)[0]


def epsilon_curve(
    accountant: str, noise_multiplier: float, sampling: Sampling, steps: Sequence[int], delta: float
) -> list[float]:
    """Epsilon spent after each of the ascending numbers of `steps`; the last one is what `epsilon` says of it.

    What one step costs is computed once and composed for each point: for `rdp` that is a multiplication, so a point is
    free; for `pld` and `prv` it is a convolution, up to half a second per point. These two carry numerical error, so
    each point is lowered to the smallest of those after it (fewer steps never cost more): the curve is monotone,
    and every value remains an upper bound.
    """
    ideal_epsilon = accountant_of(accountant).count
    if not noise_multiplier >= 0:
        raise ValueError(f"noise_multiplier: expected a number of at least 0, got {noise_multiplier}")
    if not 0 < delta < 1:
        raise ValueError(f"delta: expected a number between 0 and 1, got {delta}")
    if any(count < 0 for count in steps) or list(steps) != sorted(steps):
        raise ValueError(f"steps: expected ascending numbers of at least 0, got {list(steps)}")
    if noise_multiplier in (0, math.inf):  # everything is released, or nothing
        return [0.0 if count == 0 or noise_multiplier > 0 else math.inf for count in steps]
    left = [ideal_delta(delta, uncovered(noise_multiplier, count), count) for count in steps]
    covered = {count: ideal for count, ideal in zip(steps, left, strict=True) if count > 0 and ideal > 0}
    with quiet_libraries():
        found = {count: ideal_epsilon(noise_multiplier, sampling, count, ideal) for count, ideal in covered.items()}
    spent = [0.0 if count == 0 else found.get(count, math.inf) for count in steps]
    return list(itertools.accumulate(reversed(spent), min))[::-1]


class Part(NamedTuple):
    """A number of steps, all alike: one of the searches that `composed_epsilon` adds up, so many times."""

    noise_multiplier: float
    sampling: Sampling
    steps: float
    times: float = 1
    trials: Trials | None = None  # only the best of so many runs of these steps is released


def composed_epsilon(parts: Sequence[Part], delta: float) -> float:
    """Epsilon of all parts on one data set, released together: their RDP is added up order by order, then converted."""
    if not parts:
        return 0.0
    if any(part.noise_multiplier == 0 for part in parts):
        return math.inf
    plain = [part for part in parts if part.trials is None]
    lost = math.fsum(uncovered(part.noise_multiplier, part.times * part.steps) for part in plain)
    ideal = ideal_delta(delta, lost, math.fsum(part.times * part.steps for part in plain))
    if ideal <= 0:
        return math.inf
    left = math.fsum(p.times * (p.trials.mean * uncovered(p.noise_multiplier, p.steps)) for p in parts if p.trials)
    with quiet_libraries():
        return with_tail(_together(parts), ideal, left)


def _together(parts: Sequence[Part]) -> Callable[[float], float]:
    """Epsilon by delta, of ideal mechanisms."""
    curves = [(part.times, _rdp_of(part)) for part in parts]

    def rdp(order: float) -> float:
        return math.fsum(times * curve(order) for times, curve in curves)

    if any(part.trials for part in parts):  # whose RDP need not be what `smallest_epsilon` counts on
        from dp_accounting.rdp import compute_epsilon

        spent = [rdp(order) for order in RDP_ORDERS]
        return lambda delta: float(compute_epsilon(RDP_ORDERS, spent, delta)[0])
    return functools.partial(smallest_epsilon, rdp, RDP_ORDERS, 1)


def _rdp_of(part: Part) -> Callable[[float], float]:
    """By order."""
    if part.trials is not None:
        return selection_rdp(part.noise_multiplier, part.sampling, int(part.steps), part.trials).__getitem__
    one_step = rdp_poisson_at(part.noise_multiplier, part.sampling)
    return lambda order: part.steps * one_step(order)


def rounded_up(epsilon: float, digits: int = 3) -> str:
    """A spent epsilon as it is printed: never less than it is, and by less than one unit of the last digit more.

    >>> rounded_up(2.9999), rounded_up(3.0), rounded_up(3.0000001), rounded_up(math.inf)
    ('3.000', '3.000', '3.001', 'inf')
    """
    if not math.isfinite(epsilon):
        return str(epsilon)
    return str(Decimal(epsilon).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING, context=_MANY_DIGITS))


def exact(value: float) -> str:
    """A budget, its epsilon or delta, as it is printed: with all its digits, as it could pass for another without.

    >>> exact(3.0), exact(2.9999999), exact(1e-5)
    ('3', '2.9999999', '1e-05')
    """
    return repr(float(value)).removesuffix(".0")

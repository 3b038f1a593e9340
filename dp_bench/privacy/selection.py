"""What a secret number of trials costs, of which only the best is released (Papernot and Steinke, 2022).

The mechanism. Draw K from one of `DISTRIBUTIONS`; train K runs, each of a candidate drawn uniformly and with
replacement, each with fresh randomness; release the one that is best on the public test set, and nothing else: neither
K nor any other run. Theorems 2 (geometric and logarithmic) and 6 (Poisson) bound the Renyi divergence of the release by
that of one run and by E[K]; dp_accounting implements both as `RepeatAndSelectDpEvent`. With the Poisson distribution K
may be 0: then nothing is released.

The tail. Noise that is drawn ends at `NOISE_TAIL` standard deviations. Let C be the transcripts of a run that both of
two neighbours can reach: either leaves C with probability at most p = `uncovered`. Given C, a run has the ideal density
restricted to C and normalised: with an ideal probability of at least 1 - s of C, its divergence of order a exceeds the
ideal one by at most a / (a - 1) ln(1 / (1 - s)), which is added to each run (at most 11 ln(1 / (1 - s)), as no order is
below 1.1). All K runs lie in C but for a probability of E[K] p, so delta grows by (1 + e^epsilon) E[K] p.
"""

import functools
import itertools
import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal

from dp_bench.errors import invalid, unknown
from dp_bench.privacy.accountants import RDP_ORDERS, RDP_ROUNDING, Sampling
from dp_bench.privacy.noise_tail import ideal_delta, uncovered

GEOMETRIC, LOGARITHMIC, POISSON_NUMBER = "geometric", "logarithmic", "poisson"
DISTRIBUTIONS = (LOGARITHMIC, GEOMETRIC, POISSON_NUMBER)
_SHAPES = {LOGARITHMIC: 0.0, GEOMETRIC: 1.0, POISSON_NUMBER: math.inf}  # as dp_accounting calls them
MOST_TRIALS = 1e6
_BITS = 128  # of randomness for one K
_DIGITS = Context(prec=60)  # of its probabilities: what they round off is below the last of these bits


@dataclass(frozen=True)
class Trials:
    """The distribution of K, the number of candidates tried."""

    distribution: str
    mean: float

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise unknown("privacy.selection.distribution", self.distribution, DISTRIBUTIONS)
        if not 1 < self.mean <= MOST_TRIALS:
            expected = f"the expected number of trials, above 1 and at most {MOST_TRIALS:g}"
            raise invalid("privacy.selection.mean", expected, self.mean, "set it, for example, to the candidates")

    @property
    def shape(self) -> float:
        return _SHAPES[self.distribution]

    @property
    def stopping(self) -> float:
        """gamma in (0, 1): P[K = k] is proportional to (1 - gamma)^k, for the logarithmic one divided by k."""
        if self.distribution == GEOMETRIC:
            return 1 / self.mean
        low, high = 0.0, 50.0  # x = ln(1/gamma), of which the mean, (e^x - 1) / x, increases
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if math.expm1(middle) < self.mean * middle else (low, middle)
        return math.exp(-high)

    def generating(self, x: float) -> float:
        """E[x^K] for x in [0, 1]."""
        if self.distribution == POISSON_NUMBER:
            return math.exp(self.mean * (x - 1))
        gamma = self.stopping
        if self.distribution == GEOMETRIC:
            return gamma * x / (1 - (1 - gamma) * x)
        return math.log1p(-(1 - gamma) * x) / math.log(gamma)

    def probabilities(self) -> Iterator[tuple[int, Decimal]]:
        """Each k with P[K = k], ascending, from the smallest k that is possible."""
        if self.distribution == POISSON_NUMBER:
            first, ratio = 0, Decimal(self.mean)
            probability = _DIGITS.exp(_DIGITS.minus(ratio))
        else:
            gamma = Decimal(self.stopping)
            first, ratio = 1, _DIGITS.subtract(Decimal(1), gamma)
            geometric = self.distribution == GEOMETRIC
            probability = gamma if geometric else _DIGITS.divide(ratio, _DIGITS.minus(_DIGITS.ln(gamma)))
        for k in itertools.count(first):
            yield k, probability
            probability = _DIGITS.multiply(probability, ratio)
            if self.distribution == POISSON_NUMBER:
                probability = _DIGITS.divide(probability, Decimal(k + 1))
            elif self.distribution == LOGARITHMIC:
                probability = _DIGITS.divide(_DIGITS.multiply(probability, Decimal(k)), Decimal(k + 1))

    def draw(self) -> int:
        """A secret K, from the operating system's randomness.

        By inversion, with 128 random bits: no K is more or less likely than `probabilities` say by more than 2^-127.
        These, in turn, have the mean that is charged up to the last bits of a float.
        """
        left = Decimal(secrets.randbits(_BITS))
        for k, probability in self.probabilities():
            left = _DIGITS.subtract(left, _DIGITS.multiply(probability, Decimal(2**_BITS)))
            if left < 0 or (k > self.mean and probability * 2 ** (2 * _BITS) < 1):
                return k
        raise AssertionError("unreachable: probabilities do not end")

    def chance_of(self, candidates: int) -> float:
        """The probability that one given candidate of so many is tried at least once.

        >>> round(Trials("geometric", 5).chance_of(5), 2), round(Trials("poisson", 25).chance_of(25), 2)
        (0.56, 0.63)
        """
        return 1 - self.generating(1 - 1 / candidates)


def with_tail(ideal_epsilon: Callable[[float], float], delta: float, left: float) -> float:
    """Epsilon at what remains of delta once (1 + e^epsilon) times `left`, which is E[K] p, is taken off."""
    if left == 0:
        return ideal_epsilon(delta)
    # A first epsilon at half of delta bounds what the tail takes; at what is then left, epsilon is smaller.
    taken = (1 + math.exp(min(ideal_epsilon(delta / 2), 700.0))) * left
    return ideal_epsilon(delta - taken) if taken <= delta / 2 else math.inf


@functools.lru_cache(maxsize=1024)
def selection_rdp(noise_multiplier: float, sampling: Sampling, steps: int, trials: Trials) -> dict[float, float]:
    """Order -> RDP of releasing the best trial, given that every trial lies in C."""
    import dp_accounting as dpa

    off = 1 - ideal_delta(1.0, 0.0, steps) + uncovered(noise_multiplier, steps)  # s
    excess = math.log(1 / max(1 - off, 1e-300)) * RDP_ORDERS[0] / (RDP_ORDERS[0] - 1) + steps * RDP_ROUNDING
    step = dpa.PoissonSampledDpEvent(sampling.rate, dpa.GaussianDpEvent(noise_multiplier))
    run = dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(step, steps), dpa.dp_event.ZCDpEvent(rho=0.0, xi=excess)])
    accountant = dpa.rdp.RdpAccountant(RDP_ORDERS, dpa.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dpa.dp_event.RepeatAndSelectDpEvent(run, trials.mean, trials.shape))
    return dict(zip(RDP_ORDERS, accountant.rdp.tolist(), strict=True))

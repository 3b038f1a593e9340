"""The accountants: functions that count epsilon for one kind of sampling, each with what it may be used for.

Every function here is of an ideal Gaussian mechanism; `dp_bench.privacy.accounting` says what is guaranteed, and takes
the end of the noise's tail into account.
"""

import contextlib
import functools
import itertools
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dp_bench.errors import invalid, unknown
from dp_bench.privacy.conversion import smallest_epsilon

RDP = "rdp"  # the default: the quickest, of which every bound here is made
POISSON, FIXED_SIZE = "poisson", "fixed_size"  # how batches are drawn: train.sampling
SAMPLINGS = (POISSON, FIXED_SIZE)

# dp_accounting's default orders with their gap between 63 and 1024 filled. Any set of orders is valid, a finer one is
# tighter: over the paper's grids the default would overstate the epsilon of one run by up to 8 %, and that of the first
# 50 steps by up to 70 %; this set by 0.1 % and 7 %. (A whole grid's epsilon is within 0.1 % with either.)
RDP_ORDERS = (
    *(1 + tenths / 10 for tenths in range(1, 100)),
    *(float(order) for order in range(11, 64)),
    *(float(round(64 * 2 ** (eighths / 8))) for eighths in range(17)),
    *(362.0, 512.0, 1024.0),
)

# dp_accounting computes an RDP value as the logarithm of a number near 1, so it is known to about 1e-15, absolutely.
# Raised to this, a value that rounding took to 0 or below cannot pass for privacy that costs nothing.
RDP_ROUNDING = 1e-14

# Spacing of the privacy losses, pessimistic between them. A tenth of it would lower no epsilon of the paper by 0.2 %.
PLD_INTERVAL = 1e-4

# Opacus' bound lies this much above its estimate. A smaller error costs time and memory in proportion.
PRV_EPSILON_ERROR = 0.01

# What the slow accountants are asked for at most. At these limits one epsilon takes up to half a minute and 3 GB;
# beyond them, minutes to hours and all of the memory. The paper's largest grid with all seeds is half as many steps.
MOST_COMPOSITIONS = 2_000_000
MOST_EPSILON = 1_000.0
_MOST_PRV_POINTS = 10_000_000


@dataclass(frozen=True)
class Sampling:
    """How a batch is drawn: `batch_size` examples out of `dataset_size`, on average (fixed size: exactly)."""

    batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.dataset_size:
            expected = f"1 to the data set's {self.dataset_size} examples"
            raise invalid("train.batch_size", expected, self.batch_size, "choose another")

    @property
    def rate(self) -> float:
        """q = B/N"""
        return self.batch_size / self.dataset_size


# (noise multiplier, sampling, steps, delta) -> epsilon of an ideal Gaussian mechanism
Count = Callable[[float, Sampling, float, float], float]


@dataclass(frozen=True)
class Accountant:
    """One way to count epsilon, and what it may be used for."""

    name: str
    sampling: str  # POISSON or FIXED_SIZE: the batches that it is about; it says nothing about others
    proven: bool  # whether its epsilon is a guarantee for such batches; if not, it must never be called private
    count: Count
    quick: bool = False  # milliseconds: computed anew each time, never read from disk
    library: str = "dp-accounting"  # whose version its numbers depend on
    counts_selection: bool = False  # whether it also counts the best of a secret number of runs
    light: bool = True  # without torch


def accountant_of(name: str) -> Accountant:
    """The accountant of that name; any other name is refused."""
    if name not in ACCOUNTANTS:
        raise unknown("privacy.accountant", name, ACCOUNTANTS)
    return ACCOUNTANTS[name]


def proven(name: str) -> bool:
    """Whether an epsilon counted by the accountant of that name is a guarantee. False for names that are not known."""
    return name in ACCOUNTANTS and ACCOUNTANTS[name].proven


# dp_accounting takes 1.5 s to import, and Opacus brings torch: from here on, both are imported where they are used.


# A report asks for every grid hundreds of times: each table says what epsilon means.
@functools.lru_cache(maxsize=2**14)
def _rdp(noise_multiplier: float, sampling: Sampling, steps: float, delta: float) -> float:
    return smallest_epsilon(rdp_poisson_at(noise_multiplier, sampling), RDP_ORDERS, steps, delta)


def _rdp_wor(noise_multiplier: float, sampling: Sampling, steps: float, delta: float) -> float:
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS  # as in the paper

    return _without_replacement(DEFAULT_RDP_ORDERS, noise_multiplier, sampling, steps, delta)


def _without_replacement(
    orders: Sequence[float], noise_multiplier: float, sampling: Sampling, steps: float, delta: float
) -> float:
    """The smallest epsilon over the ascending `orders`, without those that are too large to give it.

    RDP increases with the order, and an order costs its square: the search ends where what the last order's RDP alone
    would give at any later order is no less than the best so far.
    """
    from dp_accounting.rdp import compute_epsilon

    one_step = _rdp_without_replacement(noise_multiplier, sampling)
    conversions = [math.log1p(-1 / order) - math.log(delta * order) / (order - 1) for order in orders]
    least_later = list(itertools.accumulate(reversed(conversions), min))[::-1]
    best, spent = math.inf, -math.inf
    for order, conversion in zip(orders, least_later, strict=True):
        if spent + conversion >= best:
            break
        spent = steps * one_step(order)
        best = min(best, float(compute_epsilon([order], [spent], delta)[0]))
    return best


@functools.lru_cache(maxsize=1024)
def rdp_poisson_at(noise_multiplier: float, sampling: Sampling) -> Callable[[float], float]:
    """RDP of one step by order, each computed once."""
    import dp_accounting as dpa

    step = dpa.PoissonSampledDpEvent(sampling.rate, dpa.GaussianDpEvent(noise_multiplier))
    return functools.cache(functools.partial(_rdp_at, step, dpa.NeighboringRelation.ADD_OR_REMOVE_ONE))


@functools.lru_cache(maxsize=32)
def _rdp_without_replacement(noise_multiplier: float, sampling: Sampling) -> Callable[[float], float]:
    """RDP of one step by order, each computed once."""
    import dp_accounting as dpa

    step = dpa.SampledWithoutReplacementDpEvent(
        sampling.dataset_size, sampling.batch_size, dpa.GaussianDpEvent(noise_multiplier)
    )
    return functools.cache(functools.partial(_rdp_at, step, dpa.NeighboringRelation.REPLACE_ONE))


def _rdp_at(step: Any, neighbors: Any, order: float) -> float:
    from dp_accounting.rdp import RdpAccountant

    # A plain float: the library's conversion to epsilon is a Python loop, twice as slow on NumPy's scalars.
    return float(RdpAccountant([order], neighbors).compose(step).rdp.clip(min=RDP_ROUNDING)[0])


def _within_limits(count: Count) -> Count:
    """Refuse, before the work, what would take too long or too much memory."""
    name = count.__name__.lstrip("_")

    @functools.wraps(count)
    def limited(noise_multiplier: float, sampling: Sampling, steps: float, delta: float) -> float:
        if steps > MOST_COMPOSITIONS:
            expected = f"at most {MOST_COMPOSITIONS:,} compositions with {name}, which takes minutes for more"
            raise invalid("privacy.accountant", expected, f"{steps:,}", "use rdp")
        if (epsilon := _rdp(noise_multiplier, sampling, steps, delta)) > MOST_EPSILON:
            expected = f"an epsilon of at most {MOST_EPSILON:g} with {name}, which takes gigabytes for more"
            raise invalid("privacy.accountant", expected, f"about {epsilon:.3g}", "use rdp")
        return count(noise_multiplier, sampling, steps, delta)

    return limited


@_within_limits
def _pld(noise_multiplier: float, sampling: Sampling, steps: float, delta: float) -> float:
    return float(_one_step(noise_multiplier, sampling).self_compose(int(steps)).get_epsilon_for_delta(delta))


@functools.lru_cache(maxsize=2)  # of a curve's many points the same
def _one_step(noise_multiplier: float, sampling: Sampling) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=sampling.rate, value_discretization_interval=PLD_INTERVAL
    )


@_within_limits
def _prv(noise_multiplier: float, sampling: Sampling, steps: float, delta: float) -> float:
    if (points := _prv_points(noise_multiplier, sampling, steps, delta)) > _MOST_PRV_POINTS:
        got = f"prv with {points:.1e} for {int(steps):,} steps at noise multiplier {noise_multiplier:g}"
        raise invalid("privacy.accountant", f"at most {_MOST_PRV_POINTS:,} points to sum over", got, "use rdp")
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(noise_multiplier, sampling.rate, steps)]
    try:
        upper_bound = accountant.get_epsilon(delta, eps_error=PRV_EPSILON_ERROR)
    except (RuntimeError, ValueError) as error:
        expected = f"steps that PRV can count ({error})"
        got = f"{steps} at noise multiplier {noise_multiplier:g} and delta {delta:g}"
        raise invalid("privacy.accountant", expected, got, "use rdp or pld") from error
    return max(0.0, float(upper_bound))


def _prv_points(noise_multiplier: float, sampling: Sampling, steps: float, delta: float) -> float:
    """About how many points Opacus would sum over: twice the largest loss that matters, by their distance."""
    error = delta / 1000
    largest = 3 + max(
        _rdp(noise_multiplier, sampling, steps, error / 4), _rdp(noise_multiplier, sampling, 1, error / (8 * steps))
    )
    return 2 * largest * math.sqrt(steps * math.log(12 / error) / 2) / PRV_EPSILON_ERROR


ACCOUNTANTS = {
    accountant.name: accountant
    for accountant in (
        Accountant(RDP, POISSON, True, _rdp, quick=True, counts_selection=True),
        Accountant("pld", POISSON, True, _pld),
        Accountant("prv", POISSON, True, _prv, library="opacus", light=False),
        Accountant("rdp_wor", FIXED_SIZE, False, _rdp_wor),
        Accountant("rdp_wor_10", FIXED_SIZE, False, functools.partial(_without_replacement, range(2, 11))),
    )
}


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Both libraries warn of RDP orders that they leave out or find too few: that costs tightness, not validity."""
    absl = logging.getLogger("absl")
    level = absl.level
    absl.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        absl.setLevel(level)

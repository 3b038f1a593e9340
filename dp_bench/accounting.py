"""What training spends: epsilon of (noise multiplier, sampling, steps, delta) under four accountants.

The guarantee, stated once for the whole project. Every step draws a Poisson sample of the training set: each example
enters independently with probability q = B/N. The step then releases sums over that sample, to which one example
contributes a bounded amount, with Gaussian noise of `noise_multiplier` times that bound (several sums are released
jointly: `compose_multipliers`), and divides them by the nominal B, never by the size that was drawn. An empty sample
still releases noise and still counts. The sequence of releases, and all that is computed from it, is
(epsilon, delta)-differentially private for neighbours that differ by adding or removing one training example.
N and the test set are public.

`rdp`, `pld` and `prv` are upper bounds on epsilon for exactly that mechanism. `rdp_wor` is another one: batches of
fixed size drawn without replacement, neighbours that replace one example. It is here to compare with the paper, which
probably used it. As dp_accounting codes it the sensitivity is not doubled for replacement, so its epsilon is no proven
guarantee and must never be called private.
"""

import contextlib
import functools
import itertools
import logging
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dp_bench.errors import UserError

PRIVATE_ACCOUNTANTS = ("rdp", "pld", "prv")
ACCOUNTANTS = (*PRIVATE_ACCOUNTANTS, "rdp_wor")

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


@dataclass(frozen=True)
class Sampling:
    """How a batch is drawn: `batch_size` examples out of `dataset_size`, on average (`rdp_wor`: exactly)."""

    batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.dataset_size:
            raise UserError(
                f"batch_size must be at least 1 and at most the data set's {self.dataset_size} examples. "
                f"Found {self.batch_size}. Choose another batch size."
            )

    @property
    def rate(self) -> float:
        """q = B/N"""
        return self.batch_size / self.dataset_size


def check_accountant(name: str) -> None:
    """Refuse a name that is not one of `ACCOUNTANTS`."""
    if name not in ACCOUNTANTS:
        raise UserError(f"Unknown accountant. Found {name!r}. Choose one of {', '.join(ACCOUNTANTS)}.")


def epsilon(accountant: str, noise_multiplier: float, sampling: Sampling, steps: int, delta: float) -> float:
    """Epsilon spent, at `delta`, by `steps` compositions of the sampled Gaussian mechanism; infinite without noise."""
    return epsilon_curve(accountant, noise_multiplier, sampling, [steps], delta)[0]


def epsilon_curve(
    accountant: str, noise_multiplier: float, sampling: Sampling, steps: Sequence[int], delta: float
) -> list[float]:
    """Epsilon spent after each of the ascending numbers of `steps`; the last one is what `epsilon` says of it.

    What one step costs is computed once and composed for each point: for `rdp` that is a multiplication, so a point is
    free; for `pld` and `prv` it is a convolution, up to half a second a point. These two carry numerical error, so each
    point is lowered to the smallest of those after it (fewer steps never cost more): the curve is monotone, and every
    value remains an upper bound.
    """
    check_accountant(accountant)
    if not noise_multiplier >= 0:
        raise ValueError(f"noise_multiplier must be at least 0. Found {noise_multiplier}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1. Found {delta}.")
    if any(count < 0 for count in steps) or list(steps) != sorted(steps):
        raise ValueError(f"steps must be ascending and at least 0. Found {list(steps)}.")
    if noise_multiplier in (0, math.inf):  # everything is released, or nothing
        return [0.0 if count == 0 or noise_multiplier > 0 else math.inf for count in steps]
    with _quiet_libraries():
        spent_after = _SPENT_AFTER[accountant](noise_multiplier, sampling, delta)
        spent = [spent_after(count) if count > 0 else 0.0 for count in steps]
    return list(itertools.accumulate(reversed(spent), min))[::-1]


def compose_multipliers(noise_multipliers: Iterable[float]) -> float:
    """z = (sum_k z_k^-2)^(-1/2): the one Gaussian release that costs what the joint release of all costs.

    A query without noise (0) makes the whole noiseless; one that releases nothing (inf) costs nothing.
    """
    multipliers = list(noise_multipliers)
    if not all(z >= 0 for z in multipliers):
        raise ValueError(f"Noise multipliers must be at least 0. Found {multipliers}.")
    smallest = min(multipliers, default=math.inf)
    if smallest in (0, math.inf):
        return smallest
    return smallest / math.sqrt(math.fsum((smallest / z) ** 2 for z in multipliers))  # scaled: z^-2 may overflow


# dp_accounting takes 1.5 s to import, and Opacus brings torch: from here on, both are imported where they are used.


def _rdp(noise_multiplier: float, sampling: Sampling, delta: float) -> Callable[[int], float]:
    return _rdp_spent_after(_rdp_poisson(noise_multiplier, sampling), delta)


def _rdp_wor(noise_multiplier: float, sampling: Sampling, delta: float) -> Callable[[int], float]:
    return _rdp_spent_after(_rdp_without_replacement(noise_multiplier, sampling), delta)


def _rdp_spent_after(one_step: dict[float, float], delta: float) -> Callable[[int], float]:
    from dp_accounting.rdp import compute_epsilon

    orders = list(one_step)
    return lambda steps: float(compute_epsilon(orders, [steps * rdp for rdp in one_step.values()], delta)[0])


@functools.lru_cache(maxsize=32)  # the run, the grid and the grid with its seeds are asked for one after the other
def _rdp_poisson(noise_multiplier: float, sampling: Sampling) -> dict[float, float]:
    """Order -> RDP of one step."""
    import dp_accounting as dpa

    accountant = dpa.rdp.RdpAccountant(RDP_ORDERS, dpa.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dpa.PoissonSampledDpEvent(sampling.rate, dpa.GaussianDpEvent(noise_multiplier)))
    return _values_by_order(accountant)


@functools.lru_cache(maxsize=32)
def _rdp_without_replacement(noise_multiplier: float, sampling: Sampling) -> dict[float, float]:
    """Order -> RDP of one step. At the default orders, as in the paper; these values cost the order squared."""
    import dp_accounting as dpa

    accountant = dpa.rdp.RdpAccountant(neighboring_relation=dpa.NeighboringRelation.REPLACE_ONE)
    accountant.compose(
        dpa.SampledWithoutReplacementDpEvent(
            sampling.dataset_size, sampling.batch_size, dpa.GaussianDpEvent(noise_multiplier)
        )
    )
    return _values_by_order(accountant)


def _values_by_order(accountant: Any) -> dict[float, float]:
    # Plain floats: the library's conversion to epsilon is a Python loop, twice as slow on NumPy's scalars.
    return dict(zip(accountant.orders.tolist(), accountant.rdp.clip(min=RDP_ROUNDING).tolist(), strict=True))


def _pld(noise_multiplier: float, sampling: Sampling, delta: float) -> Callable[[int], float]:
    from dp_accounting.pld import privacy_loss_distribution

    one_step = privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=sampling.rate, value_discretization_interval=PLD_INTERVAL
    )
    return lambda steps: float(one_step.self_compose(steps).get_epsilon_for_delta(delta))


def _prv(noise_multiplier: float, sampling: Sampling, delta: float) -> Callable[[int], float]:
    from opacus.accountants import PRVAccountant

    def spent_after(steps: int) -> float:
        accountant = PRVAccountant()
        accountant.history = [(noise_multiplier, sampling.rate, steps)]
        try:
            upper_bound = accountant.get_epsilon(delta, eps_error=PRV_EPSILON_ERROR)
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"PRV cannot account for {steps} steps at noise multiplier {noise_multiplier:g} and delta {delta:g} "
                f"({error}) Use privacy.accountant=rdp or pld."
            ) from error
        return max(0.0, float(upper_bound))

    return spent_after


_SPENT_AFTER = {"rdp": _rdp, "pld": _pld, "prv": _prv, "rdp_wor": _rdp_wor}


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
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

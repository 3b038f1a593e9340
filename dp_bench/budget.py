"""One privacy budget for a whole grid, turned into the one noise multiplier that all of its runs use.

The budget (epsilon, delta) is per grid: trying n configurations of T steps each is n*T compositions, whichever of them
is kept in the end. The runs with other seeds of a configuration are not charged, as in the paper; `seeds_charged` says
what they would add. Everything here is a pure function of its arguments, so a single run, computed alone anywhere,
finds the noise multiplier of its grid.
"""

import dataclasses
import functools
import importlib.metadata
import math
from collections.abc import Callable
from typing import NamedTuple

from dp_bench.accounting import PRIVATE_ACCOUNTANTS, Sampling, check_accountant, epsilon
from dp_bench.errors import UserError
from dp_bench.memo import remembered

# Part of every cache key: raise it when a change to this file or to accounting.py changes any number.
CALIBRATION_FORMAT = 1

# A noise multiplier is the smallest decimal of this many significant digits that keeps to the budget: a definition that
# does not depend on the path of the search, so that machines whose last bits differ still agree on it. It leaves less
# than 0.01 % of epsilon unspent.
MULTIPLIER_DIGITS = 6


@dataclasses.dataclass(frozen=True)
class Budget:
    """What the whole grid may spend, and who counts."""

    epsilon: float
    delta: float
    accountant: str

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise UserError(f"epsilon must be positive. Found {self.epsilon}. Set privacy.epsilon, say to 3.")
        if not 0 < self.delta < 1:
            raise UserError(f"delta must lie between 0 and 1. Found {self.delta}. Set privacy.delta, say to 1e-5.")
        check_accountant(self.accountant)


@dataclasses.dataclass(frozen=True)
class Allocation:
    """A budget, what it has to pay for, and the noise that makes it do."""

    budget: Budget
    sampling: Sampling
    candidates: int
    """n: configurations that the grid tries"""
    steps: int
    """T: steps of one run"""
    noise_multiplier: float
    """nu: of one step, over all of its queries jointly"""
    epsilon_grid: float
    """Spent by n*T steps; never above the budget"""
    epsilon_run: float
    """Spent by the T steps of one run"""


class Spent(NamedTuple):
    """Epsilon of a whole grid and of one of its runs."""

    grid: float
    run: float


def allocate(budget: Budget, sampling: Sampling, candidates: int, steps: int) -> Allocation:
    """The smallest noise multiplier for which `candidates` runs of `steps` steps keep to the budget. Cached on disk."""
    if candidates < 1:
        raise UserError(f"A grid needs at least 1 configuration. Found {candidates}. Widen the grid.")
    if steps < 1:
        raise UserError(f"A run needs at least 1 step. Found {steps}. Raise the epochs or lower the batch size.")

    def calibrate() -> dict[str, float]:
        noise_multiplier = _smallest_multiplier(budget, sampling, candidates * steps)
        spent = functools.partial(epsilon, budget.accountant, noise_multiplier, sampling, delta=budget.delta)
        return {
            "noise_multiplier": noise_multiplier,
            "epsilon_grid": spent(steps=candidates * steps),
            "epsilon_run": spent(steps=steps),
        }

    key = {
        **_calculation(budget.accountant),
        "epsilon": float(budget.epsilon),
        "delta": float(budget.delta),
        **dataclasses.asdict(sampling),
        "candidates": candidates,
        "steps": steps,
    }
    return Allocation(budget, sampling, candidates, steps, **remembered("calibration", key, calibrate))


def seeds_charged(allocation: Allocation, seeds: int) -> float:
    """Epsilon of the grid if each of its configurations were charged for all of its `seeds` runs. Cached on disk."""
    return _epsilon(allocation, allocation.budget.accountant, seeds * allocation.candidates * allocation.steps)


def under(allocation: Allocation, accountant: str) -> Spent:
    """What the same runs spend as counted by another accountant. Cached on disk.

    The same runs: batches are either Poisson samples or of fixed size (`rdp_wor`), and an accountant of the one has
    nothing to say about the other.
    """
    check_accountant(accountant)
    if (accountant in PRIVATE_ACCOUNTANTS) != (allocation.budget.accountant in PRIVATE_ACCOUNTANTS):
        raise UserError(
            f"Runs calibrated by {allocation.budget.accountant} cannot be counted by {accountant}: "
            f"rdp_wor is for batches of fixed size, {', '.join(PRIVATE_ACCOUNTANTS)} are for Poisson samples. "
            "Calibrate them with the other accountant instead."
        )
    return Spent(
        grid=_epsilon(allocation, accountant, allocation.candidates * allocation.steps),
        run=_epsilon(allocation, accountant, allocation.steps),
    )


def no_guarantee(allocation: Allocation, rows: int) -> str | None:
    """Why the epsilons of an allocation are no guarantee for `rows` training examples, if they are none.

    Whoever shows one of these epsilons says this beside it.
    """
    accountant, reasons = allocation.budget.accountant, []
    proves_its_count = accountant in PRIVATE_ACCOUNTANTS
    if allocation.sampling.dataset_size != rows:
        reasons.append("emulated: epsilon is the paper's setting, not a guarantee for this data")
        if proves_its_count:
            true = truly(allocation, rows)
            reasons.append(
                f"the true epsilon at q = {allocation.sampling.batch_size}/{rows:,} is {true.run:.3f} a run and "
                f"{true.grid:.3f} a grid"
            )
    if not proves_its_count:
        reasons.append(f"{accountant}: epsilon is no guarantee; for comparison with the paper only")
    return "; ".join(reasons) or None


def truly(allocation: Allocation, rows: int) -> Spent:
    """What the runs spend if their batches are drawn from `rows` examples, whatever was emulated. Cached on disk."""
    sampling = dataclasses.replace(allocation.sampling, dataset_size=rows)
    drawn = dataclasses.replace(allocation, sampling=sampling)
    return Spent(
        grid=_epsilon(drawn, allocation.budget.accountant, allocation.candidates * allocation.steps),
        run=_epsilon(drawn, allocation.budget.accountant, allocation.steps),
    )


def warnings_for(budget: Budget, sampling: Sampling) -> list[str]:
    """What a reader of this budget should know."""
    if budget.delta < 1 / sampling.dataset_size:
        return []
    return [
        f"delta = {budget.delta:g} is not below 1/N = {1 / sampling.dataset_size:.2g}: such a guarantee would allow "
        f"publishing one of the {sampling.dataset_size} training examples outright. Lower privacy.delta."
    ]


def _epsilon(allocation: Allocation, accountant: str, compositions: int) -> float:
    noise_multiplier, sampling, delta = allocation.noise_multiplier, allocation.sampling, allocation.budget.delta
    key = {
        **_calculation(accountant),
        "noise_multiplier": noise_multiplier,
        "delta": float(delta),
        **dataclasses.asdict(sampling),
        "compositions": compositions,
    }
    return remembered(
        "calibration", key, lambda: {"epsilon": epsilon(accountant, noise_multiplier, sampling, compositions, delta)}
    )["epsilon"]


@functools.cache
def _calculation(accountant: str) -> dict[str, str | int]:
    library = "opacus" if accountant == "prv" else "dp-accounting"
    return {"format": CALIBRATION_FORMAT, "accountant": accountant, library: importlib.metadata.version(library)}


def _smallest_multiplier(budget: Budget, sampling: Sampling, compositions: int) -> float:
    @functools.cache
    def spent(noise_multiplier: float) -> float:
        return epsilon(budget.accountant, noise_multiplier, sampling, compositions, budget.delta)

    low, high = _bracket(spent, budget, sampling, compositions)
    root = _root(spent, budget.epsilon, low, high)

    exponent = math.floor(math.log10(root)) - MULTIPLIER_DIGITS + 1

    def decimal(index: int) -> float:
        return float(f"{index}e{exponent}")

    # The root is good to its last digits only, and on either side: what is returned has been checked itself.
    index = math.ceil(root / 10.0**exponent)
    while spent(decimal(index)) > budget.epsilon:
        index += 1
    while spent(decimal(index - 1)) <= budget.epsilon:
        index -= 1
    return decimal(index)


def _bracket(
    spent: Callable[[float], float], budget: Budget, sampling: Sampling, compositions: int
) -> tuple[float, float]:
    """Two multipliers near each other, of which the first overspends and the second does not."""
    # Of many small steps the central limit theorem says epsilon ~ q sqrt(2 n ln(1/delta)) / nu; a few need more noise.
    guess = sampling.rate * math.sqrt(2 * compositions * math.log(1 / budget.delta)) / budget.epsilon
    start = max(guess, 0.7)
    lowest, highest = start / 1000, start * 1000

    low, high, stride = start, start, 1.25  # the further off, the longer the stride
    while spent(high) > budget.epsilon and high < highest:
        low, high, stride = high, high * stride, 1.25 * stride
    while spent(low) <= budget.epsilon and low > lowest:
        low, high, stride = low / stride, low, 1.25 * stride
    if not spent(high) <= budget.epsilon < spent(low):
        raise UserError(
            f"The accountant {budget.accountant} finds no noise multiplier between {lowest:.3g} and {highest:.3g} that "
            f"spends epsilon = {budget.epsilon:g} at delta = {budget.delta:g} in {compositions} steps. "
            "Choose a less extreme epsilon or delta, or another accountant."
        )
    return low, high


def _root(spent: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The multiplier between `low` and `high` that spends `target`, to about seven digits."""
    from scipy.optimize import brentq

    def excess(log_multiplier: float) -> float:
        # exp(log(x)) need not be x, and the ends of the bracket must keep their signs.
        ratio = spent(min(max(math.exp(log_multiplier), low), high)) / target
        return math.log(min(max(ratio, 0.1), 10))  # almost linear; capped, as nothing interpolates from infinity

    return math.exp(brentq(excess, math.log(low), math.log(high), xtol=1e-7))

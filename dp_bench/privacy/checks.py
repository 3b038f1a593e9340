"""Whether what was read from disk, an allocation or an epsilon, claims no less than its noise spends."""

import functools

from dp_bench.errors import UserError
from dp_bench.files.atomic import cache_folder
from dp_bench.privacy.accountants import proven
from dp_bench.privacy.accounting import Part, composed_epsilon, epsilon, epsilon_curve, exact, rounded_up
from dp_bench.privacy.allocation import Allocation

# An epsilon that is computed again may differ in its last bits from one that another machine computed.
LAST_BITS = 1e-9

_EXPECTED = "noise multiplier: expected one that spends epsilon"


def check_allocation(allocation: Allocation) -> None:
    """Refuse an allocation whose noise multiplier spends more than it says, counted anew by its own accountant.

    A run asks before it starts: an allocation may come from a cache that was edited or that older code wrote.
    """
    if (reason := violation(allocation)) is not None:
        raise UserError(f"{reason}; delete {cache_folder() / 'calibration'} and start again")


def violation(allocation: Allocation, tolerance: float = LAST_BITS) -> str | None:
    """How an allocation read from disk spends more than it says, counted anew by its own accountant, or None.

    Two epsilons are computed, where a calibration needs a few dozen. Nothing quicker would do: at small budgets other
    accountants find half or several times as much.
    """
    return _contradiction(allocation, tolerance) or _overspending(allocation, tolerance)


def reported_violation(allocation: Allocation, tolerance: float = LAST_BITS) -> str | None:
    """The same for a report: accountants that prove nothing take seconds, and no epsilon of theirs is a guarantee."""
    ask = violation if proven(allocation.budget.accountant) else _contradiction
    return ask(allocation, tolerance)


def _contradiction(allocation: Allocation, tolerance: float) -> str | None:
    """What is wrong with the numbers by themselves."""
    budget, nu, more = allocation.budget, allocation.noise_multiplier, 1 + tolerance
    if not nu > 0:
        return f"noise multiplier: expected a positive number, got {nu}"
    if allocation.epsilon_run / more <= allocation.epsilon_grid <= budget.epsilon * more:
        return None
    claimed = f"{exact(allocation.epsilon_run)} per run and {exact(allocation.epsilon_grid)} per grid"
    return f"{_EXPECTED} {exact(budget.epsilon)} per grid, got {nu:g} with {claimed}"


@functools.lru_cache(maxsize=4096)  # every seed of a grid asks, and the slow accountants take up to seconds
def _overspending(allocation: Allocation, tolerance: float) -> str | None:
    budget, nu = allocation.budget, allocation.noise_multiplier
    steps = [allocation.steps, allocation.compositions]
    try:
        run, grid = epsilon_curve(budget.accountant, nu, allocation.sampling, steps, budget.delta)
        grid = spent_by(allocation, nu) if allocation.trials else grid
    except UserError as error:  # far more than the accountant counts
        return f"{_EXPECTED} {exact(budget.epsilon)} per grid, got {nu:g} ({error})"
    for what, spent, allowed in (
        ("grid", grid, min(budget.epsilon, allocation.epsilon_grid)),
        ("run", run, allocation.epsilon_run),
    ):
        if not spent <= allowed * (1 + tolerance):
            return (
                f"{_EXPECTED} {exact(allowed)} per {what} by {budget.accountant}, "
                f"got {nu:g}, which spends {rounded_up(spent)}"
            )
    return None


def spent_by(allocation: Allocation, noise_multiplier: float) -> float:
    """Epsilon of the whole search with this noise."""
    budget, sampling = allocation.budget, allocation.sampling
    if allocation.trials:
        part = Part(noise_multiplier, sampling, allocation.steps, trials=allocation.trials)
        return composed_epsilon([part], budget.delta)
    return epsilon(budget.accountant, noise_multiplier, sampling, allocation.compositions, budget.delta)

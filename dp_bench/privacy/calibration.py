"""One privacy budget for a whole grid, turned into the one noise multiplier that all of its runs use.

The budget (epsilon, delta) is per grid: it pays for every configuration that is tried, whichever of them is kept in the
end; `dp_bench.privacy.allocators` says for how many steps of each. The runs with other seeds of a configuration are not
charged, as in the paper; `seeds_charged` says what they would add. Everything here is a pure function of its arguments,
so a single run, computed alone anywhere, finds the noise multiplier of its grid.
"""

import dataclasses
import functools
import importlib.metadata
import math
from collections.abc import Callable, Sequence

from dp_bench.errors import invalid
from dp_bench.files.cached import cached
from dp_bench.privacy.accountants import ACCOUNTANTS, RDP, Sampling, accountant_of, proven
from dp_bench.privacy.accounting import Part, composed_epsilon, epsilon, exact
from dp_bench.privacy.allocation import Allocation, Budget, Spent
from dp_bench.privacy.allocators import Rung, check_accountant, steps_of
from dp_bench.privacy.checks import spent_by, violation
from dp_bench.privacy.multiplier_search import NotFound, smallest_multiplier
from dp_bench.privacy.noise_tail import NOISE_TAIL, smallest_delta
from dp_bench.privacy.selection import Trials

# Part of every cache key: raise it when any number changes. CONTRIBUTING.md lists the files that numbers depend on.
CALIBRATION_FORMAT = 2

# More compositions than these cannot be private at a delta that means anything: the noise's tail ends.
MOST_COMPOSITIONS = 10**12
_MOST_EPSILON_OF_SLOW_ONES = 50


def allocate(
    budget: Budget,
    sampling: Sampling,
    candidates: int,
    steps: int,
    rungs: tuple[Rung, ...] = (),
    trials: Trials | None = None,
) -> Allocation:
    """The smallest noise multiplier for which `candidates` runs of `steps` steps keep to the budget. Cached on disk.

    With `rungs` it pays for these alone (halving), with `trials` for the best of so many (selection).

    Five learning rates on 60,000 examples, ten epochs each, all of them paid for:

    >>> from dp_bench import Budget, Sampling, allocate
    >>> budget = Budget(epsilon=3, delta=1e-5, accountant="rdp")
    >>> grid = allocate(budget, Sampling(512, 60_000), candidates=5, steps=1172)
    >>> round(grid.noise_multiplier, 2), grid.epsilon_grid <= 3, round(grid.epsilon_run, 2)
    (1.21, True, 1.31)
    """
    if candidates < 1:
        raise invalid("grid", "at least 1 configuration", candidates, "widen the grid")
    if steps < 1:
        raise invalid("train.epochs", "at least 1 step", steps, "raise the epochs or lower the batch size")
    unpriced = Allocation(budget, sampling, candidates, steps, math.nan, math.nan, math.nan, rungs, trials)
    check_accountant(unpriced.allocator, budget.accountant)
    compositions = unpriced.compositions
    if compositions > MOST_COMPOSITIONS:
        got = f"{_about(candidates)} x {_about(steps)}"
        raise invalid("train.epochs", f"at most {MOST_COMPOSITIONS:.0e} steps over all candidates", got, "lower them")
    if budget.delta < (limit := smallest_delta(compositions)):
        noise = f"{compositions} compositions (the noise ends at {NOISE_TAIL:.2f} standard deviations)"
        raise invalid("privacy.delta", f"at least {_two_digits_up(limit)} for {noise}", budget.delta, "raise it")

    def calibrate() -> dict[str, float]:
        spent = functools.partial(spent_by, unpriced)
        noise_multiplier = _smallest_multiplier(unpriced, spent)
        run = epsilon(budget.accountant, noise_multiplier, sampling, steps, budget.delta)
        return {
            "noise_multiplier": noise_multiplier,
            "epsilon_grid": spent(noise_multiplier),
            "epsilon_run": run,
        }

    key = {
        **calculation(budget.accountant),
        "epsilon": float(budget.epsilon),
        "delta": float(budget.delta),
        **dataclasses.asdict(sampling),
        "candidates": candidates,
        "steps": steps,
        **({"compositions": steps_of(rungs)} if rungs else {}),
        **({"trials": trials.distribution, "mean": float(trials.mean)} if trials else {}),
    }

    def priced(entry: dict[str, float]) -> Allocation:
        # These three and no other: an entry that also named steps would be believed for a search that is not asked for.
        nu, grid, run = (entry[name] for name in ("noise_multiplier", "epsilon_grid", "epsilon_run"))
        return dataclasses.replace(unpriced, noise_multiplier=nu, epsilon_grid=grid, epsilon_run=run)

    return priced(cached("calibration", key, calibrate, lambda entry: violation(priced(entry)) is None))


def total(allocations: Sequence[Allocation], shares: Sequence[float] | None = None) -> float:
    """Epsilon, under RDP and at the smallest of their deltas, of all that these grids release of one data set.

    `shares` says how often each is counted: less than once where several of them are charged to one budget, as often as
    there are seeds where these are charged. Only grids whose batches are Poisson samples can be added up.
    """
    if unproven := {a.budget.accountant for a in allocations if not proven(a.budget.accountant)}:
        raise ValueError(f"accountant: expected grids whose epsilon is a guarantee, got {', '.join(sorted(unproven))}")
    parts = [
        Part(a.noise_multiplier, a.sampling, a.steps, share, a.trials)
        if a.trials
        else Part(a.noise_multiplier, a.sampling, share * a.compositions)
        for a, share in zip(allocations, shares or [1.0] * len(allocations), strict=True)
    ]
    return composed_epsilon(parts, min((allocation.budget.delta for allocation in allocations), default=0.5))


def seeds_charged(allocation: Allocation, seeds: int, *, compute: bool = True) -> float:
    """Epsilon of the grid if each of its configurations were charged for all of its `seeds` runs."""
    return _whole(allocation, allocation.budget.accountant, seeds, compute=compute)


def epsilon_by(allocation: Allocation, accountant: str, *, compute: bool = True) -> Spent:
    """What the same runs spend as counted by another accountant. Slow ones are cached on disk.

    Without `compute` these raise NotCached where they were never asked.

    The same runs: batches are either Poisson samples or of fixed size, and an accountant of the one has nothing to say
    about the other.
    """
    check_accountant(allocation.allocator, accountant)
    drawn = ACCOUNTANTS[allocation.budget.accountant].sampling
    if accountant_of(accountant).sampling != drawn:
        others = [name for name, other in ACCOUNTANTS.items() if other.sampling == drawn]
        raise invalid(
            "accountant",
            f"one for the {drawn} batches of these runs ({', '.join(others)})",
            accountant,
            "leave it out, or calibrate the runs with it",
        )
    whole = _whole(allocation, accountant, compute=compute)
    return Spent(whole, epsilon_after(allocation, accountant, allocation.steps, compute=compute))


def true_epsilon(allocation: Allocation, rows: int) -> Spent:
    """What the runs spend if their batches are drawn from `rows` examples, whatever was emulated."""
    return epsilon_by(allocation.drawn_from(rows), allocation.budget.accountant)


def _whole(allocation: Allocation, accountant: str, times: int = 1, *, compute: bool = True) -> float:
    """Epsilon of the whole search, carried out so many times."""
    if allocation.trials:
        part = Part(allocation.noise_multiplier, allocation.sampling, allocation.steps, times, allocation.trials)
        return composed_epsilon([part], allocation.budget.delta)
    return epsilon_after(allocation, accountant, times * allocation.compositions, compute=compute)


def warnings_for(budget: Budget, sampling: Sampling) -> list[str]:
    """What a reader of this budget should know."""
    if budget.delta < 1 / sampling.dataset_size:
        return []
    return [
        f"delta = {exact(budget.delta)} is not below 1/N = {1 / sampling.dataset_size:.2g}: such a guarantee would "
        f"allow publishing one of the {sampling.dataset_size} training examples outright. Lower privacy.delta."
    ]


def epsilon_after(allocation: Allocation, accountant: str, compositions: int, *, compute: bool = True) -> float:
    """Epsilon of so many steps with its noise.

    RDP takes milliseconds and is never read from disk; the others are, where RDP finds them plausible.
    """
    noise_multiplier, sampling, delta = allocation.noise_multiplier, allocation.sampling, allocation.budget.delta
    if ACCOUNTANTS[accountant].quick:
        return epsilon(accountant, noise_multiplier, sampling, compositions, delta)
    key = {
        **calculation(accountant),
        "noise_multiplier": noise_multiplier,
        "delta": float(delta),
        **dataclasses.asdict(sampling),
        "compositions": compositions,
    }

    def count() -> dict[str, float]:
        return {"epsilon": epsilon(accountant, noise_multiplier, sampling, compositions, delta)}

    def believed(entry: dict[str, float]) -> bool:
        from dp_bench.privacy.lower_bound import is_possible  # brings numpy: planning starts without

        return is_possible(entry["epsilon"], noise_multiplier, sampling, compositions, delta)

    return cached("calibration", key, count if compute else None, believed)["epsilon"]


def _about(count: int) -> str:
    """A number that may have hundreds of digits."""
    return f"{count:,}" if count < 10**15 else f"about 1e{len(str(count)) - 1}"


def _two_digits_up(limit: float) -> str:
    exponent = math.floor(math.log10(limit)) - 1
    return f"{math.ceil(limit / 10.0**exponent) * 10.0**exponent:.2g}"


@functools.cache
def calculation(accountant: str) -> dict[str, str | int]:
    """What an accountant's numbers depend on besides its arguments: part of every key of the cache."""
    library = ACCOUNTANTS[accountant].library
    return {"format": CALIBRATION_FORMAT, "accountant": accountant, library: importlib.metadata.version(library)}


def _smallest_multiplier(unpriced: Allocation, spent: Callable[[float], float]) -> float:
    """Of those that the noise's tail covers: an epsilon so large that less noise would do is then not used up."""
    budget, sampling, compositions = unpriced.budget, unpriced.sampling, unpriced.compositions
    quick = ACCOUNTANTS[budget.accountant].quick
    if not quick and budget.epsilon > _MOST_EPSILON_OF_SLOW_ONES:
        expected = f"at most {_MOST_EPSILON_OF_SLOW_ONES} with {budget.accountant}, which takes up to minutes for more"
        raise invalid("privacy.epsilon", expected, budget.epsilon, "use privacy.accountant=rdp")

    def bounded(noise_multiplier: float) -> float:
        # Where RDP finds so much more than the budget, no accountant finds less, and the search need not know how much.
        if not quick and epsilon(RDP, noise_multiplier, sampling, compositions, budget.delta) > 3 * budget.epsilon + 1:
            return math.inf
        return spent(noise_multiplier)

    # Of many small steps the central limit theorem says epsilon ~ q sqrt(2 n ln(1/delta)) / nu; a few need more noise.
    guess = sampling.rate * math.sqrt(2 * compositions * math.log(1 / budget.delta)) / budget.epsilon
    try:
        return smallest_multiplier(bounded, budget.epsilon, max(guess, 0.7))
    except NotFound as error:
        spends = f"spends epsilon = {exact(budget.epsilon)} at delta = {exact(budget.delta)} in {compositions} steps"
        raise invalid(
            "privacy.epsilon",
            f"one for which {budget.accountant} finds a noise multiplier between {error}",
            f"none that {spends}",
            "choose a less extreme epsilon or delta, or another accountant",
        ) from None

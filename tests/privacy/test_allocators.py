"""Each allocator's noise against computations of its own, and against the budget."""

import itertools
import math
from collections.abc import Callable

import dp_accounting as dpa
import numpy as np
import pytest

from dp_bench import Budget, Sampling, allocate
from dp_bench.errors import UserError
from dp_bench.privacy.accountants import RDP_ORDERS
from dp_bench.privacy.allocators import Rung, check_accountant, rungs_of, steps_of
from dp_bench.privacy.calibration import seeds_charged, total, true_epsilon
from dp_bench.privacy.checks import check_allocation, violation
from dp_bench.privacy.selection import DISTRIBUTIONS, Trials, selection_rdp

MNIST, T = Sampling(512, 60_000), 1172
BUDGET = Budget(3, 1e-5, "rdp")
SELECTED = {  # mean -> nu for logarithmic, geometric and Poisson numbers of trials
    5: (0.998, 1.068, 1.002),
    25: (1.088, 1.215, 1.716),
    81: (1.144, 1.306, 2.761),
}


def step(nu: float) -> dpa.DpEvent:
    return dpa.PoissonSampledDpEvent(512 / 60_000, dpa.GaussianDpEvent(nu))


def run_by_run(rungs: tuple[Rung, ...], nu: float) -> dpa.DpEvent:
    """Every candidate's stretch of training as an event of its own, as a sweep carries them out."""
    starts = [0, *(rung.step for rung in rungs[:-1])]
    return dpa.ComposedDpEvent(
        [
            dpa.SelfComposedDpEvent(dpa.SelfComposedDpEvent(step(nu), rung.step - start), rung.candidates)
            for rung, start in zip(rungs, starts, strict=True)
        ]
    )


def test_a_third_continues_for_three_times_the_steps() -> None:
    assert [(r.candidates, r.step) for r in rungs_of(81, 2700)] == [(81, 100), (27, 300), (9, 900), (3, 2700)]
    assert [(r.candidates, r.step) for r in rungs_of(25, 1172, 50)] == [(25, 150), (8, 400), (3, 1172)]
    assert [(r.candidates, r.step) for r in rungs_of(5, 1172, 50)] == [(5, 400), (2, 1172)]
    assert rungs_of(3, 1172, 50) == (Rung(3, 1172),)
    assert rungs_of(81, 2700)[0].candidates * 100 + 27 * 200 + 9 * 600 + 3 * 1800 == steps_of(rungs_of(81, 2700))


def test_rungs_that_meet_are_one() -> None:
    """Nothing is trained between rungs that end at the same step."""
    assert rungs_of(81, 30, 10) == (Rung(81, 10), Rung(3, 30))
    assert rungs_of(81, 30, 100) == (Rung(81, 30),)


@pytest.mark.parametrize("candidates", [1, 2, 3, 4, 5, 7, 25, 49, 81, 729])
@pytest.mark.parametrize("steps", [1, 30, 1172, 2344])
@pytest.mark.parametrize("every", [1, 50, 5000])
def test_schedules_are_sound(candidates: int, steps: int, every: int) -> None:
    rungs = rungs_of(candidates, steps, every)
    assert rungs[0].candidates == candidates
    assert rungs[-1].step == steps
    assert all(below.candidates > above.candidates for below, above in itertools.pairwise(rungs))
    assert all(below.step < above.step for below, above in itertools.pairwise(rungs))
    assert all(rung.step % every == 0 for rung in rungs[:-1])  # where runs are evaluated
    assert rungs[-1].candidates >= 1
    assert steps_of(rungs) <= candidates * steps


@pytest.mark.parametrize(
    ("candidates", "unrounded", "rounded"), [(81, 1.494, 1.535), (25, 1.327, 1.35), (5, 1.033, 1.036)]
)
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_halving_costs_what_its_parts_cost(candidates: int, unrounded: float, rounded: float) -> None:
    for every, expected in ((1, unrounded), (50, rounded)):
        rungs = rungs_of(candidates, T, every)
        found = allocate(BUDGET, MNIST, candidates, T, rungs)
        assert found.noise_multiplier == pytest.approx(expected, rel=0.005)
        by_hand = dpa.rdp.RdpAccountant(RDP_ORDERS).compose(run_by_run(rungs, found.noise_multiplier))
        assert by_hand.get_epsilon(BUDGET.delta) <= 3
        assert by_hand.get_epsilon(BUDGET.delta) == pytest.approx(found.epsilon_grid, rel=1e-4)
        less = dpa.rdp.RdpAccountant(RDP_ORDERS).compose(run_by_run(rungs, found.noise_multiplier * 0.999))
        assert less.get_epsilon(BUDGET.delta) > 3  # nothing is given away


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_halving_keeps_to_the_budget_under_pld() -> None:
    rungs = rungs_of(25, T, 50)
    found = allocate(Budget(3, 1e-5, "pld"), MNIST, 25, T, rungs)
    by_hand = dpa.pld.PLDAccountant().compose(dpa.SelfComposedDpEvent(step(found.noise_multiplier), steps_of(rungs)))
    assert by_hand.get_epsilon(1e-5) <= 3
    assert by_hand.get_epsilon(1e-5) == pytest.approx(3, rel=0.005)
    assert found.noise_multiplier < allocate(BUDGET, MNIST, 25, T, rungs).noise_multiplier


@pytest.mark.parametrize("mean", [5, 25, 81])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_selection_costs_what_repeat_and_select_costs(mean: int, distribution: str) -> None:
    trials = Trials(distribution, mean)
    found = allocate(BUDGET, MNIST, mean, T, trials=trials)
    assert found.noise_multiplier == pytest.approx(SELECTED[mean][DISTRIBUTIONS.index(distribution)], rel=0.005)
    run = dpa.SelfComposedDpEvent(step(found.noise_multiplier), T)
    accountant = dpa.rdp.RdpAccountant(RDP_ORDERS)
    accountant.compose(dpa.dp_event.RepeatAndSelectDpEvent(run, mean, trials.shape))
    assert accountant.get_epsilon(1e-5) <= found.epsilon_grid <= 3  # the tail is charged on top
    assert accountant.get_epsilon(1e-5) == pytest.approx(3, rel=1e-3)


def test_selection_by_its_formula() -> None:
    """Theorem 2: eps(l) + 2 min over m of ((1 - 1/m) eps(m) + ln(E[K]) / m) + ln(E[K]) / (l - 1), geometric K."""
    run = dpa.rdp.RdpAccountant(RDP_ORDERS).compose(dpa.SelfComposedDpEvent(step(1.2), T))
    orders, one = np.array(RDP_ORDERS), np.array(run.rdp)
    least = 2 * ((1 - 1 / orders) * one + math.log(25) / orders).min()
    by_hand = one + least + math.log(25) / (orders - 1)
    by_hand = np.minimum.accumulate(by_hand[::-1])[::-1]
    assert np.allclose(list(selection_rdp(1.2, MNIST, T, Trials("geometric", 25)).values()), by_hand, rtol=1e-6)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("mean", [1.5, 5, 81])
def test_numbers_of_trials(distribution: str, mean: float) -> None:
    """E[x^K] against the sum over the probabilities."""
    trials, k = Trials(distribution, mean), np.arange(1, 20_000)
    if distribution == "poisson":
        probabilities = np.exp(k * math.log(mean) - mean - np.cumsum(np.log(k)))
        nothing = math.exp(-mean)
    else:
        gamma = trials.stopping
        probabilities, nothing = (1 - gamma) ** (k - (distribution == "geometric")), 0.0
        probabilities = (
            probabilities * gamma if distribution == "geometric" else probabilities / k / math.log(1 / gamma)
        )
    assert nothing + probabilities.sum() == pytest.approx(1)
    assert (k * probabilities).sum() == pytest.approx(mean)
    assert trials.generating(0.8) == pytest.approx(nothing + (0.8**k * probabilities).sum())
    assert trials.chance_of(5) == pytest.approx(1 - trials.generating(0.8))


def test_what_other_searches_would_add() -> None:
    """Two searches by halving cost what their steps cost; two selections more than one, and less than two budgets."""
    halved = allocate(BUDGET, MNIST, 25, T, rungs_of(25, T, 50))
    assert seeds_charged(halved, 2) == total([halved, halved]) > 3
    chosen = allocate(BUDGET, MNIST, 25, T, trials=Trials("geometric", 25))
    assert 3 < seeds_charged(chosen, 2) < 6
    assert total([chosen]) == pytest.approx(chosen.epsilon_grid)
    assert total([chosen, halved]) > max(total([chosen]), total([halved]))
    assert true_epsilon(chosen, 30_000).grid > 3
    assert true_epsilon(halved, 30_000).grid > 3


@pytest.mark.parametrize("cheaper", ["halving", "selection"])
def test_an_overspending_allocation_is_refused(cheaper: str) -> None:
    from dataclasses import replace

    rungs = rungs_of(25, T, 50) if cheaper == "halving" else ()
    trials = Trials("geometric", 25) if cheaper == "selection" else None
    found = allocate(BUDGET, MNIST, 25, T, rungs, trials)
    assert found.allocator == cheaper
    assert violation(found) is None
    check_allocation(found)
    with pytest.raises(UserError, match="noise multiplier"):
        check_allocation(replace(found, noise_multiplier=found.noise_multiplier * 0.99))
    with pytest.raises(UserError, match="noise multiplier"):  # composition's cost with halving's noise
        check_allocation(replace(found, rungs=(), trials=None))


REFUSALS: dict[str, Callable[[], object]] = {
    "privacy.accountant: expected one that proves what privacy.allocator=halving": lambda: allocate(
        Budget(3, 1e-5, "rdp_wor"), MNIST, 5, T, rungs_of(5, T)
    ),
    "privacy.accountant: expected one that proves what privacy.allocator=selection": lambda: allocate(
        Budget(3, 1e-5, "pld"), MNIST, 5, T, trials=Trials("geometric", 5)
    ),
    "privacy.allocator: expected one of composition, halving, selection, got halfing": lambda: check_accountant(
        "halfing", "rdp"
    ),
    "privacy.selection.distribution: expected one of": lambda: Trials("uniform", 5),
    "privacy.selection.mean: expected the expected number of trials": lambda: Trials("geometric", 1),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_cannot_be_accounted_for_is_refused(message: str) -> None:
    with pytest.raises(UserError) as error:
        REFUSALS[message]()
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)

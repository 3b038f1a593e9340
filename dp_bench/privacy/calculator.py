"""What a search costs under each allocator and accountant, and which one to take: the numbers of `dp-bench budget`.

Nothing is trained. Only accountants that need no torch are asked.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple

from dp_bench.files.cached import cached
from dp_bench.privacy.accountants import ACCOUNTANTS, RDP, Sampling
from dp_bench.privacy.accounting import rounded_up
from dp_bench.privacy.allocation import Allocation, Budget
from dp_bench.privacy.allocators import COMPOSITION, HALVING, SELECTION, Rung, rungs_of, schedule_in_words, steps_of
from dp_bench.privacy.calibration import allocate, calculation, epsilon_by
from dp_bench.privacy.lower_bound import is_possible
from dp_bench.privacy.selection import DISTRIBUTIONS, MOST_TRIALS, Trials

ASKED = tuple(name for name, known in ACCOUNTANTS.items() if known.proven and known.light)
_WIDTH = 110
EVERYTHING, WINNER = "everything", "the winner only"


@dataclass(frozen=True)
class Question:
    """A search, and either its budget or its noise."""

    sampling: Sampling
    steps: int
    candidates: int
    delta: float
    epsilon: float | None = None
    noise_multiplier: float | None = None  # if epsilon is None
    evaluate_every: int = 50
    mean: float | None = None  # of selection's number of trials; None: as many as there are candidates
    accountants: tuple[str, ...] = ASKED


class Way(NamedTuple):
    """One allocator as it would search, and who counts."""

    allocator: str
    accountant: str
    rungs: tuple[Rung, ...] = ()
    trials: Trials | None = None

    @property
    def name(self) -> str:
        return f"{self.allocator}, {self.trials.distribution}" if self.trials else self.allocator


@dataclass(frozen=True)
class Row:
    """What one allocator costs as one accountant counts."""

    allocator: str
    accountant: str
    noise_multiplier: float
    epsilon: float  # of the whole search
    epsilon_run: float  # of one whole run
    over_single: float  # noise multiplier over that of a single run; with the noise given, epsilon over epsilon_run
    runs_worth: float  # of training; of selection, expected
    chance: float  # that the best candidate is tried at all
    released: str


def ways(question: Question) -> list[Way]:
    """A single candidate needs no search."""
    found = [Way(COMPOSITION, name) for name in question.accountants]
    if question.candidates == 1:
        return found
    rungs = rungs_of(question.candidates, question.steps, question.evaluate_every)
    found += [Way(HALVING, name, rungs) for name in question.accountants]
    mean = question.candidates if question.mean is None else question.mean
    if question.mean is None and mean > MOST_TRIALS:
        return found
    able = [name for name in question.accountants if ACCOUNTANTS[name].counts_selection]
    return found + [Way(SELECTION, who, trials=Trials(name, mean)) for who in able for name in DISTRIBUTIONS]


def table(question: Question) -> list[Row]:
    """One row for each allocator and accountant. Cached as a whole: accounting takes seconds to import alone."""
    chosen = ways(question)
    key = {
        **calculation(RDP),
        **{name: str(value) for name, value in asdict(question).items()},
        "ways": ", ".join(f"{way.name} {way.accountant}" for way in chosen),
    }
    found = cached("budget", key, lambda: dict(_numbers(question, chosen)), partial(_possible, question, chosen))
    return [_row(question, way, found) for way in chosen]


def _possible(question: Question, chosen: Sequence[Way], found: Mapping[str, float]) -> bool:
    """Whether no epsilon is below what its noise spends. Of selection only one trial is looked at: no quick bound is
    known of the best of several, and what is written into the user's own cache could be too low by as much."""
    size = question.sampling, question.delta
    for way in chosen:
        row = _row(question, way, found)
        compositions = steps_of(way.rungs) if way.rungs else question.steps * question.candidates
        searched = question.steps if way.trials else compositions
        epsilon = row.epsilon if question.epsilon is None else min(row.epsilon, question.epsilon)
        given = question.noise_multiplier
        if given is not None and row.noise_multiplier != given:
            return False
        for spent, steps in ((row.epsilon_run, question.steps), (epsilon, searched)):
            if spent < math.inf and not is_possible(spent, row.noise_multiplier, size[0], steps, size[1]):
                return False
    return True


def _numbers(question: Question, chosen: Sequence[Way]) -> Iterator[tuple[str, float]]:
    for way in chosen:
        spent = _spent(question, way)
        alone = _spent(question, Way(COMPOSITION, way.accountant), candidates=1)
        ratio = spent.noise_multiplier / alone.noise_multiplier
        if question.epsilon is None:
            ratio = spent.epsilon_grid / spent.epsilon_run if 0 < spent.epsilon_run < math.inf else math.nan
        for name, value in {
            "nu": spent.noise_multiplier,
            "search": spent.epsilon_grid,
            "run": spent.epsilon_run,
            "ratio": ratio,
            "worth": spent.runs_worth,
        }.items():
            yield f"{way.name} {way.accountant} {name}", value


def _spent(question: Question, way: Way, candidates: int | None = None) -> Allocation:
    size = (question.sampling, candidates or question.candidates, question.steps)
    if question.epsilon is not None:
        return allocate(Budget(question.epsilon, question.delta, way.accountant), *size, way.rungs, way.trials)
    assert question.noise_multiplier is not None
    nu = question.noise_multiplier
    # The budget's epsilon is what is asked for: any number stands in for it.
    given = Allocation(
        Budget(1.0, question.delta, way.accountant), *size, nu, math.nan, math.nan, way.rungs, way.trials
    )
    grid, run = epsilon_by(given, way.accountant)
    return Allocation(given.budget, *size, nu, grid, run, way.rungs, way.trials)


def _row(question: Question, way: Way, found: Mapping[str, float]) -> Row:
    nu, search, run, ratio, worth = (
        found[f"{way.name} {way.accountant} {name}"] for name in ("nu", "search", "run", "ratio", "worth")
    )
    chance = way.trials.chance_of(question.candidates) if way.trials else 1.0
    released = WINNER if way.trials else EVERYTHING
    return Row(way.name, way.accountant, nu, search, run, ratio, worth, chance, released)


def recommendation(question: Question, rows: Sequence[Row]) -> str:
    """Which row to take, and why: the least noise (or epsilon) among the allocators that try every candidate."""

    def price(row: Row) -> float:
        return row.epsilon if question.epsilon is None else row.noise_multiplier

    best = min((row for row in rows if row.released == EVERYTHING), key=price)
    if question.candidates == 1:
        return f"Take {best.accountant}: one candidate is not a search, so every allocator costs the same."
    if price(best) == math.inf:
        return "No epsilon can be counted: there is too little noise for these steps at this delta."
    if price(best) == 0:
        return "There is nothing to choose: with so much noise every allocator costs an epsilon of 0."
    what = "epsilon" if question.epsilon is None else "noise"
    single = f"{best.over_single:.2f} times the {what} of a single run"
    composed = next(row for row in rows if row.allocator == COMPOSITION and row.accountant == best.accountant)
    rungs = rungs_of(question.candidates, question.steps, question.evaluate_every)
    if price(best) == price(composed):
        words = (
            f"Take composition, counted by {best.accountant}: {question.candidates} candidates of {question.steps} "
            f"steps, evaluated every {question.evaluate_every}, leave nothing to halve; {single}, and everything may "
            "be released."
        )
    else:
        words = (
            f"Take {best.allocator}, counted by {best.accountant}: {single}, where composition needs "
            f"{composed.over_single:.2f}; every candidate is tried, in {best.runs_worth:.1f} runs' worth of training "
            f"({schedule_in_words(rungs)}), and everything may be released. A candidate that learns slowly may be "
            "dropped early, and the choice relies on a public test set."
        )
    cheapest = min((row for row in rows if row.released == WINNER), key=price, default=best)
    if price(cheapest) < price(best):
        words += (
            f" If only the winner has to leave, {cheapest.allocator} is cheaper still ({cheapest.over_single:.2f}), "
            f"but tries the best candidate with probability {cheapest.chance:.2f}, and nothing else may be looked at."
        )
    return words


def lines(question: Question, rows: Sequence[Row]) -> list[str]:
    """The table and the recommendation, as text."""
    priced = question.epsilon is not None
    header = [
        *("allocator", "accountant", "nu" if priced else "epsilon", "over a single run", "epsilon of one run"),
        *("runs' worth", "best is tried", "may be released"),
    ]
    cells = [
        [
            *(row.allocator, row.accountant, f"{row.noise_multiplier:.4f}" if priced else rounded_up(row.epsilon)),
            *(f"{row.over_single:.2f}", rounded_up(row.epsilon_run), f"{row.runs_worth:.1f}", f"{row.chance:.2f}"),
            row.released,
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *cells)]
    return [*(line.rstrip() for line in drawn), "", *textwrap.wrap(recommendation(question, rows), _WIDTH)]

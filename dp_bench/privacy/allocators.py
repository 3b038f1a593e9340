"""Allocators: how one budget pays for a search. Each turns candidates and steps into a schedule fixed beforehand.

`composition` (the paper's): n candidates of T steps each are n T steps of one mechanism. All of them may be released.

`halving` (successive halving, keeping a third): all candidates train for a few steps, the better third trains for
three times as many, until at most three are left, which train to the end. Candidates and steps of every rung are fixed
before the first step, so a search is sum_r n_r (t_r - t_(r-1)) steps of one mechanism, whichever candidates
continue. They are chosen by the metric on the test set, which is public here as in the paper: that is post-processing
of what is released anyway, and everything may be released. (If the test set is
private too, choosing by it needs a budget of its own.)

`selection` (Papernot and Steinke, 2022): a secret, random number of candidates is trained, drawn with replacement, and
only the best one is released: `dp_bench.privacy.selection`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_bench.errors import invalid, unknown
from dp_bench.privacy.accountants import ACCOUNTANTS, POISSON, Accountant, accountant_of

COMPOSITION, HALVING, SELECTION = "composition", "halving", "selection"
ALLOCATORS = (COMPOSITION, HALVING, SELECTION)
KEPT = 3  # one of so many continues, for so many times as many steps
_FEW = 3  # so many train to the end


@dataclass(frozen=True)
class Rung:
    """So many candidates, each trained up to this step (counted from its first)."""

    candidates: int
    step: int


def rungs_of(candidates: int, steps: int, evaluate_every: int = 1) -> tuple[Rung, ...]:
    """Halving's schedule; rungs end where runs are evaluated, so each is rounded up to such a step.

    >>> [(rung.candidates, rung.step) for rung in rungs_of(25, 1172, 50)]
    [(25, 150), (8, 400), (3, 1172)]
    """
    counts = [candidates]
    while counts[-1] > _FEW:
        counts.append(max(1, round(counts[-1] / KEPT)))
    rungs: list[Rung] = []
    for above, count in zip(reversed(range(len(counts))), counts, strict=True):
        step = min(steps, evaluate_every * math.ceil(steps / (KEPT**above * evaluate_every)))
        if not rungs or step > rungs[-1].step:  # else nothing is trained in between, and one choice does for both
            rungs.append(Rung(count, step))
    return tuple(rungs)


def steps_of(rungs: Sequence[Rung]) -> int:
    """What a schedule costs: the steps of all its candidates.

    >>> steps_of((Rung(5, 400), Rung(2, 1172)))
    3544
    """
    starts = (0, *(rung.step for rung in rungs))
    return sum(rung.candidates * (rung.step - start) for rung, start in zip(rungs, starts, strict=False))


def schedule_in_words(rungs: Sequence[Rung]) -> str:
    """25 to step 150, 8 to step 400, 3 to step 1,172"""
    return ", ".join(f"{rung.candidates} to step {rung.step:,}" for rung in rungs)


def _is_counted(allocator: str, by: Accountant) -> bool:
    """Composition takes any accountant, even one that proves nothing: the paper used one."""
    return {COMPOSITION: True, HALVING: by.proven, SELECTION: by.proven and by.counts_selection}[allocator]


def check_accountant(allocator: str, accountant: str) -> None:
    """Refuse a pair for which nothing is proven."""
    if allocator not in ALLOCATORS:
        raise unknown("privacy.allocator", allocator, ALLOCATORS)
    known = accountant_of(accountant)
    if _is_counted(allocator, known):
        return
    able = [name for name, other in ACCOUNTANTS.items() if _is_counted(allocator, other)]
    batches = "" if known.sampling == POISSON else f" (its batches are of {known.sampling.replace('_', ' ')})"
    raise invalid(
        "privacy.accountant",
        f"one that proves what privacy.allocator={allocator} spends ({', '.join(able)})",
        accountant + batches,
        "choose one of them, or privacy.allocator=composition",
    )

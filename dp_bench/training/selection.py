"""Searching a grid by selection (Papernot and Steinke, 2022): a secret number of trials, of which one leaves.

What is proven of it, and what it costs: `dp_bench.privacy.selection`. How the proof's premises are met here:

- K is drawn by `Trials.draw`, and each trial's candidate uniformly, with replacement, both from the operating system.
- Each trial has batches and noise of its own (seed=secure), also where its candidate was tried before.
- The winner is the best on the public test set by its best evaluation; one that diverged comes after all that did not.
  Of equals the first wins: trials are exchangeable, so that is a draw among equals, which the theorems allow.
- Trials are kept in memory, at most two at a time, and nothing of them is shown: not how many there are, how long they
  take, which candidates they are of or what they say on their way.

A search that is interrupted, killed or fails has released nothing, so that the same command may start it over at no
further cost: of both attempts together, one winner leaves. What this relies on is that no one interrupts a search
because of how long it takes, as K would then no longer have the distribution that is charged. An observer who times
the search learns about K; what is released must not tell them more than the winner.
"""

import contextlib
import io
import secrets
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dp_bench.errors import JobsFailed
from dp_bench.experiment.record import RunResult
from dp_bench.experiment.selected import SelectedGrid, Trial
from dp_bench.experiment.spec import RunSpec
from dp_bench.privacy.checks import check_allocation
from dp_bench.tasks import TASKS
from dp_bench.tasks.base import ranked


class Tried(NamedTuple):
    spec: RunSpec
    trial: Trial
    result: RunResult


def search(grid: SelectedGrid, keep: str) -> None:
    """Search a grid that has no outcome yet, and release one. The caller holds the grid's lock.

    `keep`: which models of the winner are kept.
    """
    first = grid.candidates[0]
    allocation = first.allocation
    assert allocation is not None
    assert allocation.trials is not None
    check_allocation(allocation)
    from dp_bench.training.run import prepare_device, run_trial  # bring torch

    prepare_device(first)
    dataset = TASKS[first.dataset.name].load(first.task_options)

    def tried(spec: RunSpec) -> Tried:
        trial = Trial()
        return Tried(spec, trial, run_trial(spec, trial, dataset, keep))

    with _silently():
        best = best_of(allocation.trials.draw(), grid.candidates, tried)
    if best is None:
        grid.release_nothing()
    else:
        grid.release(*best)


def best_of(number: int, candidates: list[RunSpec], tried: Callable[[RunSpec], Tried]) -> Tried | None:
    """The best of so many trials; None of none."""
    best = None
    for _ in range(number):
        one = tried(secrets.choice(candidates))
        if best is None or rank(one) < rank(best):
            best = one
    return best


def rank(tried: Tried) -> tuple[bool, float]:
    """Ascending from the best."""
    higher = TASKS[tried.spec.dataset.name].higher_is_better
    return ranked(tried.result.diverged, tried.result.best.number, higher)


@contextlib.contextmanager
def _silently() -> Iterator[None]:
    """Show nothing that a trial prints, warns of or fails with: it may count trials, or name their candidates."""
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        raise JobsFailed(
            f"a trial ended with {type(error).__name__}; nothing was released, and the same command starts over. What "
            "it says is not shown, as it may tell which candidate was tried: a grid of synthetic data shows it"
        ) from None

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

Grids are searched one after the other, in this process, whatever the launcher.
"""

import contextlib
import io
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dp_bench.errors import JobsFailed, UserError
from dp_bench.experiment.plan import Job, by_grid
from dp_bench.experiment.record import RunResult
from dp_bench.experiment.selected import SelectedGrid, Trial
from dp_bench.experiment.spec import RunSpec
from dp_bench.privacy.checks import check_allocation
from dp_bench.sweep.terminal import console, short_names
from dp_bench.tasks import TASKS
from dp_bench.tasks.base import ranked

_NOTHING = (
    "the number of trials was 0, so nothing is released: that is the outcome, and the budget is spent. Searching "
    "again is a second release, to be paid for on top: it takes another runs=FOLDER"
)


class Tried(NamedTuple):
    spec: RunSpec
    trial: Trial
    result: RunResult


def search_all(planned: Sequence[Job]) -> dict[Job, str]:
    """Search every grid of these jobs that has no outcome yet. Why each that failed did, by one of its jobs."""
    failures = {}
    short = short_names(job.runs[0] for job in planned)
    for name, jobs in by_grid(planned).items():
        try:
            _search(str(short[name]), SelectedGrid(jobs[0].root, jobs[0].runs[0]), jobs[0].keep)
        except (UserError, JobsFailed, OSError) as error:
            failures[jobs[0]] = str(error)
        except KeyboardInterrupt:
            _say(f"{short[name]}: nothing was released; the same command starts the search over")
            raise
    return failures


def _search(name: str, grid: SelectedGrid, keep: str) -> None:
    """All that is said of a search: that it began, and what it released."""
    with grid.claimed() as ours:
        if not ours:
            _say(f"{name}: waiting for another process that holds this store")
    with grid.claimed(wait=True):
        if not grid.done:
            _say(f"{name}: searching by selection; neither the number of trials nor their results are shown")
            screen = console(sys.stderr)
            # On a terminal, that something is running: without a count, and without a clock.
            with screen.status("searching") if screen.is_terminal else contextlib.nullcontext():
                _release_one(grid, keep)
        grid.round_times()
        winner = grid.winner()
    _say(f"{name}: {_NOTHING if winner is None else f'the winner, all that may be released, is in {winner.path}'}")


def _release_one(grid: SelectedGrid, keep: str) -> None:
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


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

"""The grids of a sweep that are searched by selection: one after the other, in this process, whatever the launcher."""

import contextlib
import sys
from collections.abc import Iterator, Sequence

from dp_bench.errors import JobsFailed, UserError
from dp_bench.experiment.plan import Job, by_grid
from dp_bench.experiment.selected import SelectedGrid
from dp_bench.sweep.terminal import console, short_names


def carry_out(planned: Sequence[Job]) -> dict[Job, str]:
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
            with _spinner():
                from dp_bench.training.selection import search

                search(grid, keep)
        grid.round_times()
        _say(f"{name}: {outcome(grid)}")


def outcome(grid: SelectedGrid) -> str:
    """What a search that is done released."""
    winner = grid.winner()
    if winner is not None:
        return f"the winner, all that may be released, is in {winner.path}"
    return (
        "the number of trials was 0, so nothing is released: that is the outcome, and the budget is spent. Searching "
        "again is a second release, to be paid for on top: it takes another runs=FOLDER"
    )


@contextlib.contextmanager
def _spinner() -> Iterator[None]:
    """On a terminal, that something is running: without a count, and without a clock."""
    screen = console(sys.stderr)
    with screen.status("searching") if screen.is_terminal else contextlib.nullcontext():
        yield


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

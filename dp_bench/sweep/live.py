"""A live view of a sweep, read from the store, so that it is the same whatever launcher does the work."""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.live import Live
from rich.table import Table

from dp_bench.errors import UserError
from dp_bench.experiment.plan import Job, by_grid
from dp_bench.experiment.store import RunFolder
from dp_bench.sweep.terminal import GridName, console, rich_table, short_names
from dp_bench.tasks import TASKS, Task

_SECONDS_ON_TERMINAL, _SECONDS_BETWEEN_LINES = 2.0, 60.0
_MOST_ROWS = 20
COLUMNS = ("data set", "strategy", "k", "epsilon", "done", "running", "diverged", "failed", "best")


@dataclass
class GridView:
    """How far one grid is."""

    name: GridName
    task: Task
    waiting: list[RunFolder]
    total: int
    finished: int = 0
    diverged: int = 0
    failed: int = 0
    running: int = 0
    stopped: int = 0  # of those finished: by halving
    best: float = math.nan

    def refresh(self) -> None:
        """Look again at what was not done yet."""
        still_waiting, self.running = [], 0
        for folder in self.waiting:
            try:
                result = folder.result()
            except UserError:
                self.failed += 1
                continue
            if result is None:
                still_waiting.append(folder)
                self.running += folder.begun and folder.is_running()
                continue
            self.diverged += result.diverged
            self.finished += not result.diverged
            self.stopped += result.status == "stopped"
            if not result.diverged and self.task.better(result.best.number, self.best):
                self.best = result.best.number
        self.waiting = still_waiting

    @property
    def done(self) -> int:
        return self.finished + self.diverged

    def row(self) -> list[str]:
        """By `COLUMNS`; a variant that others must be told from stands with the data set."""
        counts = [f"{self.done} of {self.total}", *(str(n or "-") for n in (self.running, self.diverged, self.failed))]
        best = "-" if math.isnan(self.best) else f"{self.task.scale * self.best:.2f}"
        return [*self.name.cells, *counts, best]

    def line(self) -> str:
        best = "" if math.isnan(self.best) else f", best {self.task.scale * self.best:.2f}"
        diverged = f", {self.diverged} diverged" if self.diverged else ""
        failed = f", {self.failed} failed" if self.failed else ""
        stopped = f" ({self.stopped} stopped at a rung)" if self.stopped else ""
        done = f"{self.done} of {self.total} done{stopped}, {self.running} running"
        return f"{self.name}: {done}{_rung_of(self.waiting)}{diverged}{failed}{best}"


def _rung_of(waiting: Sequence[RunFolder]) -> str:
    """Where a halved grid is: those that are not done are all in one rung."""
    allocation = waiting[0].spec.allocation if waiting else None
    if allocation is None or not allocation.rungs:
        return ""
    reached = [folder.rungs_reached() for folder in waiting]
    there = sum(count > min(reached) for count in reached)
    return f", rung {min(reached) + 1} of {len(allocation.rungs)}: {there} of {len(waiting)} trained"


class View:
    """How far the grids of a sweep are."""

    def __init__(self, planned: Sequence[Job]) -> None:
        names = short_names(job.runs[0] for job in planned)
        self.grids = []
        for name, jobs in by_grid(planned).items():
            folders = [folder for job in jobs for folder in job.folders]
            self.grids.append(GridView(names[name], TASKS[jobs[0].runs[0].dataset.name], folders, len(folders)))
        self.started = time.monotonic()
        self.refresh()
        self.done_before = sum(grid.done for grid in self.grids)

    def refresh(self) -> None:
        for grid in self.grids:
            grid.refresh()

    def total_line(self) -> str:
        done, total = (sum(getattr(grid, name) for grid in self.grids) for name in ("done", "total"))
        hours = (time.monotonic() - self.started) / 3600
        fresh = done - self.done_before
        left = sum(len(grid.waiting) for grid in self.grids)
        speed = f", {fresh / hours:.0f} runs an hour, {hours * 60 * left / fresh:.0f} min left" if fresh else ""
        return f"{done} of {total} runs done{speed}"

    def table(self, rows: int | None = None) -> Table:
        """One row per grid, those that are running first, then those with results; only so many, if not all."""
        busy = [grid for grid in self.grids if grid.running]
        idle = [grid for grid in self.grids if not grid.running and grid.done]
        shown = self.grids if rows is None else (busy + idle)[: max(0, rows)]
        table = rich_table(COLUMNS, [grid.row() for grid in shown])
        table.caption, table.caption_justify = self.total_line(), "left"
        return table


@contextlib.contextmanager
def watching(planned: Sequence[Job]) -> Iterator[None]:
    """Show the sweep while it runs: redrawn on a terminal, one line per minute elsewhere, everything at the end."""
    view, over = View(planned), threading.Event()
    print(view.total_line(), file=sys.stderr)
    screen = console(sys.stderr)
    on_terminal = screen.is_terminal
    live = Live(console=screen, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)

    def show() -> None:
        looking = 0.0
        # Looking takes time as well, most of all over a network: at most a twentieth of it.
        while not over.wait(max(_SECONDS_ON_TERMINAL if on_terminal else _SECONDS_BETWEEN_LINES, 20 * looking)):
            began = time.monotonic()
            view.refresh()
            looking = time.monotonic() - began
            if on_terminal:
                live.update(view.table(min(_MOST_ROWS, screen.height - 6)), refresh=True)
            else:
                print(view.total_line(), file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    try:
        with live if on_terminal else contextlib.nullcontext():
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()
    finally:
        view.refresh()
        if on_terminal:
            screen.print(view.table())
        else:
            lines = [*(grid.line() for grid in view.grids), view.total_line()]
            print("\n".join(lines), file=sys.stderr, flush=True)

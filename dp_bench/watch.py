"""A live view of a sweep, read from the store, so that it is the same whatever launcher does the work."""

import contextlib
import math
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dp_bench.errors import UserError
from dp_bench.plan import Job, by_grid
from dp_bench.store import RunFolder
from dp_bench.tasks import TASKS

_SECONDS_ON_TERMINAL, _SECONDS_BETWEEN_LINES = 2.0, 60.0
_MOST_ROWS = 20


@dataclass
class GridView:
    """How far one grid is."""

    name: str
    waiting: list[RunFolder]
    total: int
    finished: int = 0
    diverged: int = 0
    failed: int = 0
    running: int = 0
    best: float = math.nan
    steps_done: int = 0

    def refresh(self) -> None:
        """Look again at what was not done yet."""
        task = TASKS[self.waiting[0].spec.dataset.name] if self.waiting else None
        still_waiting, self.running = [], 0
        for folder in self.waiting:
            try:
                result = folder.result()
            except UserError:
                self.failed += 1
                continue
            if result is None:
                still_waiting.append(folder)
                self.running += (folder.path / "spec.json").exists()
                continue
            assert task is not None
            self.steps_done += folder.spec.steps
            self.diverged += result["status"] == "diverged"
            self.finished += result["status"] == "finished"
            value = result["best"]["value"]
            if result["status"] == "finished" and task.better(value, self.best):
                self.best = value
        self.waiting = still_waiting

    @property
    def done(self) -> int:
        return self.finished + self.diverged

    def line(self) -> str:
        best = "" if math.isnan(self.best) else f", best {self.best:.4f}"
        diverged = f", {self.diverged} diverged" if self.diverged else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.name}: {self.done} of {self.total} done, {self.running} started{diverged}{failed}{best}"


@dataclass
class View:
    grids: list[GridView]
    started: float = field(default_factory=time.monotonic)
    done_before: int = 0

    def refresh(self) -> None:
        for grid in self.grids:
            if grid.waiting:
                grid.refresh()

    def total_line(self) -> str:
        done, total = (sum(getattr(grid, name) for grid in self.grids) for name in ("done", "total"))
        hours = (time.monotonic() - self.started) / 3600
        fresh = done - self.done_before
        left = sum(len(grid.waiting) for grid in self.grids)
        speed = f", {fresh / hours:.0f} runs an hour, {hours * 60 * left / fresh:.0f} min left" if fresh else ""
        return f"{done} of {total} runs done{speed}"

    def lines(self, columns: int, rows: int) -> list[str]:
        """The grids at work first, then those with results; what fits, as a wrapped line could not be drawn over."""
        busy = [grid for grid in self.grids if grid.running]
        idle = [grid for grid in self.grids if not grid.running and grid.done]
        shown = (busy + idle)[: max(0, min(_MOST_ROWS, rows - 2))]
        return [_fitted(line, columns) for line in (*(grid.line() for grid in shown), self.total_line())]


def _fitted(line: str, columns: int) -> str:
    """A grid's name tells most at its end."""
    return line if len(line) < columns else "…" + line[-max(1, columns - 2) :]


def view_of(planned: Sequence[Job]) -> View:
    grids = [
        GridView(name, [folder for job in jobs for folder in job.folders], sum(len(job.runs) for job in jobs))
        for name, jobs in by_grid(planned).items()
    ]
    view = View(grids)
    view.refresh()
    view.done_before = sum(grid.done for grid in grids)
    return view


@contextlib.contextmanager
def watching(planned: Sequence[Job]) -> Iterator[None]:
    """Show the sweep while it runs: redrawn on a terminal, a line a minute elsewhere, everything at the end."""
    view, over = view_of(planned), threading.Event()
    print(view.total_line(), file=sys.stderr)
    on_terminal = sys.stderr.isatty()

    def show() -> None:
        drawn, looking = 0, 0.0
        # Looking takes time as well, most of all over a network: at most a twentieth of it.
        while not over.wait(max(_SECONDS_ON_TERMINAL if on_terminal else _SECONDS_BETWEEN_LINES, 20 * looking)):
            began = time.monotonic()
            view.refresh()
            looking = time.monotonic() - began
            if on_terminal:
                lines = view.lines(*shutil.get_terminal_size())
                print(f"\x1b[{drawn}F\x1b[J" * bool(drawn) + "\n".join(lines), file=sys.stderr, flush=True)
                drawn = len(lines)
            else:
                print(view.total_line(), file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        view.refresh()
        print("\n".join([*(grid.line() for grid in view.grids), view.total_line()]), file=sys.stderr, flush=True)

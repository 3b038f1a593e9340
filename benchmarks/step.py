"""Milliseconds and memory of one training step, against plain PyTorch and every mode of Opacus.

    python benchmarks/step.py [--models cnn] [--threads 1 2] [--repetitions 15] [--json FILE]

Every contender lives in a process of its own and they take turns, so that no two run together and a noisy machine is
noisy for all: compare the ratios. `make bench` runs this and everything else (bench.py).
"""

import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contenders import (
    CONTENDERS,
    COPY,
    COPY_BYTES,
    OPACUS,
    PLAIN,
    RIVALS,
    SAME_LAYOUT,
    SGEMM,
    SGEMM_FLOPS,
    Job,
    useful_flops,
)
from floor import FLOOR, floor_times, traffic
from options import add_threads, parser, rounds
from step_tables import Row, headline_table, steps_table
from truth import WrongError, check_share
from workers import FailedError, Worker, started

from dp_bench.report.render.markdown import markdown

REPETITIONS = 15
_TURN = 0.06  # seconds of work at least: a short step is timed several times in a row
# Opacus' steps of more seconds than this take their turn in every third round only: large ratios need fewer.
_LONG, _SELDOM = 0.1, 3

Times = dict[int, float]  # round -> seconds a step


@dataclass
class Entry:
    """A contender in the race; from its first failure on it only has a reason."""

    worker: Worker
    reason: str | None = None
    peak_mb: float | None = None
    once: float = math.inf  # seconds of a first step
    clipped: float | None = None  # share of examples
    times: Times = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.worker.job.contender

    @property
    def seldom(self) -> bool:
        return self.name in OPACUS and self.once > _LONG

    def attempt(self, work: Callable[..., None], *arguments: int) -> None:
        if self.reason is not None:
            return
        try:
            work(*arguments)
        except (FailedError, WrongError) as error:
            self.reason = str(error)
            self.times.clear()
            print(f"  {self.name} is left out: {error}", file=sys.stderr)

    def weigh(self) -> None:
        self.peak_mb, self.once = self.worker.memory()

    def take_turn(self, turn: int) -> None:
        self.times[turn] = self.worker.steps(math.ceil(_TURN / self.once))

    def count_clipped(self) -> None:
        """After the last turn: times count only if the share of clipped examples is that of real runs."""
        self.clipped = self.worker.share()
        if self.clipped is not None:
            check_share(self.worker.job.model, self.clipped)


def measure(
    model: str,
    threads: int,
    repetitions: int = REPETITIONS,
    contenders: Sequence[str] = tuple(CONTENDERS),
    rows: int | None = None,
) -> list[Row]:
    """A row for each contender; of one that cannot run this model, the reason."""
    with started([Job(name, model, threads, rows=rows) for name in contenders]) as workers:
        entries = race(workers, repetitions)
    flops = useful_flops(model)
    return [_row(entry, entries, flops) for entry in entries.values()] + _floor(entries, flops)


def race(workers: Sequence[Worker], repetitions: int) -> dict[str, Entry]:
    """Turns of all of them, by contender."""
    entries = {worker.job.contender: Entry(worker) for worker in workers}
    for entry in entries.values():
        entry.attempt(entry.worker.ready)
    for entry in entries.values():
        entry.attempt(entry.weigh)
    ours = [entry.once for entry in entries.values() if entry.name not in RIVALS and entry.reason is None]
    for turn in range(rounds(repetitions, max(ours, default=math.inf))):
        # There and back, so that no one always follows the same neighbour.
        for entry in entries.values() if turn % 2 == 0 else reversed(entries.values()):
            if turn % _SELDOM == 0 or not entry.seldom:
                entry.attempt(entry.take_turn, turn)
    for entry in entries.values():
        entry.attempt(entry.count_clipped)
    return entries


def _row(entry: Entry, entries: Mapping[str, Entry], flops: int) -> Row:
    job, times = entry.worker.job, entry.times
    row: Row = {"model": job.model, "threads": job.threads, "contender": entry.name, "reason": entry.reason}
    if not times:
        return row
    if entry.name == COPY:
        return row | _times(times) | {"gb_per_second": COPY_BYTES / statistics.median(times.values()) / 1e9}
    row |= _times(times) | _speed(times, entries, SGEMM_FLOPS if entry.name == SGEMM else flops)
    if entry.name != SGEMM:  # which is not a step
        base = entries[PLAIN].peak_mb if PLAIN in entries else None
        row |= _ratios(times, entries) | {
            "peak_mb": entry.peak_mb,
            "peak_ratio": entry.peak_mb / base if entry.peak_mb is not None and base else None,
            "clipped": entry.clipped,
        }
    return row


def _floor(entries: Mapping[str, Entry], flops: int) -> list[Row]:
    """A row as if it were a contender's, if what it is computed from took part."""
    if not (SGEMM in entries and COPY in entries):
        return []
    job = entries[SGEMM].worker.job
    times = floor_times(entries[SGEMM].times, entries[COPY].times, flops, traffic(job.model))
    row: Row = {"model": job.model, "threads": job.threads, "contender": FLOOR, "reason": None}
    return [row | _times(times) | _speed(times, entries, flops) | _ratios(times, entries)] if times else []


def _times(times: Times) -> Row:
    low, median, high = quartiles(list(times.values()))
    return {"turns": len(times), "ms": 1e3 * median, "ms_low": 1e3 * low, "ms_high": 1e3 * high}


def _speed(times: Times, entries: Mapping[str, Entry], flops: int) -> Row:
    speed = ratio(entries[SGEMM].times, times) if SGEMM in entries else None  # of products of matrices to steps
    gflops = flops / statistics.median(times.values()) / 1e9
    return {"gflops": gflops, "sgemm_fraction": None if speed is None else speed * flops / SGEMM_FLOPS}


def _ratios(times: Times, entries: Mapping[str, Entry]) -> Row:
    plain, layout = (entries[name].times if name in entries else {} for name in (PLAIN, SAME_LAYOUT))
    return {"ratio_plain": ratio(times, plain), "ratio_same_layout": ratio(times, layout)}


def ratio(ours: Times, theirs: Times) -> float | None:
    """Median over the rounds in which both took their turn: what disturbs one disturbs the other."""
    common = ours.keys() & theirs.keys()
    return statistics.median(ours[turn] / theirs[turn] for turn in common) if common else None


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def main() -> None:
    from targets import judged_steps, targets_table

    arguments = parser(__doc__, REPETITIONS)
    add_threads(arguments)
    arguments.add_argument("--json", type=Path, help="write the rows to this file as well")
    options = arguments.parse_args()
    rows = []
    for model, threads in itertools.product(options.models, options.threads):
        print(f"{model}, {threads} thread(s)", file=sys.stderr)
        rows += measure(model, threads, options.repetitions)
    for table in (steps_table(rows), targets_table(judged_steps(rows)), headline_table(rows)):
        print(markdown(table))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

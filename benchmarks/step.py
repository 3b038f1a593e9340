"""Milliseconds and memory of one training step, against plain PyTorch and every mode of Opacus.

    python benchmarks/step.py [--models cnn] [--threads 1 2] [--repetitions 15] [--json FILE]

Every contender lives in a process of its own and they take turns, so that no two run at once and a noisy machine is
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
from typing import Any

from contenders import (
    CONTENDERS,
    FIXED_THRESHOLD,
    GHOST,
    ONLINE,
    OPACUS,
    PER_EXAMPLE,
    PLAIN,
    SAME_LAYOUT,
    SGEMM,
    SGEMM_FLOPS,
    Job,
    useful_flops,
)
from options import add_threads, parser, rounds
from workers import FailedError, Worker, started

from dp_bench.report.render.markdown import markdown
from dp_bench.report.table import Column, Table

REPETITIONS = 15
_TURN = 0.06  # seconds of work at least: a short step is timed several times in a row
# Opacus' steps of more seconds than this take their turn in every third round only: large ratios need fewer.
_LONG, _SELDOM = 0.1, 3

Row = dict[str, Any]
Times = dict[int, float]  # round -> seconds a step


@dataclass
class Entry:
    """A contender in the race; from its first failure on it only has a reason."""

    worker: Worker
    reason: str | None = None
    peak_mb: float | None = None
    once: float = math.inf  # seconds of a first step
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
        except FailedError as error:
            self.reason = str(error)
            self.times.clear()
            print(f"  {self.name} is left out: {error}", file=sys.stderr)

    def weigh(self) -> None:
        self.peak_mb, self.once = self.worker.memory()

    def take_turn(self, turn: int) -> None:
        self.times[turn] = self.worker.steps(math.ceil(_TURN / self.once))


def measure(
    model: str,
    threads: int,
    repetitions: int = REPETITIONS,
    contenders: Sequence[str] = tuple(CONTENDERS),
    rows: int | None = None,
) -> list[Row]:
    """A row for each contender; of one that cannot run this model, the reason."""
    with started([Job(name, model, threads, rows=rows) for name in contenders]) as workers:
        entries = {worker.job.contender: Entry(worker) for worker in workers}
        for entry in entries.values():
            entry.attempt(entry.worker.ready)
        for entry in entries.values():
            entry.attempt(entry.weigh)
        ours = [entry.once for entry in entries.values() if entry.name not in OPACUS and entry.reason is None]
        for turn in range(rounds(repetitions, max(ours, default=math.inf))):
            # There and back, so that no one always follows the same neighbour.
            for entry in entries.values() if turn % 2 == 0 else reversed(entries.values()):
                if turn % _SELDOM == 0 or not entry.seldom:
                    entry.attempt(entry.take_turn, turn)
    flops = useful_flops(model)
    return [_row(entry, entries, flops) for entry in entries.values()]


def _row(entry: Entry, entries: Mapping[str, Entry], flops: int) -> Row:
    job, times = entry.worker.job, entry.times
    row: Row = {"model": job.model, "threads": job.threads, "contender": entry.name, "reason": entry.reason}
    if not times:
        return row
    plain, layout, product = (entries[name].times if name in entries else {} for name in (PLAIN, SAME_LAYOUT, SGEMM))
    low, median, high = quartiles(list(times.values()))
    if entry.name == SGEMM:
        flops = SGEMM_FLOPS
    speed = ratio(product, times)  # of products of matrices to steps
    row |= {
        "turns": len(times),
        "ms": 1e3 * median,
        "ms_low": 1e3 * low,
        "ms_high": 1e3 * high,
        "gflops": flops / median / 1e9,
        "sgemm_fraction": None if speed is None else speed * flops / SGEMM_FLOPS,
    }
    if entry.name != SGEMM:  # which is not a step
        base = entries[PLAIN].peak_mb if PLAIN in entries else None
        row |= {
            "ratio_plain": ratio(times, plain),
            "ratio_same_layout": ratio(times, layout),
            "peak_mb": entry.peak_mb,
            "peak_ratio": entry.peak_mb / base if entry.peak_mb is not None and base else None,
        }
    return row


def ratio(ours: Times, theirs: Times) -> float | None:
    """Median over the rounds in which both took their turn: what disturbs one disturbs the other."""
    common = ours.keys() & theirs.keys()
    return statistics.median(ours[turn] / theirs[turn] for turn in common) if common else None


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def steps_table(rows: Sequence[Row]) -> Table:
    numbers = ("ms", "quartiles", "× plain", "× our layout", "peak MB", "× plain", "of sgemm", "turns")
    return Table(
        name="steps",
        caption="One training step, batch size 512: median milliseconds, and ratios of neighbours in time",
        head=("model", Column("threads", "number"), "step", *(Column(heading, "number") for heading in numbers)),
        rows=[_cells(row) for row in rows],
        notes=(
            "Peak MB: what half a second of steps, three or more, adds to the resident set once libraries are loaded. "
            "Of sgemm: the floating-point operations of a plain step's forward and backward pass per second, as a "
            "fraction of a 1024³ matrix product's.",
            *(f"{r['contender']} does not run the {r['model']}: {r['reason']}" for r in rows if r["reason"]),
        ),
    )


def _cells(row: Row) -> tuple[str, ...]:
    first = (row["model"], str(row["threads"]), row["contender"])
    if row["reason"]:
        return (*first, "does not run", *[""] * 7)
    spread = f"{number(row['ms_low'])} to {number(row['ms_high'])}"
    rest = ("ratio_plain", "ratio_same_layout", "peak_mb", "peak_ratio", "sgemm_fraction")
    return (*first, number(row["ms"]), spread, *(number(row.get(key)) for key in rest), str(row.get("turns", "")))


def headline_table(rows: Sequence[Row]) -> Table:
    """Times a plain step. Opacus twice: the modes that could release what Online releases, and ghost clipping."""
    lines = []
    for model, threads in dict.fromkeys((r["model"], r["threads"]) for r in rows):
        ratios = of(rows, model, threads, "ratio_plain")
        per_example = [ratios[name] for name in PER_EXAMPLE if ratios.get(name)]
        ours = (ratios.get(name) for name in (SAME_LAYOUT, FIXED_THRESHOLD, ONLINE))
        cells = (*ours, min(per_example, default=None), ratios.get(GHOST))
        milliseconds = number(of(rows, model, threads, "ms").get(PLAIN))
        lines.append((model, str(threads), milliseconds, *map(number, cells)))
    numbers = ("threads", "plain, ms", "plain, our layout", "FixedThreshold", "Online")
    numbers += ("Opacus, fastest per-example mode", "Opacus, ghost clipping")
    return Table(
        name="headline",
        caption="Times a plain PyTorch step",
        head=("model", *(Column(heading, "number") for heading in numbers)),
        rows=lines,
        notes=("Ghost clipping has no per-example gradients and cannot release the second sum of Online.",),
    )


def of(rows: Sequence[Row], model: str, threads: int, key: str) -> dict[str, float]:
    """One number of every contender that has it."""
    here = [row for row in rows if (row["model"], row["threads"]) == (model, threads)]
    return {row["contender"]: row[key] for row in here if row.get(key) is not None}


def number(value: float | None) -> str:
    """Three digits; nothing if absent."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


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

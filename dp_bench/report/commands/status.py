"""`dp-bench status`: how far a sweep is, read from its store, wherever it runs."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from dp_bench.arguments import command_parser
from dp_bench.experiment.record import RunRecord
from dp_bench.experiment.store import RunFolder
from dp_bench.report import names
from dp_bench.report.load.collect import collect, profiles
from dp_bench.report.table import decimals, printed
from dp_bench.sweep.terminal import GridName, print_table, short_names
from dp_bench.tasks import TASKS

COLUMNS = ("data set", "strategy", "k", "epsilon", "done", "running", "stopped", "diverged", "best", "time left")


def main(argv: Sequence[str]) -> int:
    parser = command_parser(
        "status",
        "Show how far the runs in a store are, one line per grid: also of a sweep that runs elsewhere.",
        "examples:\n  dp-bench status\n  dp-bench status --runs /shared/runs --profile paper",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs are (default: runs)")
    parser.add_argument("--profile", help="only the runs of this profile (default: all)")
    options = parser.parse_args(argv)
    there = profiles(options.runs, "start with dp-bench run --help")
    for profile in [options.profile] if options.profile else there:
        collection = collect(options.runs, profile)
        print(f"{profile}: {names.plural(len(collection.runs), 'run')}")
        print_table(COLUMNS, rows(options.runs, collection.runs))
        for skipped in collection.skipped[:3]:
            print(f"skipped {skipped.folder}: {skipped.reason}")
    return 0


def rows(root: Path, runs: Sequence[RunRecord]) -> list[list[str]]:
    grids: dict[str, list[RunRecord]] = {}
    for run in runs:
        grids.setdefault(str(run.spec.grid_folder), []).append(run)
    short = short_names(run.spec for run in runs)
    return [_row(root, short[name], members, runs) for name, members in grids.items()]


def _row(root: Path, name: GridName, members: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    done = [run for run in members if run.result]
    unfinished = [run for run in members if not run.result]
    running = [run for run in unfinished if RunFolder(root, run.spec).is_running()]
    diverged = sum(run.status == "diverged" for run in done)
    counts = [str(len(done)), *(str(n or "-") for n in (len(running), len(unfinished) - len(running), diverged))]
    return [*name.cells, *counts, _best(done), _left(unfinished, running, runs)]


def _best(done: Sequence[RunRecord]) -> str:
    best = float("nan")
    for run in done:
        value = run.result.best.number if run.result else best
        if run.status != "diverged" and TASKS[run.spec.dataset.name].better(value, best):
            best = value
    shown = printed(done[0].spec.dataset.name, best) if done else None
    return "-" if shown is None else decimals(shown)


def _left(unfinished: Sequence[RunRecord], running: Sequence[RunRecord], runs: Sequence[RunRecord]) -> str:
    """By what finished runs of the same data set took; of those that are running, as many at a time."""
    if not running:
        return "-"
    seconds = [r.provenance.seconds for r in runs if r.result and r.spec.dataset.name == running[0].spec.dataset.name]
    known = [value for value in seconds if value == value]
    if not known:
        return "?"
    share = sum(1 - max(run.columns().get("step", [0.0])) / max(run.spec.steps, 1) for run in unfinished)
    return f"{statistics.median(known) * share / len(running) / 60:.0f} min"

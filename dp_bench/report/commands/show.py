"""`dp-bench show`: one run in words: what was asked, what it reached, what it spent, how to get it again."""

import math
from collections.abc import Sequence
from pathlib import Path

from dp_bench.arguments import command_parser
from dp_bench.errors import invalid
from dp_bench.experiment.folder_names import LEVELS, departures
from dp_bench.experiment.record import RunRecord
from dp_bench.experiment.rerun_command import command
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import SPENDS_AGAIN, RunFolder
from dp_bench.report import names
from dp_bench.report.cells import ledger_line
from dp_bench.report.load.collect import collect, profiles
from dp_bench.report.load.results import results
from dp_bench.report.table import decimals, printed
from dp_bench.sweep.terminal import sparkline
from dp_bench.tasks import TASKS

_MOST_NAMES = 5


def main(argv: Sequence[str]) -> int:
    parser = command_parser(
        "show",
        "Explain one run: its spec in words, its curve, its budget, how to resume or repeat it.",
        "examples:\n  dp-bench show runs/quick/default/mnist/online/k5/eps3/lr=0.3162/seed0\n"
        "  dp-bench show --runs reports/reference/runs mnist/online/k5/eps3",
    )
    parser.add_argument("run", metavar="PATH|NAME", help="the folder of a run, or a part of its name")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs are (default: runs)")
    options = parser.parse_args(argv)
    root, name = place(options.runs, options.run)
    print(text(find(root, name), root))
    return 0


def place(root: Path, wanted: str) -> tuple[Path, str]:
    """The store and the name of a run's folder; what is not a folder is part of a name."""
    folder = Path(wanted).resolve()
    parts = folder.parts
    if not folder.is_dir() or len(parts) <= len(LEVELS):
        return root, wanted
    return Path(*parts[: -len(LEVELS)]), "/".join(parts[-len(LEVELS) :])


def find(root: Path, wanted: str) -> RunRecord:
    """The one run that is meant; where a part of a name fits the seeds of one point, the first of them."""
    name = wanted.strip("/")
    there = profiles(root, "the reference runs are in reports/reference/runs")
    chosen = [name.partition("/")[0]] if name.partition("/")[0] in there else there
    runs = [run for profile in chosen for run in collect(root, profile).runs if name in run.folder]
    # A name of whole parts before one that is cut short: clip=1 is not clip=10.
    exact = [run for run in runs if f"/{name}/" in f"/{run.folder}/"] or runs
    points = {run.spec.folder.parent for run in exact}
    if len(points) == 1:
        return exact[0]
    tails = {"/".join(point.parts[LEVELS.index("dataset") :]) for point in points}  # short enough to type
    shown = sorted(tails if len(tails) == len(points) else map(str, points))
    some = ", ".join(shown[:_MOST_NAMES]) + ", ..." * (len(shown) > _MOST_NAMES)
    found = f"{wanted}, which fits {len(points)} points ({some})" if points else f"{wanted}, which fits none"
    raise invalid("PATH|NAME", f"one run in {root}", found, "give more of its name; dp-bench status lists the grids")


def text(run: RunRecord, root: Path) -> str:
    (grid,) = results([run], seeds=1).values()
    paragraphs = [[run.folder], _spec(run.spec), _reached(run, root), [f"budget: {ledger_line(grid)}"], _again(run)]
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


def _spec(spec: RunSpec) -> list[str]:
    task, key = TASKS[spec.dataset.name], names.epsilon(spec.epsilon)
    budget = f"one point of a grid of k = {spec.grid.k} with ε = {key}" if spec.privacy else "without privacy"
    if spec.winner_only and spec.allocation and spec.allocation.trials:
        tried = f"a secret, {spec.allocation.trials.distribution} number of trials over a grid of k = {spec.grid.k}"
        budget = f"the winner of {tried} with ε = {key}, all that may be released of it"
    found = [
        f"{names.strategy(spec.strategy)} on {names.dataset(spec.dataset.name)} ({task.model_title}), {budget}, "
        f"seed {spec.seed}: {names.point(spec.strategy, spec.swept)}",
        f"{spec.steps:,} steps of {spec.train.batch_size} examples on average, of {spec.source.train_rows:,} "
        f"({spec.source.kind}); evaluated every {spec.train.evaluate_every} steps on {spec.source.test_rows:,}",
    ]
    found += [f"data: {'; '.join(spec.source.caveats)}"] if spec.source.caveats else []
    others = ", ".join(departures(spec.variant))
    return [*found, f"departs from the defaults by {others}"] if others else found


def _reached(run: RunRecord, root: Path) -> list[str]:
    task, columns = TASKS[run.spec.dataset.name], run.columns()
    state = run.status
    if run.result is None:
        state += ", running now" if RunFolder(root, run.spec).is_running() else ", not running"
    found = [f"status: {state}" + (f" ({run.result.reason})" if run.result and run.result.reason else "")]
    if run.result:
        best, final = (printed(run.spec.dataset.name, e.number) for e in (run.result.best, run.result.final))
        value = ["no value" if number is None else decimals(number) for number in (best, final)]
        found.append(f"{task.metric_axis}: best {value[0]} at step {run.result.best.step}, last {value[1]}")
    for name, values in columns.items():
        if name not in ("step", "epsilon") and len(set(values)) > 1:
            label = task.metric if name == task.metric else f"{names.axis(run.spec.strategy, name)}_t"
            ends = [value for value in values if math.isfinite(value)] or [math.nan]
            found.append(f"{label:>10}  {sparkline(values)}  {ends[0]:.4g} to {ends[-1]:.4g}")
    return found


def _again(run: RunRecord) -> list[str]:
    again = command("run", run.spec, [run.spec.seed])
    if run.result is None:
        return [f"resume: {again}"]
    secret = SPENDS_AGAIN if run.spec.privacy and run.spec.secure else ""
    if run.spec.winner_only:
        return [f"search again, which is a second release and spends the budget again: {again} runs=ANOTHER_FOLDER"]
    return [
        f"repeat{secret}: {again} runs=ANOTHER_FOLDER",
        f"the same bits need commit {names.commit(run.provenance.commit)} (arithmetic {run.provenance.arithmetic}), "
        "its versions and the same kind of processor",
        f"checksums: spec {run.result.digest[:16]}, metrics {(run.result.metrics_sha256 or 'not stored')[:16]}",
    ]

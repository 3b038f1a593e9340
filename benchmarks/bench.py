"""Everything that `make bench` measures, as tables, JSON and a figure in reports/bench.

    python benchmarks/bench.py [--models cnn] [--threads 1 2] [--repetitions 15] [--out reports/bench]

One thread unless told otherwise: 20 to 40 minutes on a quiet machine of two cores. On a busy one ratios still mean
something, milliseconds do not.
"""

import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import collecting
import figure
import growth
import step
import together
from contenders import SGEMM
from options import add_threads, parser
from step_tables import headline_table, number, steps_table
from targets import Judged, judged_rest, judged_steps, targets_table

from dp_bench.files.atomic import write_atomically
from dp_bench.report.render.markdown import markdown
from dp_bench.report.table import Column, Table


def measure(models: Sequence[str], threads: Sequence[int], repetitions: int, out: Path) -> dict[str, Any]:
    """All parts. One that fails is named, the others run, and what there is is written to `out` after each."""
    started = time.monotonic()
    fewer = max(1, repetitions // 3)
    results: dict[str, Any] = {"machine": _machine(), "load_before": os.getloadavg(), "models": list(models)}
    results |= {"steps": [], "growth": [], "together": [], "whole_run": None, "failed": {}}

    def part(name: str, work: Callable[[], None]) -> None:
        print(name, file=sys.stderr)
        try:
            work()
        except Exception as error:
            results["failed"][name] = f"{type(error).__name__}: {error}"
            print(f"  failed: {error}", file=sys.stderr)
        results["minutes"] = round((time.monotonic() - started) / 60, 1)
        write(results, out)

    for model, count in itertools.product(models, threads):
        rows = partial(step.measure, model, count, repetitions)
        part(f"steps, {model}, {count}", lambda rows=rows: results["steps"].extend(rows()))
    for model in models:
        part(f"growth, {model}", lambda m=model: results["growth"].append(growth.batch_growth(m, fewer)))
    if "bag_of_words" in models:
        part("growth with parameters", lambda: results["growth"].append(growth.parameter_growth(fewer)))
    for model in models:
        part(f"two processes, {model}", lambda m=model: results["together"].append(together.measure(m, fewer)))
    part("two processes, sgemm", lambda: results["together"].append(together.measure(SGEMM, fewer)))
    part("collecting results", lambda: results["growth"].append(collecting.measure(fewer)))
    if "bag_of_words" in models:
        part("a whole run", lambda: results.update(whole_run=_whole_run(out)))
    return results


def write(results: Mapping[str, Any], out: Path) -> None:
    """bench.json, bench.md, bench.png and bench.pdf."""
    judged = _judged(results)
    verdicts = [{**asdict(j), "met": j.met} for j in judged]
    write_atomically(out / "bench.json", (json.dumps({**results, "targets": verdicts}, indent=1) + "\n").encode())
    steps = results["steps"]
    tables = [
        headline_table(steps),
        targets_table(judged),
        steps_table(steps),
        *_other_tables(results),
    ]
    text = "\n".join(["# Speed", "", _circumstances(results), "", *(markdown(table) for table in tables)])
    write_atomically(out / "bench.md", text.encode())
    if steps:
        figure.save(steps, results["growth"], out)


def _judged(results: Mapping[str, Any]) -> list[Judged]:
    rest = judged_rest(results["models"], results["growth"], results["together"], results["whole_run"])
    return judged_steps(results["steps"]) + rest


def _whole_run(out: Path) -> dict[str, Any]:
    """In a process of its own, like a user's."""
    command = [sys.executable, str(Path(__file__).with_name("whole_run.py")), "--root", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    whole: dict[str, Any] = json.loads(done.stdout)
    return whole


def _other_tables(results: Mapping[str, Any]) -> list[Table]:
    tables = [
        Table(
            "growth",
            "Online, one thread: exponent of a step's time; and of the time to collect runs for a report",
            ("model", "against", "sizes", "ms", Column("exponent", "number"), Column("of the last two", "number")),
            tuple(
                (
                    g["model"],
                    g["against"],
                    ", ".join(f"{size:,}" for size in g["sizes"]),
                    ", ".join(number(ms) for ms in g["ms"]),
                    f"{g['exponent']:.2f}",
                    f"{g['exponent_of_the_last_two']:.2f}",
                )
                for g in results["growth"]
            ),
        ),
        Table(
            "together",
            "Online: throughput of two processes of one thread over that of one; sgemm's for comparison",
            ("model", *(Column(heading, "number") for heading in ("ratio", "lowest", "highest"))),
            tuple(
                (t["model"], *(f"{value:.2f}" for value in (t["ratio"], min(t["ratios"]), max(t["ratios"]))))
                for t in results["together"]
            ),
        ),
    ]
    if whole := results["whole_run"]:
        columns = ("seconds", "step_ms", "evaluation_ms", "checkpoint_ms", "ratio", "checkpoint_share")
        caption = f"A whole FixedThreshold run of the bag of words: {whole['steps']:,} steps, "
        cells = (number(whole[column]) for column in columns)
        headings = ("seconds", "step, ms", "evaluation, ms", "checkpoint, ms", "run / parts", "share of checkpoints")
        caption += f"{whole['evaluations']} evaluations and checkpoints"
        tables.append(Table("whole_run", caption, [Column(heading, "number") for heading in headings], [tuple(cells)]))
    return tables


def _machine() -> dict[str, Any]:
    """What the numbers depend on; no names of hosts or people, so that it can be shown to anyone."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return {
        "processor": model or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("torch", "opacus", "dp_bench")},
    }


def _circumstances(results: Mapping[str, Any]) -> str:
    m = results["machine"]
    busy = results["load_before"][0]
    quiet = ": not quiet, so trust the ratios only" if busy > 0.5 else ""
    return (
        f"{m['processor']}, {m['cores']} cores, torch {m['torch']}, Opacus {m['opacus']}; "
        f"{results['minutes']} minutes; load before it began {busy:.1f}{quiet}."
    )


def main() -> None:
    arguments = parser(__doc__, step.REPETITIONS)
    add_threads(arguments)
    arguments.add_argument("--out", type=Path, default=Path("reports/bench"))
    options = arguments.parse_args()
    results = measure(options.models, options.threads, options.repetitions, options.out)
    print(markdown(targets_table(_judged(results))))
    print(_circumstances(results), "\n")
    print(markdown(headline_table(results["steps"])))
    print(f"All of it: {options.out / 'bench.md'}, bench.json, bench.png and bench.pdf")
    if results["failed"]:
        sys.exit("\n".join(f"{name} failed: {why}" for name, why in results["failed"].items()))


if __name__ == "__main__":
    main()

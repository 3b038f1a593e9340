"""Whether this machine gives the bits of a stored run: one that is cheap is trained again, and compared."""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from dp_bench.arguments import command_parser
from dp_bench.errors import UserError
from dp_bench.experiment.record import RunRecord, record_of
from dp_bench.experiment.rerun_command import overrides
from dp_bench.experiment.store import read_stored
from dp_bench.report import names
from dp_bench.report.load.collect import collect

_CHEAP = 120.0  # seconds that it took where it was made
_DATA = "the data here are others, or cannot be had"


def main(argv: Sequence[str]) -> int:
    parser = command_parser(
        "repeat",
        "Train the cheapest stored run of today's arithmetic again, and compare it bit for bit.",
        "example:\n  dp-bench repeat --runs reports/reference/runs",
    )
    parser.add_argument("--runs", type=Path, default=Path("reports/reference/runs"), help="where the stored runs are")
    parser.add_argument("--profile", default="verify", help="which of them (default: verify)")
    options = parser.parse_args(argv)
    print(same_bits(collect(options.runs, options.profile).runs))
    return 0


def same_bits(stored: Iterable[RunRecord]) -> str:
    """The answer in one line: yes, or no and why."""
    from dp_bench.training.trainer import ARITHMETIC  # torch, which no other part of the report needs

    # Of a halved grid no run can be repeated by itself.
    found = [run for run in stored if run.result and not run.spec.secure and not run.spec.ranked_seeds]
    today = [run for run in found if run.provenance.arithmetic == ARITHMETIC]
    if not today:
        numbers = {run.provenance.arithmetic for run in found}
        made = " to ".join(dict.fromkeys(f"{end(numbers, default='none')}" for end in (min, max)))
        words = f"the stored runs were made by arithmetic {made} and this is {ARITHMETIC}"
        return _no(f"{words}; another arithmetic draws other noise")
    cheap = [run for run in today if run.provenance.seconds <= _CHEAP]
    if not cheap:
        return _no(f"no stored run of arithmetic {ARITHMETIC} took less than {_CHEAP:.0f} s; none was repeated")
    return compared(min(cheap, key=lambda run: (run.provenance.seconds, run.folder)))


def compared(run: RunRecord) -> str:
    """Train the run again in a folder of its own, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "import sys; from dp_bench.cli import main; sys.exit(main())", "run"]
        command += [*overrides(run.spec), f"seeds=[{run.spec.seed}]", f"runs={folder}", "quiet=true"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return _no(
                f"{run.folder} could not be trained: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
            )
        try:
            again = record_of(read_stored(Path(folder), run.folder))
        except (OSError, UserError):
            return _no(f"{_DATA}: {run.folder} was trained under another name")
    if again.spec.source.checksums != run.spec.source.checksums:
        return _no(_DATA)
    if again.metrics == run.metrics:
        return f"this machine gives the same bits: yes ({run.folder}, {len(run.metrics.splitlines()) - 1} evaluations)"
    there, here = run.metrics.splitlines(), again.metrics.splitlines()
    step = next(a.partition(",")[0] for a, b in zip_longest(there, here, fillvalue="") if a != b)
    return _no(f"{run.folder} differs from step {step} on; {_differences(run, again)}")


def _no(reason: str) -> str:
    return f"this machine gives the same bits: no, because {reason}"


def _differences(there: RunRecord, here: RunRecord) -> str:
    """What is known to differ between the two machines."""
    facts = [
        {**run.provenance.machine, **run.provenance.versions, "commit": names.commit(run.provenance.commit)}
        for run in (there, here)
    ]
    differing = [name for name in facts[0] if facts[0][name] != facts[1].get(name)]
    each = ", ".join(f"{name} {facts[0][name]} there and {facts[1].get(name)} here" for name in differing)
    return each or "nothing that is recorded about the two machines differs"

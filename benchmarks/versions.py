"""What a step costs here, as a ratio to another revision of this repository.

    python benchmarks/versions.py REVISION [--models cnn] [--threads 1] [--repetitions 15]

The other revision is checked out into a temporary folder. Both versions have a process of their own for each strategy
and take turns, so that a noisy machine is noisy for both.
"""

import contextlib
import itertools
import math
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from contenders import FIXED_THRESHOLD, ONLINE, Job
from options import add_threads, parser, rounds
from step import Times, quartiles, ratio
from workers import Worker

from dp_bench.report.render.markdown import markdown
from dp_bench.report.table import Column, Table

REPETITIONS = 15
_HERE = Path(__file__).resolve().parents[1]
_TURN = 0.06  # seconds of work at least


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A temporary folder with the files of `revision`."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", _HERE, "archive", revision], check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def compare(job: Job, other: Path, repetitions: int) -> tuple[Times, Times]:
    """Seconds of a step by round, of this tree and of the other."""
    with Worker(job) as ours, Worker(job, other) as theirs:
        times: dict[Worker, Times] = {ours: {}, theirs: {}}
        for worker in times:
            worker.ready()
        once = max(worker.memory()[1] for worker in times)
        for turn in range(rounds(repetitions, once)):
            for worker in times if turn % 2 == 0 else reversed(times):
                times[worker][turn] = worker.steps(math.ceil(_TURN / once))
    return times[ours], times[theirs]


def versions_table(revision: str, models: Sequence[str], threads: Sequence[int], repetitions: int) -> Table:
    rows = []
    with checked_out(revision) as other:
        for model, count, contender in itertools.product(models, threads, (FIXED_THRESHOLD, ONLINE)):
            ours, theirs = compare(Job(contender, model, count), other, repetitions)
            low, _, high = quartiles([ours[turn] / theirs[turn] for turn in ours])
            milliseconds = (f"{1e3 * statistics.median(times.values()):.2f}" for times in (ours, theirs))
            rows.append(
                (model, str(count), contender, *milliseconds, f"{ratio(ours, theirs):.3f}", f"{low:.3f} to {high:.3f}")
            )
    numbers = (Column(name, "number") for name in ("ms here", "ms there", "ratio", "quartiles"))
    caption = f"Time of a step against revision {revision}: median of the ratios of neighbours in time"
    return Table(name="versions", caption=caption, head=("model", "threads", "step", *numbers), rows=rows, notes=())


def main() -> None:
    options = parser(__doc__, REPETITIONS)
    options.add_argument("revision")
    add_threads(options)
    given = options.parse_args()
    print(markdown(versions_table(given.revision, given.models, given.threads, given.repetitions)))


if __name__ == "__main__":
    main()

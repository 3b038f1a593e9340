"""One contender, one process: set up as its user would, asked for steps through a pipe, idle while others step.

    worker = Worker(Job("dp_bench Online", "cnn", threads=1))
    worker.ready(); worker.memory(); worker.steps(3)

The parent writes a line, the worker answers with a line of JSON. A worker whose parent is gone finds its pipe closed
and ends.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from contenders import OUR_WAY, Job, build, warm_up
from job import share
from protocol import Share, Step, serve

_TREE = Path(__file__).resolve().parents[1]
# An OpenMP thread spins for a moment when its work is done; the next contender must not share a core with it.
_PAUSE = 0.01


class FailedError(Exception):
    """Why a contender cannot run, in one line."""


class Worker:
    """The parent's end."""

    def __init__(self, job: Job, tree: Path = _TREE, command: Sequence[str | Path] = ()) -> None:
        """`tree`: the checkout whose code takes the steps, by default this one. `command`: another program does."""
        self.job = job
        threads = str(job.threads)
        # Huge pages are what dp_bench asks for; others' users would not have them.
        pages = {} if job.contender in OUR_WAY else {"THP_MEM_ALLOC_ENABLE": "0"}
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            command or [sys.executable, tree / "benchmarks" / Path(__file__).name, json.dumps(job.to_json())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(tree),
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
                **pages,
            },
        )

    def ready(self) -> None:
        """Wait until it is built. Many may build concurrently: nothing is timed yet."""
        self._hear()

    def memory(self) -> tuple[float | None, float]:
        """MB that a few steps add to the peak resident set (None if no one tells), and seconds of the last."""
        answer = self._ask("memory")
        return answer["mb"], answer["seconds"]

    def steps(self, count: int) -> float:
        """Seconds of one of `count` steps."""
        time.sleep(_PAUSE)
        return float(self._ask(f"steps {count}")["seconds"])

    def share(self) -> float | None:
        """Of examples that are clipped with the parameters as they are now; None if it does not clip."""
        found: float | None = self._ask("share")["share"]
        return found

    def start(self, seconds: float) -> None:
        """Begin to step, for so long or a little longer, and do not wait: for two concurrently. `finish` waits."""
        self._tell(f"during {seconds}")

    def finish(self) -> float:
        """Steps a second."""
        return float(self._hear()["rate"])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._complaints.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ask(self, question: str) -> dict[str, Any]:
        self._tell(question)
        return self._hear()

    def _tell(self, question: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        except OSError:
            raise FailedError(self._last_words()) from None

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise FailedError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise FailedError(answer["error"])
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._complaints.seek(0)
        lines = self._complaints.read().strip().splitlines()
        return f"ended with exit code {code}" + (f": {lines[-1][:200]}" if lines else "")


@contextlib.contextmanager
def started(jobs: list[Job]) -> Iterator[list[Worker]]:
    """Workers for all jobs, building at the same time."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Worker(job)) for job in jobs]


def _built(job: Job) -> tuple[Step, Share]:
    contender = build(job)
    return contender.step, lambda: share(job, contender)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asked = Job(**json.loads(sys.argv[1]))
    serve(lambda: warm_up(asked), lambda: _built(asked))

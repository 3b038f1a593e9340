"""One contender, one process: set up as its user would, asked for steps through a pipe, idle while others step.

    worker = Worker(Job("dp_bench Online", "cnn", threads=1))
    worker.ready(); worker.memory(); worker.steps(3)

The parent writes a line, the worker answers with a line of JSON. A worker whose parent is gone finds its pipe closed
and ends.
"""

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from contenders import Job, Step, build

_TREE = Path(__file__).resolve().parents[1]
_MEMORY_STEPS, _MEMORY_SECONDS = 3, 0.5  # at least: batches of other sizes need new memory for a while
# An OpenMP thread spins for a moment when its work is done; the next contender must not share a core with it.
_PAUSE = 0.01


class FailedError(Exception):
    """Why a contender cannot run, in one line."""


class Worker:
    """The parent's end."""

    def __init__(self, job: Job, tree: Path = _TREE) -> None:
        """`tree`: the checkout whose code takes the steps, by default this one."""
        self.job = job
        threads = str(job.threads)
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            [sys.executable, tree / "benchmarks" / Path(__file__).name, json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
        )

    def ready(self) -> None:
        """Wait until it is built. Many may build at once: nothing is timed yet."""
        self._hear()

    def memory(self) -> tuple[float | None, float]:
        """MB that a few steps add to the peak resident set (None if unknown), and seconds of the last."""
        answer = self._ask("memory")
        return answer["mb"], answer["seconds"]

    def steps(self, count: int) -> float:
        """Seconds of one of `count` steps."""
        time.sleep(_PAUSE)
        return float(self._ask(f"steps {count}")["seconds"])

    def start(self, seconds: float) -> None:
        """Begin to step, for so long or a little longer, and do not wait: for two at once. `finish` waits."""
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


def serve(job: Job) -> None:
    """The worker's end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is not an answer

    def answer(**content: object) -> None:
        print(json.dumps(content), file=answers)

    try:
        _load_libraries(job)
        step = build(job)
        answer(ready=True)
        for line in sys.stdin:
            question, *arguments = line.split()
            if question == "memory":
                mb, seconds = _memory(step)
                answer(mb=mb, seconds=seconds)
            elif question == "during":
                answer(rate=_rate(step, float(arguments[0])))
            else:
                answer(seconds=_timed(step, int(arguments[0])))
    except Exception as error:
        text = str(error).strip().splitlines()
        answer(error=f"{type(error).__name__}: {text[0][:200] if text else ''}")


def _timed(step: Step, count: int) -> float:
    if count > 1:  # where a step is short, the first finds the cache as the others left it, and no user sees that
        step()
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def _rate(step: Step, seconds: float) -> float:
    count, passed, start = 0, 0.0, time.perf_counter()
    while passed < seconds:
        step()
        count, passed = count + 1, time.perf_counter() - start
    return count / passed


def _load_libraries(job: Job) -> None:
    """By the steps of a small twin: code and work space come to stay with a first step, and are not part of another."""
    twin = build(replace(job, batch=16, rows=64))
    for _ in range(_MEMORY_STEPS):
        twin()
    del twin
    gc.collect()


def _memory(step: Step) -> tuple[float | None, float]:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # or steps would live in what building freed, and seem to need nothing
    before, start, steps = _fresh_peak(), time.perf_counter(), 1
    while steps < _MEMORY_STEPS or time.perf_counter() - start < _MEMORY_SECONDS:
        step()
        steps += 1
    seconds = _timed(step, 1)
    return (None if before is None else (_peak() - before) / 1024), seconds


def _fresh_peak() -> int | None:
    """Forget the peak that importing and building left; None if that cannot be done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _peak()
    except OSError:
        return None


def _peak() -> int:
    """Kilobytes, as Linux counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve(Job(**json.loads(sys.argv[1])))

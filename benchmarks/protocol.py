"""The worker's end of a pipe: a contender answers each line of its parent with a line of JSON.

Imports nothing that is not Python's own, as contenders of `make bench-peers` live in an environment without torch.
"""

import contextlib
import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

_MEMORY_STEPS, _MEMORY_SECONDS = 3, 0.5  # at least: batches of other sizes need new memory for a while

Step = Callable[[], object]
Share = Callable[[], float | None]


def serve(warm_up: Callable[[], object], build: Callable[[], tuple[Step, Share]]) -> None:
    """`build` gives the step, and what tells the share of clipped examples; `warm_up` runs before it."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is not an answer

    def answer(**content: object) -> None:
        print(json.dumps(content), file=answers)

    try:
        warm_up()
        gc.collect()
        step, share = build()
        answer(ready=True)
        for line in sys.stdin:
            question, *arguments = line.split()
            if question == "memory":
                mb, seconds = _memory(step)
                answer(mb=mb, seconds=seconds)
            elif question == "during":
                answer(rate=_rate(step, float(arguments[0])))
            elif question == "share":
                answer(share=share())
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

"""Two runs side by side, a thread each, against one alone: what a sweep gains from a second core.

    python benchmarks/together.py [--models cnn] [--repetitions 5]

Both step all the time, as the jobs of a sweep do, and neither waits for the other: steps a second are what counts.
Matrix products (sgemm) are measured likewise, for comparison: where cores share their arithmetic units, two processes
that need nothing else gain least.
"""

import json
import statistics
from typing import Any

from contenders import ONLINE, SGEMM, Job
from options import parser, rounds
from workers import Worker

REPETITIONS = 5
_TURN, _STEPS = 2.0, 6  # seconds and steps of a turn, at least: both are at it for nearly all of that


def measure(model: str, repetitions: int = REPETITIONS, turn: float = _TURN, rows: int | None = None) -> dict[str, Any]:
    """Online's throughput in two processes over that in one, alternately; of matrix products for the model `sgemm`."""
    job = Job(SGEMM if model == SGEMM else ONLINE, model, 1, rows=rows)
    with Worker(job) as one, Worker(job) as other:
        one.ready()
        other.ready()
        other.steps(1)  # only to warm it up
        once = one.steps(1)
        seconds = max(turn, _STEPS * once)
        ratios = [_rate([one, other], seconds) / _rate([one], seconds) for _ in range(rounds(repetitions, once))]
    return {"model": model, "seconds": seconds, "ratio": statistics.median(ratios), "ratios": ratios}


def _rate(workers: list[Worker], seconds: float) -> float:
    """Steps a second of all of them together."""
    for worker in workers:
        worker.start(seconds)
    return sum([worker.finish() for worker in workers])


def main() -> None:
    options = parser(__doc__, REPETITIONS).parse_args()
    for model in (*options.models, SGEMM):
        print(json.dumps(measure(model, options.repetitions)))


if __name__ == "__main__":
    main()

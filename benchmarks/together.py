"""Two runs side by side, a thread each, against one alone: what a sweep gains from a second core.

    python benchmarks/together.py [--models cnn] [--repetitions 5]

Matrix products (sgemm) are measured likewise, for comparison: where cores share their arithmetic units, two processes
that need nothing else gain least.
"""

import json
import math
import statistics
import time
from typing import Any

from contenders import ONLINE, SGEMM, Job
from options import parser
from workers import Worker

REPETITIONS = 5
_TURN = 1.0  # seconds of work at least: both are at it for nearly all of that


def measure(model: str, repetitions: int = REPETITIONS, turn: float = _TURN, rows: int | None = None) -> dict[str, Any]:
    """Online's throughput in two processes over that in one, alternately; of matrix products for the model `sgemm`."""
    job = Job(SGEMM if model == SGEMM else ONLINE, model, 1, rows=rows)
    with Worker(job) as one, Worker(job) as other:
        one.ready()
        other.ready()
        other.memory()  # only to warm it up
        count = math.ceil(turn / one.memory()[1])
        ratios = []
        for _ in range(repetitions):
            alone, both = _seconds([one], count), _seconds([one, other], count)
            ratios.append(2 * alone / both)
    return {"model": model, "steps": count, "ratio": statistics.median(ratios), "ratios": ratios}


def _seconds(workers: list[Worker], count: int) -> float:
    """Until the last of them is done: what one does faster while the other has ended already is no gain."""
    start = time.perf_counter()
    for worker in workers:
        worker.start(count)
    for worker in workers:
        worker.finish()
    return time.perf_counter() - start


def main() -> None:
    options = parser(__doc__, REPETITIONS).parse_args()
    for model in (*options.models, SGEMM):
        print(json.dumps(measure(model, options.repetitions)))


if __name__ == "__main__":
    main()

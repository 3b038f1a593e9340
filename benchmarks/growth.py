"""How the time of a step grows with the batch and with the model: linearly, or it is a defect.

    python benchmarks/growth.py [--models cnn] [--repetitions 5]

Online, one thread, every size in a process of its own, taking turns as in step.py.
"""

import json
import math
import statistics
from collections.abc import Sequence
from typing import Any

from contenders import ONLINE, Job
from options import parser, rounds
from workers import started

from dp_bench.tasks import TASKS

REPETITIONS = 5
BATCHES = (128, 256, 512, 1024, 2048)
WORDS = (12, 25, 50, 100, 200)  # a bag of words has 6,400 parameters a word, and 17,156 besides
_ROWS = 20_000
_TURN = 0.1  # seconds of work at least


def batch_growth(model: str, repetitions: int = REPETITIONS, sizes: Sequence[int] = BATCHES) -> dict[str, Any]:
    jobs = [Job(ONLINE, model, 1, batch=size, rows=_ROWS) for size in sizes]
    return _growth(model, "batch size", sizes, jobs, repetitions)


def parameter_growth(repetitions: int = REPETITIONS, words: Sequence[int] = WORDS) -> dict[str, Any]:
    """Of the bag of words, whose parameters are nearly all in its first layer."""
    # Inputs grow with the layer: few rows, so that all of them fit into memory.
    jobs = [Job(ONLINE, "bag_of_words", 1, words=count, rows=6_000) for count in words]
    sizes = [sum(p.numel() for p in TASKS["ag_news"].recipe({"words": count}).build().parameters()) for count in words]
    return _growth("bag_of_words", "parameters", sizes, jobs, repetitions)


def _growth(model: str, against: str, sizes: Sequence[int], jobs: list[Job], repetitions: int) -> dict[str, Any]:
    with started(jobs) as workers:
        for worker in workers:
            worker.ready()
        seconds = [worker.memory()[1] for worker in workers]
        counts = [math.ceil(_TURN / once) for once in seconds]
        times = [
            [worker.steps(count) for worker, count in zip(workers, counts, strict=True)]
            for _ in range(rounds(repetitions, max(seconds)))
        ]
    return fitted(model, against, sizes, times)


def fitted(model: str, against: str, sizes: Sequence[int], times: Sequence[Sequence[float]]) -> dict[str, Any]:
    """From the seconds of each size in each round."""
    medians = [1e3 * statistics.median(of_one_size) for of_one_size in zip(*times, strict=True)]
    return {
        "model": model,
        "against": against,
        "sizes": list(sizes),
        "ms": medians,
        "exponent": exponent(sizes, medians),
        # A fixed cost a step hides how the rest grows; it counts least here.
        "exponent_of_the_last_two": exponent(sizes[-2:], medians[-2:]),
    }


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """b of the fit time = a * size^b."""
    slope = statistics.linear_regression([math.log(s) for s in sizes], [math.log(t) for t in times]).slope
    return float(slope)


def main() -> None:
    options = parser(__doc__, REPETITIONS).parse_args()
    for model in options.models:
        print(json.dumps(batch_growth(model, options.repetitions)))
    if "bag_of_words" in options.models:
        print(json.dumps(parameter_growth(options.repetitions)))


if __name__ == "__main__":
    main()

"""Where a step's time goes, by operation and by the shapes it works on.

    python benchmarks/operations.py [--models cnn] [--contender "dp_bench Online"] [--micro-batch 32] [--repetitions 20]

One thread, in this process, under torch's profiler, which slows small operations down: compare the shares.
"""

import collections

import torch
from contenders import CONTENDERS, ONLINE, Job, build
from job import DATASETS
from options import parser, positive
from torch.profiler import ProfilerActivity, profile

from dp_bench.report.render.markdown import markdown
from dp_bench.report.table import Column, Table
from dp_bench.tasks import TASKS

_STEPS = 20
_WARM_UP = 3
_ROWS = 25


def measure(job: Job, steps: int) -> Table:
    """Milliseconds a step of an operation's own code, the largest first; what it calls counts for itself."""
    step = build(job).step
    for _ in range(_WARM_UP):
        step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        for _ in range(steps):
            step()
    own, calls = collections.Counter[tuple[str, str]](), collections.Counter[tuple[str, str]]()
    for event in recorded.events():
        operation = event.name, _shapes(event.input_shapes, job.batch)
        own[operation] += event.self_cpu_time_total / 1e3 / steps
        calls[operation] += 1
    total = sum(own.values())
    rows = [
        (name, shapes, f"{calls[name, shapes] / steps:.1f}", f"{ms:.3f}", f"{100 * ms / total:.1f}")
        for (name, shapes), ms in own.most_common(_ROWS)
    ]
    caption = f"{job.model}, {job.contender}: {total:.2f} ms a step in {sum(calls.values()) / steps:.0f} operations"
    columns = ("operation", "shapes", *(Column(heading, "number") for heading in ("calls", "ms", "%")))
    return Table("operations", caption, columns, rows)


def _shapes(shapes: list[list[int]] | None, batch: int) -> str:
    """Poisson batches are of many sizes, about B: one row for all."""
    near = range(int(0.7 * batch), int(1.3 * batch))
    return " ".join("x".join("B" if size in near else str(size) for size in shape) for shape in shapes or [] if shape)


def main() -> None:
    arguments = parser(__doc__, _STEPS)
    arguments.add_argument("--contender", choices=list(CONTENDERS), default=ONLINE)
    arguments.add_argument("--micro-batch", type=positive, help="instead of the task's own")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    for model in options.models:
        if options.micro_batch:
            TASKS[DATASETS[model]].micro_batch = options.micro_batch
        print(markdown(measure(Job(options.contender, model, 1), options.repetitions)))


if __name__ == "__main__":
    main()

"""Libraries that need an environment of their own against Online: `make bench-peers`.

    python benchmarks/peers.py [--models cnn] [--repetitions 15] [--python .venv-peers/bin/python]

One thread. The same models, data and thresholds as in step.py, the same check before anything is timed, and turns in
the same race; a peer that cannot run a model is left out with the reason. fastDP is not on PyPI, and not here
(docs/performance.md).
"""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import truth
from contenders import ONLINE, PLAIN, Job
from job import batch_of, idiomatic, recipe_of, threshold
from options import parser
from step import REPETITIONS, Entry, race, ratio
from step_tables import number
from workers import Worker

from dp_bench.report.render.markdown import markdown
from dp_bench.report.table import Column, Table

JAX_PRIVACY = "jax_privacy"
MICRO_BATCH = {"cnn": 1, "autoencoder": 1, "bag_of_words": 1}  # fastest; 8 takes 1.7 times as long on the CNN
_HERE = Path(__file__).resolve().parent
_CHECKED = 64  # examples


def write_problem(job: Job, path: Path, with_sum: bool) -> None:
    """Batch, parameters and threshold for a program that has neither torch nor dp_bench."""
    torch.manual_seed(1)  # at 0 the weights would be the numbers that the data are
    way, (x, y) = recipe_of(job), batch_of(job)
    module = idiomatic(way)
    clip = threshold(job, module, x, y)
    arrays = {"parameter": [p.detach() for p in module.parameters()]}
    if with_sum:
        arrays["sum"] = truth.clipped_sum(module, way.losses, x, y, clip)
    named = {f"{kind}_{i}": array.numpy() for kind, every in arrays.items() for i, array in enumerate(every)}
    numbers = {"clip": clip, "noise": job.noise, "lr": job.lr, "count": len(arrays["parameter"])}
    np.savez(path, x=x.numpy(), y=y.numpy(), **named, **numbers)


def peer_command(python: Path, job: Job, folder: Path) -> list[str | Path]:
    check, timed = folder / "check.npz", folder / "timed.npz"
    write_problem(replace(job, batch=_CHECKED, rows=_CHECKED, lr=1.0, noise=1e-9), check, with_sum=True)
    write_problem(job, timed, with_sum=False)
    return [python, _HERE / "peer_jax.py", job.model, str(job.threads), str(MICRO_BATCH[job.model]), check, timed]


def measure(model: str, repetitions: int, python: Path, rows: int | None = None) -> dict[str, Entry]:
    job = Job(JAX_PRIVACY, model, 1)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        command = peer_command(python, job, Path(folder))
        workers = [stack.enter_context(Worker(Job(name, model, 1, rows=rows))) for name in (PLAIN, ONLINE)]
        workers.append(stack.enter_context(Worker(job, command=command)))
        return race(workers, repetitions)


def peers_table(measured: Mapping[str, Mapping[str, Entry]]) -> Table:
    rows: list[tuple[str, ...]] = []
    notes = []
    for model, entries in measured.items():
        for entry in entries.values():
            if entry.reason is not None:
                rows.append((model, entry.name, "does not run", "", "", ""))
                notes.append(f"{entry.name} does not run the {model}: {entry.reason}")
                continue
            over = (ratio(entry.times, entries[name].times) for name in (PLAIN, ONLINE))
            milliseconds = 1e3 * float(np.median(list(entry.times.values())))
            rows.append((model, entry.name, *map(number, (milliseconds, *over, entry.clipped))))
    numbers = (Column(name, "number") for name in ("ms", "× plain", "× Online", "clipped"))
    return Table("peers", "One step, batch size 512, one thread", ("model", "step", *numbers), rows, tuple(notes))


def main() -> None:
    arguments = parser(__doc__, REPETITIONS)
    arguments.add_argument("--python", type=Path, default=Path(".venv-peers/bin/python"))
    options = arguments.parse_args()
    if not options.python.exists():
        arguments.error(f"--python: found no {options.python}; make bench-peers makes it")
    print(markdown(peers_table({m: measure(m, options.repetitions, options.python) for m in options.models})))


if __name__ == "__main__":
    main()

"""Progress of a run: a bar on a terminal, a line now and then elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm

from dp_bench.spec import RunSpec
from dp_bench.tasks import TASKS

_SECONDS_BETWEEN_LINES = 30


@contextlib.contextmanager
def follow(spec: RunSpec) -> Iterator[Callable[[int, dict[str, Any] | None], None]]:
    """A function of (steps done, newest evaluation or None) that shows how a run is getting on."""
    title = f"{spec.dataset.name} {spec.strategy} {spec.point} seed {spec.seed}"
    metric = TASKS[spec.dataset.name].metric
    if sys.stderr.isatty():
        with tqdm(total=spec.steps, desc=title, unit="step", mininterval=0.5) as bar:
            started = False

            def show(step: int, row: dict[str, Any] | None) -> None:
                nonlocal started
                if not started:  # a resumed run: what an earlier session did says nothing about this one's speed
                    started, bar.initial, bar.n = True, step, step
                if row is not None:
                    bar.set_postfix_str(f"{metric} {row[metric]:.4f}, C {row['clip']:.3g}", refresh=False)
                bar.update(step - bar.n)

            yield show
        return
    started, first, told = time.monotonic(), -1, time.monotonic()

    def tell(step: int, row: dict[str, Any] | None) -> None:
        nonlocal first, told
        first = step if first < 0 else first
        now = time.monotonic()
        if row is None or (now - told < _SECONDS_BETWEEN_LINES and step < spec.steps):
            return
        told = now
        left = (now - started) / max(step - first, 1) * (spec.steps - step)
        print(f"{title}: step {step} of {spec.steps}, {metric} {row[metric]:.4f}, {left:.0f} s left", file=sys.stderr)

    yield tell

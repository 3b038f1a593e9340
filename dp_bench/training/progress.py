"""Progress of a run: a bar on a terminal, a line now and then elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from dp_bench.experiment.spec import RunSpec
from dp_bench.tasks import TASKS

_SECONDS_BETWEEN_LINES = 30

Show = Callable[[int, dict[str, Any] | None], None]  # steps done, the evaluation of this step if there was one


def follow(spec: RunSpec) -> AbstractContextManager[Show]:
    """Shows how a run is getting on."""
    title = f"{spec.dataset.name} {spec.strategy} {spec.point} seed {spec.seed}"
    return (_bar if sys.stderr.isatty() else _lines)(spec, title, TASKS[spec.dataset.name].metric)


def silently(spec: RunSpec) -> AbstractContextManager[Show]:
    """Shows nothing."""
    return contextlib.nullcontext(lambda step, row: None)


@contextlib.contextmanager
def _bar(spec: RunSpec, title: str, metric: str) -> Iterator[Show]:
    from tqdm import tqdm

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


@contextlib.contextmanager
def _lines(spec: RunSpec, title: str, metric: str) -> Iterator[Show]:
    started = told = time.monotonic()
    first: int | None = None

    def show(step: int, row: dict[str, Any] | None) -> None:
        nonlocal first, told
        first = step if first is None else first
        now = time.monotonic()
        if row is None or (now - told < _SECONDS_BETWEEN_LINES and step < spec.steps):
            return
        told = now
        left = (now - started) / max(step - first, 1) * (spec.steps - step)
        print(f"{title}: step {step} of {spec.steps}, {metric} {row[metric]:.4f}, {left:.0f} s left", file=sys.stderr)

    yield show

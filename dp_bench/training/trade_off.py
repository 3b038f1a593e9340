"""The paper's clipping trade-off: how near the sanitised gradient is to the true one, against C, during training.

NOT PRIVATE: it compares with true gradients and releases the comparison without noise. So it is a command of its own,
writes into a folder of its own under that label, and neither reads nor writes the run whose training it repeats.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dp_bench import __version__
from dp_bench.data.tensors import Dataset
from dp_bench.errors import invalid
from dp_bench.experiment.config import Config
from dp_bench.experiment.resolve import specs
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import refuse_links
from dp_bench.experiment.trade_off_store import trade_off_folder, write_trade_off
from dp_bench.files import system
from dp_bench.mechanism.noise import release
from dp_bench.mechanism.rng import rng
from dp_bench.privacy.query import Query
from dp_bench.strategies.base import clipped_gradient
from dp_bench.tasks import TASKS
from dp_bench.training.progress import Show, follow, silently
from dp_bench.training.provenance import source_commit
from dp_bench.training.run import check_device, prepare_device
from dp_bench.training.trainer import Training

LABEL = "not private: it reads true gradients"
STEPS = (100, 250, 500, 750, 950)  # the paper's
DRAWS = 20  # the paper's
# The paper prints no range: that of its grids, ten values a decade.
CLIPS = tuple(10 ** (i / 10 - 2) for i in range(41))


class Row(NamedTuple):
    """One line of the data: mean and standard deviation of the cosine over the draws of noise."""

    t: int
    C: float
    cosine: float
    sd: float


class Measurement(NamedTuple):
    rows: list[Row]
    diverged: str | None  # why training ended before the last step that was to be measured


class Observed(Training):
    """A training that can be looked at between two steps and then continues unchanged."""

    def trade_off(self, clips: Sequence[float], draws: int) -> list[Row]:
        """The next step's gradient, sanitised at each C as this strategy would, and the true one.

        On the batch that the next step will draw, since the paper's true gradient is its minibatch's. All sums come
        from one pass; each C has noise of its own, from generators that nothing else draws from.
        """
        multiplier = self.strategy.multipliers()["gradient"]
        clipped = [clipped_gradient(clip, multiplier)._replace(name=repr(clip)) for clip in clips]
        exact = Query("true", "vector", lambda n: n.new_ones(n.shape), math.inf, 0.0)
        before = self.batches.state()
        sums = self._sums([*clipped, exact])
        self.batches.restore(before)
        true = _direction(sums["true"])
        rows = []
        for clip, query in zip(clips, clipped, strict=True):
            noise = rng(self.key, f"trade-off noise t={self.step} C={query.name}", self.device)
            cosines = torch.stack(
                [
                    _direction(release(sums, [query], self.spec.train.batch_size, noise)[query.name]).dot(true)
                    for _ in range(draws)
                ]
            )
            rows.append(Row(self.step, clip, float(cosines.mean()), float(cosines.std())))
        return rows


def _direction(vector: Tensor) -> Tensor:
    """Of length 1, in float64; NaN if it is zero (the gradient of an empty batch)."""
    exact = vector.double()
    length: Tensor = exact.norm()
    return exact / length


def measure(
    spec: RunSpec, dataset: Dataset, steps: Sequence[int], clips: Sequence[float], draws: int, show: Show
) -> Measurement:
    """Train as `run` does, as far as the last of `steps`, and measure before each of them."""
    training = Observed(spec, dataset, prepare_device(spec))
    evaluated = range(0, spec.steps, spec.train.evaluate_every)
    rows: list[Row] = []
    for step in range(steps[-1] + 1):
        if step > 0:
            training.advance()
        if step in evaluated:
            training.evaluate(math.nan)  # for the eyes and to see divergence, when a run does; none of it is kept
            reason = training.divergence()
            if reason is not None:
                return Measurement(rows, f"step {step}: {reason}")
        if step in steps:
            rows += training.trade_off(clips, draws)
        show(step, training.rows[-1] if step in evaluated else None)
    return Measurement(rows, None)


def measure_configuration(config: Config) -> None:
    """Measure the first seed of a configuration, write what was found and print it."""
    spec = specs(config)[0]
    steps = _steps_within(spec)
    folder = Path(config.runs) / trade_off_folder(spec)
    check_device(spec.machine.device)
    refuse_links(folder, len(trade_off_folder(spec).parts))
    system.check_writable(folder)  # now, not after minutes of training
    dataset = TASKS[spec.dataset.name].load(spec.task_options)
    if not config.quiet:
        print("\n".join(_introduction(spec, steps)), flush=True)
    shown = silently if config.quiet else follow
    with shown(replace(spec, steps=steps[-1])) as show:  # the last step that is measured
        found = measure(spec, dataset, steps, CLIPS, DRAWS, show)
    if not found.rows:
        expected = f"a run that reaches step {steps[0]}"
        raise invalid("strategy", expected, f"one that diverged at {found.diverged}", "choose other hyperparameters")
    write(folder, spec, found, DRAWS)
    if not config.quiet:
        print("\n".join([*_summary(found), f"{LABEL}; kept in {folder}"]))


def _steps_within(spec: RunSpec) -> list[int]:
    if spec.allocation is None:
        expected = "a private one, as there is nothing to trade without noise"
        raise invalid("strategy", expected, spec.strategy, "choose strategy=online, for example")
    steps = [t for t in STEPS if t < spec.steps]
    if not steps:
        expected = f"more than {STEPS[0]} steps, the first to be measured"
        got = f"{spec.train.epochs:g}, which is {spec.steps} steps"
        raise invalid("train.epochs", expected, got, "train for longer")
    return steps


def write(folder: Path, spec: RunSpec, found: Measurement, draws: int) -> None:
    """The data that the report draws, and what they were measured on."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(found.rows)
    facts: dict[str, Any] = {
        "label": LABEL,
        "run": str(spec.folder),
        **spec.to_json(),
        "seed": spec.seed,
        "noise_multiplier": spec.build_strategy().multipliers()["gradient"],
        "draws": draws,
        "diverged": found.diverged,
        "dp_bench": __version__,
        "torch": str(torch.__version__),
        "commit": source_commit(),
    }
    write_trade_off(folder, text.getvalue().encode(), facts)


def _introduction(spec: RunSpec, steps: Sequence[int]) -> list[str]:
    multiplier = spec.build_strategy().multipliers()["gradient"]
    return [
        f"{spec.dataset.name}, {spec.strategy}, {spec.point}, seed {spec.seed}; data: {spec.source.where}",
        *(f"note: {caveat}" for caveat in spec.source.caveats),
        f"clipping trade-off before steps {', '.join(map(str, steps))}: {len(CLIPS)} values of C, {DRAWS} draws of "
        f"noise each, noise multiplier {multiplier:.4f}",
        LABEL,
    ]


def _summary(found: Measurement) -> list[str]:
    lines = []
    for t in dict.fromkeys(row.t for row in found.rows):
        best = max((row for row in found.rows if row.t == t), key=lambda row: row.cosine)
        lines.append(f"t = {t}: cosine at most {best.cosine:.4f}, at C = {best.C:.3g}")
    return [*lines, f"diverged at {found.diverged}; later steps were not measured"] if found.diverged else lines

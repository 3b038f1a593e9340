"""Curves and hyperparameters of runs in TensorBoard or MLflow: what `metrics.csv` and `spec.json` hold, nothing else.

Every value is released, or known before training: the training loss, gradients and anything else of the private data
never come here. Logs lie next to the store, so that no folder of it depends on whether runs were tracked.
"""

import contextlib
import importlib.util
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from dp_bench.errors import invalid
from dp_bench.experiment.spec import RunSpec
from dp_bench.files import system
from dp_bench.privacy.guarantee import guarantee
from dp_bench.training.progress import Show

Shown = Callable[[RunSpec], AbstractContextManager[Show]]
_EXPERIMENT = "dp_bench"


def check_tracker(name: str) -> None:
    """Refuse a tracker whose package is not installed, before any work."""
    if name != "none" and importlib.util.find_spec(name) is None:
        raise invalid("tracker", f"the package {name} for tracker={name}", "none", f"pip install 'dp_bench[{name}]'")


def tracked(name: str, root: Path, shown: Shown) -> Shown:
    """`shown`, and besides it every evaluation to the tracker; with none, `shown` itself."""
    if name == "none":
        return shown
    start = {"tensorboard": _tensorboard, "mlflow": _mlflow}[name]
    absolute = root.absolute()
    folder = absolute.parent / f"{absolute.name}-{name}"  # beside the store: runs-tensorboard, for example

    @contextlib.contextmanager
    def both(spec: RunSpec) -> Iterator[Show]:
        with shown(spec) as show, start(spec, folder) as log:

            def forward(step: int, row: dict[str, Any] | None) -> None:
                show(step, row)
                if row is not None:
                    values = {key: float(value) for key, value in row.items() if key != "step"}
                    log(step, {key: value for key, value in values.items() if math.isfinite(value)})

            yield forward

    return both


def facts(spec: RunSpec) -> dict[str, str | float]:
    """What a run was asked for, and what its epsilon is worth."""
    found: dict[str, str | float] = {"dataset": spec.dataset.name, "strategy": spec.strategy, "k": spec.grid.k}
    found |= {f"strategy.{name}": value for name, value in spec.hyperparameters.items()}
    found |= {"seed": spec.seed, "steps": spec.steps, "variant": spec.variant, "digest": spec.digest()}
    if spec.allocation is None:
        return found | {"guarantee": "not private"}
    budget, worth = spec.allocation.budget, guarantee(spec.allocation, spec.source.train_rows)
    words = "epsilon is spent by the whole grid; seeds are not charged" if worth.holds else worth.verdict
    return found | {"epsilon": budget.epsilon, "delta": budget.delta, "guarantee": words}


Log = Callable[[int, dict[str, float]], None]


@contextlib.contextmanager
def _tensorboard(spec: RunSpec, folder: Path) -> Iterator[Log]:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / spec.folder)) as writer:
        lines = "\n".join(f"    {name}: {value}" for name, value in facts(spec).items())
        writer.add_text("spec", lines, 0)

        def log(step: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        yield log


@contextlib.contextmanager
def _mlflow(spec: RunSpec, folder: Path) -> Iterator[Log]:
    from mlflow import MlflowClient

    server = os.environ.get("MLFLOW_TRACKING_URI")
    if server is None:
        # A database would need more packages; several processes of a sweep can write files side by side.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        system.make_folder(folder)
    client = MlflowClient(tracking_uri=server or folder.as_uri())
    found = client.get_experiment_by_name(_EXPERIMENT)
    experiment = found.experiment_id if found else client.create_experiment(_EXPERIMENT)
    # A resumed run continues its own entry: it is known by its digest.
    tag = str(spec.folder).replace("'", "")
    earlier = client.search_runs([experiment], f"tags.folder = '{tag}'")
    run = earlier[0] if earlier else client.create_run(experiment, run_name=tag, tags={"folder": tag})
    for name, value in facts(spec).items() if not earlier else ():
        client.log_param(run.info.run_id, name, value)

    def log(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            client.log_metric(run.info.run_id, name, value, step=step)

    status = "FAILED"
    try:
        yield log
        status = "FINISHED"
    finally:
        client.set_terminated(run.info.run_id, status)

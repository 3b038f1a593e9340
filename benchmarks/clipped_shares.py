"""The share of examples whose gradient is longer than the threshold, over the steps of real runs.

    DP_BENCH_DATA=FOLDER python benchmarks/clipped_shares.py [--models cnn] [--steps 500]

The real data, seed 0, epsilon 3 and k = 5, at the point that the paper's tables name as best. The means go into
thresholds.py: Online sums clipped examples and others separately, so a benchmark that clips all of them, or none, times
half of its work.
"""

from dataclasses import replace
from typing import Any

import torch
from job import DATASETS, Job, spec_for
from options import parser, positive

from dp_bench.paper import published
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.calibration import allocate
from dp_bench.privacy.query import Query
from dp_bench.report.render.markdown import markdown
from dp_bench.report.table import Column, Table
from dp_bench.strategies.base import Strategy
from dp_bench.tasks import TASKS
from dp_bench.training.run import prepare_device
from dp_bench.training.trainer import Training

STEPS = 500
_K, _EPSILON = 5, 3.0
_CANDIDATES = {"online": _K, "fixed_threshold": _K**2}


class Watched:
    """A strategy that trains as it would, and counts what it clips."""

    def __init__(self, strategy: Strategy[Any]) -> None:
        self.strategy = strategy
        self.clipped = self.seen = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.strategy, name)

    def queries(self, state: Any) -> tuple[Query, ...]:
        first, *rest = self.strategy.queries(state)

        def weight(norms: torch.Tensor) -> torch.Tensor:
            self.clipped += int((norms > first.bound).sum())
            self.seen += len(norms)
            return first.weight(norms)

        return (first._replace(weight=weight), *rest)

    def share(self) -> float:
        """Of the examples since the last call."""
        share = self.clipped / self.seen
        self.clipped = self.seen = 0
        return share


def measure(model: str, strategy: str, steps: int, options: dict[str, Any] | None = None) -> list[float]:
    """The share at each of the first `steps` steps of a run, which may have fewer. `options`: of the data set."""
    name = DATASETS[model]
    data = TASKS[name].load(options)
    rows = len(data.train_x)
    spec = spec_for(Job("", model, 1, rows=rows), strategy)
    budget = Budget(_EPSILON, 1e-5, "rdp")
    allocation = allocate(budget, Sampling(spec.train.batch_size, rows), _CANDIDATES[strategy], spec.steps)
    point = published.best_point(name, strategy, _K, _EPSILON)
    spec = replace(spec, source=data.source, allocation=allocation, hyperparameters=dict(point or {}))
    training = Training(spec, data, prepare_device(spec))
    watched = Watched(training.strategy)
    training.strategy = watched  # type: ignore[assignment]
    shares = []
    for _ in range(min(steps, spec.steps)):
        training.advance()
        shares.append(watched.share())
    return shares


def shares_table(models: list[str], steps: int) -> Table:
    rows = []
    for model in models:
        for strategy in _CANDIDATES:
            shares = torch.tensor(measure(model, strategy, steps))
            low, high = shares.quantile(torch.tensor([0.1, 0.9])).tolist()
            cells = (f"{value:.3f}" for value in (shares.mean(), low, high))
            rows.append((model, strategy, str(len(shares)), *cells))
    numbers = (Column(name, "number") for name in ("steps", "mean share", "10 % of steps below", "10 % above"))
    return Table("clipped", "Share of examples that are clipped", ("model", "strategy", *numbers), rows)


def main() -> None:
    arguments = parser(__doc__, 1)
    arguments.add_argument("--steps", type=positive, default=STEPS)
    options = arguments.parse_args()
    for model in options.models:
        print(markdown(shares_table([model], options.steps)), flush=True)


if __name__ == "__main__":
    main()

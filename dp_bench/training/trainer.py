"""Training one run: a pure function of its spec and the data, and the same for every strategy."""

import json
import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dp_bench.data.tensors import Dataset
from dp_bench.errors import invalid
from dp_bench.experiment.spec import RunSpec
from dp_bench.mechanism import sampling
from dp_bench.mechanism.clipping import FlatModel, clipped_sums, gather
from dp_bench.mechanism.noise import release
from dp_bench.mechanism.rng import initial_weights, rng
from dp_bench.privacy.query import LONGEST_NORM, SHORTEST_NORM, Query, joint_sensitivity, multipliers_suffice
from dp_bench.tasks import TASKS

_CHUNK = 100  # examples per chunk of an evaluation
ARITHMETIC = 10  # raise it when the same spec comes to give other bits: no run may change half-way


class Training:
    """The state of a run between two steps; a checkpoint (`dp_bench.training.checkpoint`) carries all of it."""

    def __init__(self, spec: RunSpec, dataset: Dataset, device: torch.device) -> None:
        self.spec = spec
        self.recipe = TASKS[spec.dataset.name].recipe(spec.task_options)
        self.strategy = spec.build_strategy()
        self.device = device
        self.train_x, self.train_y = dataset.train_x.to(device), dataset.train_y.to(device)
        self.test_x, self.test_y = dataset.test_x.to(device), dataset.test_y.to(device)
        with torch.random.fork_rng(devices=[]):  # torch initialises layers from its global generator
            torch.set_rng_state(initial_weights(spec.seed).get_state())
            self.model = FlatModel(self.recipe.build(), device)
        self.state = self.strategy.init(self.model.params)
        self.step = 0
        self.rows: list[dict[str, Any]] = []  # one per evaluation
        self.key = noise_key(spec) if spec.seeding == "named" else secrets.token_hex(32)
        self._open_generators()

    def _open_generators(self) -> None:
        self.batches = rng(self.key, "batches")
        self.noise = rng(self.key, "noise", self.device)

    def advance(self) -> None:
        """One step. Nothing of the batch leaves it but what `release` returns."""
        if self.step == 0:
            self._refuse_overspending()
        queries, nu = self.strategy.queries(self.state), self.strategy.noise_multiplier
        sums, dtype = self._sums(queries, nu), self.model.params.dtype
        batch_size = self.spec.train.batch_size
        released = release(sums, queries, batch_size, self.noise, dtype, noise_multiplier=nu)
        params, self.state = self.strategy.update(self.state, self.model.params, released)
        self.model.params.copy_(params)
        self.step += 1

    def _refuse_overspending(self) -> None:
        """Refuse a strategy whose own queries exceed the calibrated noise multiplier; the data play no part.

        An example's weight must follow from its own norm, and multipliers must compose to nu (NoDP's are 0, and so is
        its nu) or keep the joint sensitivity within it: tried on a grid of norms. On the host, with the first state of
        a model of one parameter: no step waits for a device. The contract (`dp_bench.testing`) tries far more.
        """
        queries, nu = self.strategy.queries(self.strategy.init(torch.zeros(1))), self.strategy.noise_multiplier
        if nu == 0:
            return
        ends = math.log10(SHORTEST_NORM), math.log10(LONGEST_NORM)
        norms = torch.logspace(*ends, 2000, dtype=torch.float64)
        remedy = "try it with dp_bench.testing.contract.check_strategy"
        for query in queries:
            together, apart = query.weight(norms)[::2].double(), query.weight(norms[::2]).double()
            if not torch.allclose(together, apart, rtol=1e-6, atol=0, equal_nan=True):
                expected = f"a weight of the query {query.name} that follows from an example's own norm"
                raise invalid(f"strategy={self.spec.strategy}", expected, "one that other examples change", remedy)
        if multipliers_suffice(queries, nu):
            return
        if not (spent := nu * joint_sensitivity(queries, norms)) <= 1 + 1e-6:
            expected = "queries within its noise multiplier"
            raise invalid(f"strategy={self.spec.strategy}", expected, f"{spent:.4g} times as much", remedy)

    def _sums(self, queries: Sequence[Query], noise_multiplier: float | None = None) -> dict[str, torch.Tensor]:
        """Over a fresh batch; one example's contributions bounded jointly if there is a noise multiplier for all."""
        members = self._draw().to(self.device)
        return clipped_sums(
            self.model,
            self.recipe.losses,
            gather(self.train_x, members),
            gather(self.train_y, members),
            queries,
            self.spec.machine.micro_batch,
            examples=len(members),
            noise_multiplier=noise_multiplier,
        )

    def _draw(self) -> torch.Tensor:
        return sampling.draw(self.spec.sampling, len(self.train_x), self.spec.train.batch_size, self.batches)

    def evaluate(self, epsilon: float) -> None:
        """A row of the metrics, from released quantities only: the training loss is private."""
        metric = mean_score(self.model.module, self.recipe.scores, self.test_x, self.test_y)
        trajectory = {name: float(value) for name, value in self.strategy.trajectory(self.state).items()}
        row = {
            "step": self.step,
            TASKS[self.spec.dataset.name].metric: metric,
            "clip": trajectory.pop("clip", math.inf),
            "lr": trajectory.pop("lr", math.nan),
            "epsilon": epsilon,
        }
        if taken := sorted(row.keys() & trajectory.keys()):
            raise RuntimeError(f"{self.spec.strategy}'s trajectory has an entry {taken[0]}, which is a column already")
        self.rows.append({**row, **trajectory})

    def divergence(self) -> str | None:
        """The reason this run has diverged, or None. Checked after each evaluation."""
        row = self.rows[-1]
        if not bool(self.model.params.isfinite().all()):
            return "parameters are not finite"
        if not math.isfinite(row[TASKS[self.spec.dataset.name].metric]):
            return "the test metric is not finite"
        trajectory = self.strategy.trajectory(self.state)
        if "lr" in trajectory and not math.isfinite(row["lr"]):
            return f"the step size is {row['lr']}"
        if "clip" in trajectory and self.strategy.private and not 0 < row["clip"] < math.inf:
            return f"the clipping threshold is {row['clip']}"
        return None

    def machine(self) -> dict[str, Any]:
        """What the bits depend on besides the protocol."""
        return {
            "arithmetic": ARITHMETIC,
            "device": self.device.type,
            "threads": self.spec.machine.threads,
            "micro_batch": self.spec.machine.micro_batch,
            "torch": str(torch.__version__),
            "cpu": torch.backends.cpu.get_cpu_capability(),
        }


def best_row(training: Training) -> dict[str, Any]:
    """The first of the best rows on the test set: the paper's choice, optimistic and not accounted for."""
    task = TASKS[training.spec.dataset.name]
    best = training.rows[0]
    for row in training.rows[1:]:
        if task.better(row[task.metric], best[task.metric]):
            best = row
    return best


@torch.inference_mode()
def mean_score(
    module: torch.nn.Module,
    scores: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    inputs: torch.Tensor,
    targets: torch.Tensor,
) -> float:
    """Over a whole set, in chunks that fit the cache."""
    total = torch.zeros((), dtype=torch.float64, device=inputs.device)
    for x, y in zip(inputs.split(_CHUNK), targets.split(_CHUNK), strict=True):
        x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
        total += scores(module(x), y).double().sum()
    return float(total / len(inputs))


def noise_key(spec: RunSpec) -> str:
    """What batches and noise follow from: the run's name and the data that it is trained on.

    Two training sets under one name would otherwise get the same noise, and the difference of their releases none. Not
    the whole spec: its digest changes whenever a key is added to it, and the noise of every run would.
    """
    source = spec.source
    identity = [str(spec.folder), source.kind, source.train_rows, sorted(source.checksums.items())]
    return json.dumps([*identity, *(path for path in (spec.strategy_path, spec.task_path) if path)])

"""Training one run: a pure function of its spec and the data, and the same for every strategy."""

import contextlib
import io
import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from dp_bench import sampling, streams
from dp_bench.accounting import compose_multipliers
from dp_bench.data.tensors import Dataset
from dp_bench.engine import FlatModel, clipped_sums
from dp_bench.errors import UserError
from dp_bench.models import evaluate, recipe
from dp_bench.noise import release
from dp_bench.queries import Query
from dp_bench.spec import RunSpec
from dp_bench.tasks import TASKS

_ARITHMETIC = 9  # raise it when the same spec comes to give other bits: no run may change half-way


class Training:
    """The state of a run between two steps; `checkpoint` and `resume` carry all of it."""

    def __init__(self, spec: RunSpec, dataset: Dataset, device: torch.device) -> None:
        self.spec = spec
        self.recipe = recipe(TASKS[spec.dataset.name].model, words=spec.dataset.words, **asdict(spec.model))
        self.strategy = spec.build_strategy()
        self.device = device
        self.train_x, self.train_y = dataset.train_x.to(device), dataset.train_y.to(device)
        self.test_x, self.test_y = dataset.test_x.to(device), dataset.test_y.to(device)
        self.model = FlatModel(self._initial_module(), device)
        self.state = self.strategy.init(self.model.params)
        self.step = 0
        self.rows: list[dict[str, Any]] = []  # one an evaluation
        self.key = str(spec.folder) if spec.seeding == "named" else secrets.token_hex(32)
        self._open_streams()

    def _initial_module(self) -> torch.nn.Module:
        with torch.random.fork_rng(devices=[]):  # torch initialises layers from its global generator
            torch.set_rng_state(streams.initial_weights(self.spec.seed).get_state())
            return self.recipe.build()

    def _open_streams(self) -> None:
        self.batches = streams.stream(self.key, "batches")
        self.noise = streams.stream(self.key, "noise", self.device)

    def advance(self) -> None:
        """One step. Nothing of the batch leaves it but what `release` returns."""
        queries = self.strategy.queries(self.state)
        if compose_multipliers([q.noise_multiplier for q in queries]) < self.strategy.noise_multiplier * (1 - 1e-9):
            raise RuntimeError(f"{self.spec.strategy}'s queries {queries} spend more than its noise multiplier allows")
        released = release(self._sums(queries), queries, self.spec.train.batch_size, self.noise)
        params, self.state = self.strategy.update(self.state, self.model.params, released)
        self.model.params.copy_(params)
        self.step += 1

    def _sums(self, queries: Sequence[Query]) -> dict[str, torch.Tensor]:
        """Over a fresh batch."""
        members = self._draw().to(self.device)
        return clipped_sums(
            self.model,
            self.recipe.losses,
            self.train_x.index_select(0, members),
            self.train_y.index_select(0, members),
            queries,
            self.spec.machine.micro_batch,
        )

    def _draw(self) -> torch.Tensor:
        size, batch_size = len(self.train_x), self.spec.train.batch_size
        if self.spec.privacy and self.spec.privacy.accountant == "rdp_wor":
            return sampling.fixed_size(size, batch_size, self.batches)
        return sampling.poisson(size, batch_size / size, self.batches)

    def evaluate(self, epsilon: float) -> None:
        """A row of metrics.csv, from released quantities only: the training loss is private."""
        metric = evaluate(self.model.module, self.recipe.scores, self.test_x, self.test_y)
        trajectory = {name: float(value) for name, value in self.strategy.trajectory(self.state).items()}
        self.rows.append(
            {
                "step": self.step,
                TASKS[self.spec.dataset.name].metric: metric,
                "clip": trajectory.get("clip", math.inf),
                "lr": trajectory["lr"],
                "epsilon": epsilon,
            }
        )

    def divergence(self) -> str | None:
        """Why there is no point in going on, if there is none; judged when a row was added."""
        row = self.rows[-1]
        if not bool(self.model.params.isfinite().all()):
            return "parameters are not finite"
        if not math.isfinite(row[TASKS[self.spec.dataset.name].metric]):
            return "the test metric is not finite"
        if not math.isfinite(row["lr"]):
            return f"the step size is {row['lr']}"
        if self.strategy.private and not 0 < row["clip"] < math.inf:
            return f"the clipping threshold is {row['clip']}"
        return None

    def checkpoint(self) -> bytes:
        content = {
            "digest": self.spec.digest(),
            "machine": self.machine(),
            "step": self.step,
            "params": self.model.params,
            "state": self.state._asdict(),
            "rows": self.rows,
            "key": self.key,
            "batches": self.batches.state(),
            "noise": self.noise.state(),
        }
        with _without_checksums():
            return _bytes(content)

    def resume(self, payload: bytes) -> None:
        saved = torch.load(io.BytesIO(payload), weights_only=True, map_location=self.device)
        if saved["digest"] != self.spec.digest():
            raise UserError(f"{self.spec.folder}: found another protocol's checkpoint; move the folder away")
        for name, ours in self.machine().items():
            if (theirs := saved["machine"].get(name)) != ours:
                raise UserError(
                    f"{self.spec.folder}: found a checkpoint made with {name} = {theirs}, expected "
                    f"{ours}: its bits would change half-way; resume with the former, or delete checkpoint.pt"
                )
        self.step, self.rows, self.key = saved["step"], saved["rows"], saved["key"]
        self.model.params.copy_(saved["params"])
        self.state = type(self.state)(**saved["state"])
        self.batches.restore(saved["batches"])
        self.noise.restore(saved["noise"])

    def machine(self) -> dict[str, Any]:
        """What the bits depend on besides the protocol."""
        return {
            "arithmetic": _ARITHMETIC,
            "device": self.device.type,
            "threads": self.spec.machine.threads,
            "micro_batch": self.spec.machine.micro_batch,
            "torch": str(torch.__version__),
            "cpu": torch.backends.cpu.get_cpu_capability(),
        }

    def parameters(self) -> bytes:
        """The model alone, for whoever wants to use it: `module.load_state_dict(torch.load(file))`."""
        # Copies: a view would bring along all of the flat tensor.
        copies = {
            name: tensor.cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.model.module.state_dict().items()
        }
        return _bytes(copies)


@contextlib.contextmanager
def _without_checksums() -> Iterator[None]:
    """torch's take half of its time, and a checkpoint has a better one from whoever stores it."""
    usual = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        yield
    finally:
        torch.serialization.set_crc32_options(usual)


def _bytes(content: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()

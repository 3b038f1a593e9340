"""What a run is: everything its result depends on. No torch: planning makes thousands of these."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from dp_bench.data import Source
from dp_bench.errors import invalid
from dp_bench.experiment import grid
from dp_bench.experiment.config import (
    DatasetConfig,
    GridConfig,
    ModelConfig,
    PrivacyConfig,
    TrainConfig,
    dataset_schema,
    default_sampling,
    model_schema,
    task_options,
)
from dp_bench.files.checksummed import json_digest
from dp_bench.files.from_json import from_plain
from dp_bench.files.names import NAME, is_plain, short
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.allocators import COMPOSITION, SELECTION
from dp_bench.registry import Registry
from dp_bench.strategies import STRATEGIES, Strategy
from dp_bench.tasks import TASKS

_CODE = ("strategy_code", "task_code")


@dataclass(frozen=True)
class Machine:
    """How a run is executed. It may change the bits of a result, not what the result means."""

    device: str
    threads: int
    micro_batch: int


@dataclass(frozen=True)
class RunSpec:
    """One seed of one point of one grid."""

    profile: str
    variant: str
    dataset: DatasetConfig
    model: ModelConfig
    strategy: str
    hyperparameters: Mapping[str, Any]
    grid: GridConfig
    privacy: PrivacyConfig | None  # None: not private
    train: TrainConfig
    source: Source
    allocation: Allocation | None
    steps: int
    seed: int
    seeding: str
    machine: Machine
    # The import path of a strategy that is not built in: two of one name are two protocols, and a report finds it.
    strategy_path: str = ""
    task_path: str = ""  # likewise
    # Of such a strategy or task: the checksum of its file. Not of the protocol: runs from before it was kept have none.
    strategy_code: str = ""
    task_code: str = ""
    ranked_seeds: tuple[int, ...] = ()  # of halving: over which candidates are compared

    @property
    def point(self) -> str:
        return grid.point_name(self.swept)

    @property
    def swept(self) -> dict[str, float]:
        """The values of the hyperparameters that its grid searches."""
        return {name: float(self.hyperparameters[name]) for name in STRATEGIES[self.strategy].swept}

    def at(self, point: Mapping[str, float]) -> "RunSpec":
        """The same run at another point of its grid."""
        return replace(self, hyperparameters={**self.hyperparameters, **point})

    @property
    def epsilon(self) -> float:
        """The budget of the whole grid; infinite without privacy."""
        return math.inf if self.privacy is None else float(self.privacy.epsilon)

    @property
    def accounted_rows(self) -> int:
        """N, as steps and noise were computed from it: not the rows at hand where a larger data set is emulated."""
        if self.allocation is None:
            return self.dataset.emulate_size or self.source.train_rows
        return self.allocation.sampling.dataset_size

    @property
    def sampling(self) -> str:
        """How batches are drawn."""
        return self.train.sampling or default_sampling(self.privacy)

    @property
    def grid_folder(self) -> PurePosixPath:
        folder = PurePosixPath(self.profile, self.variant, self.dataset.name, self.strategy)
        return folder / f"k{self.grid.k}" / f"eps{short(self.epsilon)}"

    @property
    def folder(self) -> PurePosixPath:
        """Where the run is kept, and its whole identity: batches and noise are keyed by this name."""
        return self.grid_folder / self.point / f"seed{self.seed}"

    def check_folder(self) -> None:
        """Refuse a run whose folder would not be at its place in the store: names may come from anywhere."""
        for key, name in (("profile", self.profile), ("variant", self.variant), ("point", self.point)):
            if not is_plain(name) or (key == "profile" and not NAME.fullmatch(name)):
                raise invalid(key, "the name of one folder", repr(name), "use letters, digits and _ only")

    @property
    def secure(self) -> bool:
        """Whether batches and noise are drawn from the operating system: run again, it is another release."""
        return self.seeding == "secure"

    @property
    def winner_only(self) -> bool:
        """Whether it is one of a secret number of trials, of which only the winner is kept."""
        return self.allocation is not None and self.allocation.winner_only

    @property
    def task_options(self) -> dict[str, Any]:
        return task_options(self.dataset, self.model)

    def protocol(self) -> dict[str, Any]:
        """Everything that the result means, as plain JSON: all but the machine, and where the data were found."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        # A permission that was not needed means nothing: `source` says what was used.
        del plain["machine"], plain["source"]["where"], plain["dataset"]["stand_in"]
        del plain["strategy_code"], plain["task_code"]
        if self.dataset.emulate_size is None:  # so that runs from before there was such a choice keep their digest
            del plain["dataset"]["emulate_size"]
        if self.privacy is not None and self.privacy.allocator == COMPOSITION:
            del plain["privacy"]["allocator"]
        if self.privacy is not None and self.privacy.allocator != SELECTION:
            del plain["privacy"]["selection"]
        for name in ("strategy_path", "task_path", "ranked_seeds"):
            if not plain[name]:
                del plain[name]
        for name, neutral in STRATEGIES[self.strategy].added.items():
            if plain["hyperparameters"].get(name) == neutral:
                del plain["hyperparameters"][name]
        if not self.grid.axes:
            del plain["grid"]["axes"]
        if self.train.sampling is None:
            del plain["train"]["sampling"]
        for name in ("rungs", "trials", "pool"):  # of other allocators than composition
            if self.allocation is not None and not plain["allocation"][name]:
                del plain["allocation"][name]
        return plain

    def to_json(self) -> dict[str, Any]:
        """What `spec.json` stores."""
        return {"protocol": self.protocol(), "machine": asdict(self.machine), **self.code()}

    def code(self) -> dict[str, str]:
        """The checksums of what is not built in."""
        return {name: checksum for name in _CODE if (checksum := getattr(self, name))}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RunSpec":
        """The run that `to_json` described: all of it but what the result does not mean, where the data were found.

        Raises what reading JSON of another shape does, and UserError for a strategy or task that cannot be
        loaded.
        """
        protocol = stored["protocol"]
        _know(STRATEGIES, protocol["strategy"], protocol.get("strategy_path", ""))
        schemas: dict[str, type] = {}
        if isinstance(dataset := protocol["dataset"], Mapping):  # of another shape, it is refused below
            _know(TASKS, name := dataset["name"], protocol.get("task_path", ""))
            schemas = {"dataset": dataset_schema(name), "model": model_schema(name)}
        code = {name: stored[name] for name in _CODE if name in stored}
        source = {"where": "", **protocol["source"]}
        return from_plain(cls, {**protocol, "source": source, "machine": stored["machine"], **code}, schemas)

    def digest(self) -> str:
        return digest_of(self.protocol())

    def build_strategy(self) -> Strategy[Any]:
        nu = self.allocation.noise_multiplier if self.allocation else 0.0
        return STRATEGIES[self.strategy](noise_multiplier=nu, batch_size=self.train.batch_size, **self.hyperparameters)


def comparable(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol without what follows from the rest of it: the last bits of an epsilon differ between machines."""
    allocation = protocol["allocation"] and {
        name: value for name, value in protocol["allocation"].items() if name not in ("epsilon_grid", "epsilon_run")
    }
    return {**protocol, "allocation": allocation}


def digest_of(protocol: Mapping[str, Any]) -> str:
    """What tells protocols apart, also those that other versions stored."""
    return json_digest(comparable(protocol))


def _know(registry: Registry[Any], name: str, path: str) -> None:
    """Load what a stored run names, also what only its import path tells."""
    found = registry.add(path) if path else name
    if found != name:
        raise invalid(registry.kind, f"{path} under the name {name}", found, "rename it back")
    registry[name]

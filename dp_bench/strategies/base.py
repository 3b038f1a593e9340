"""What every strategy is: hyperparameters, queries, and an update that only sees what was released."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from dp_bench.errors import invalid
from dp_bench.privacy.query import Query, Released, Tensor
from dp_bench.strategies.ranges import ranges

# A NamedTuple of tensors and numbers: explicit, so that a checkpoint is its fields and a resumed run is the same run.
State = TypeVar("State", bound=tuple[Any, ...])

_SYMBOLS = {"lr": "ρ", "clip": "C"}


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC, Generic[State]):
    """One way to choose the clipping threshold. A frozen value: hyperparameters, B, and the calibrated ν.

    Guarantee: one step, with Poisson sampling at rate q = B/N, releases nothing but `queries(state)`, which together
    are one Gaussian mechanism of noise multiplier `noise_multiplier`: their joint sensitivity is 1/ν, as
    `dp_bench.privacy.query.influence` defines and proves it. `update` post-processes. Σ_k z_k^-2 = ν^-2 is always
    enough, and needed where one n brings all queries to their bounds. The engine holds every example to it.

    Hyperparameters are fields that declare what they may be (`dp_bench.strategies.ranges`); any other value is refused.
    Nothing in a strategy imports torch when it is loaded: planning reads `multipliers` without it. An author tests all
    of this with `dp_bench.testing.contract.check_strategy`.
    """

    noise_multiplier: float
    batch_size: int

    swept: ClassVar[tuple[str, ...]]  # the hyperparameters that a grid searches over
    private: ClassVar[bool] = True
    # How reports show it.
    label: ClassVar[str] = ""  # the class's name if there is none
    color: ClassVar[str] = ""  # as "#0072B2"; if there is none, one that follows from the strategy's name
    symbols: ClassVar[Mapping[str, str]] = {}  # hyperparameter or trajectory entry -> symbol; ρ and C are known
    reference: ClassVar[str] = ""  # the paper
    # Hyperparameters that came when runs were stored already -> the value that changes nothing. A run's protocol does
    # not name them at that value, so its digest is what it was.
    added: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        for name, valid in ranges(type(self)).items():
            value = getattr(self, name)
            if value not in valid:
                raise invalid(f"strategy.{name}", valid.words, value, "choose another value")

    @classmethod
    def symbol(cls, name: str) -> str:
        """How a hyperparameter or an entry of the trajectory is called in print."""
        return cls.symbols.get(name) or _SYMBOLS.get(name, name)

    @abstractmethod
    def multipliers(self) -> dict[str, float]:
        """How ν is split: query name -> noise multiplier."""

    @abstractmethod
    def init(self, params: Tensor) -> State: ...

    @abstractmethod
    def queries(self, state: State) -> tuple[Query, ...]: ...

    @abstractmethod
    def update(self, state: State, params: Tensor, released: Released) -> tuple[Tensor, State]:
        """The next parameters and state, from released sums only; its inputs are left as they are."""

    @abstractmethod
    def trajectory(self, state: State) -> dict[str, float | Tensor]:
        """What is worth a curve: the threshold `clip` (C_t), the step size `lr` (ρ_t), and any other number.

        Each entry is a column of metrics.csv. A run whose `lr` is not finite, or whose `clip` is not finite and
        positive, has diverged.
        """


def clipped_gradient(clip: float | Tensor, noise_multiplier: float) -> Query:
    """Σ g_i min(1, C/n_i): the clipped sum of DP-SGD."""
    return Query("gradient", "vector", lambda n: (clip / n).clamp(max=1), clip, noise_multiplier)


def scalar(value: float, like: Tensor) -> Tensor:
    """A 0-d float64 tensor on the device of `like`: many small factors must not drift; no step waits for the host."""
    return like.new_ones(()).double() * value

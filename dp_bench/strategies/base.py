"""What every strategy is: hyperparameters, queries, and an update that only sees what was released."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dp_bench.errors import UserError
from dp_bench.queries import Query, Released

if TYPE_CHECKING:
    from torch import Tensor

# A NamedTuple of tensors and numbers: explicit, so that a checkpoint is its fields and a resumed run is the same run.
State = TypeVar("State", bound=tuple[Any, ...])


_POSITIVE = {"lr", "clip", "clip_init", "stabiliser", "count_noise", "gradient_share"}
_RATES = {"clip_lr", "lr_lr"}
_DECAYS = {"momentum", "beta", "beta2"}


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC, Generic[State]):
    """One way to choose the clipping threshold. A frozen value: hyperparameters, B, and the calibrated ν.

    Guarantee: one step, with Poisson sampling at rate q = B/N, releases nothing but `queries(state)`, which together
    are one Gaussian mechanism of noise multiplier `noise_multiplier` (Σ_k z_k^-2 = ν^-2); `update` post-processes.

    Nothing in a strategy imports torch when it is loaded: planning reads `multipliers` without it.
    """

    noise_multiplier: float
    batch_size: int

    swept: ClassVar[tuple[str, ...]]  # the hyperparameters that the paper searches over
    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in _POSITIVE and not 0 < value < math.inf:
                raise UserError(f"strategy.{name}: found {value}, expected a positive number")
            if name in _RATES and not 0 <= value < math.inf:
                raise UserError(f"strategy.{name}: found {value}, expected 0 or more")
            if name in _DECAYS and not 0 <= value < 1:
                raise UserError(f"strategy.{name}: found {value}, expected 0 (none) or more, and less than 1")

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
        """What is worth a curve: the threshold `clip` (C_t) and the step size `lr` (ρ_t), where there is one."""


def clipped_gradient(clip: float | Tensor, noise_multiplier: float) -> Query:
    """Σ g_i min(1, C/n_i): the sum that every private strategy releases."""
    return Query("gradient", "vector", lambda n: (clip / n).clamp(max=1), clip, noise_multiplier)


def scalar(value: float, like: Tensor) -> Tensor:
    """A 0-d float64 tensor beside `like`: many small factors must not drift, and no step waits for the host."""
    return like.new_ones(()).double() * value

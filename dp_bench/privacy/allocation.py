"""What a budget and an allocation are: plain values, stored with every run."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from dp_bench.errors import invalid
from dp_bench.privacy.accountants import Sampling, accountant_of
from dp_bench.privacy.allocators import COMPOSITION, HALVING, SELECTION, Rung, steps_of
from dp_bench.privacy.selection import Trials

# Below, no accountant finds a noise multiplier; above, an epsilon says nothing. Both are far from any use.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 1e6


@dataclass(frozen=True)
class Budget:
    """What the whole grid may spend, and who counts."""

    epsilon: float
    delta: float
    accountant: str

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise invalid("privacy.epsilon", "a positive number", self.epsilon, "set it, for example, to 3")
        if not SMALLEST_EPSILON <= self.epsilon <= LARGEST_EPSILON:
            expected = f"a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}, between which accountants count"
            raise invalid("privacy.epsilon", expected, self.epsilon, "set it, for example, to 3")
        if not 0 < self.delta < 1:
            raise invalid("privacy.delta", "a number between 0 and 1", self.delta, "set it, for example, to 1e-5")
        accountant_of(self.accountant)


@dataclass(frozen=True)
class Allocation:
    """A search's budget, the steps that it must cover, and the noise multiplier calibrated for them."""

    budget: Budget
    sampling: Sampling
    candidates: int
    """n: configurations that the grid tries"""
    steps: int
    """T: steps of one run"""
    noise_multiplier: float
    """nu: of one step, over all of its queries jointly"""
    epsilon_grid: float
    """Spent by the whole search; never above the budget"""
    epsilon_run: float
    """Spent by the T steps of one run"""
    rungs: tuple[Rung, ...] = ()
    """Of halving: what is trained"""
    trials: Trials | None = None
    """Of selection: how many are tried"""
    pool: bool = False
    """Of selection: whether whole grids are trained, and kept, to resample searches from; not private"""

    @property
    def allocator(self) -> str:
        return HALVING if self.rungs else SELECTION if self.trials else COMPOSITION

    def drawn_from(self, rows: int) -> "Allocation":
        """The same runs with batches from so many examples; what they spent is then another question."""
        return replace(self, sampling=replace(self.sampling, dataset_size=rows))

    @property
    def winner_only(self) -> bool:
        """Whether one run of the search is released, and nothing else about it."""
        return self.trials is not None and not self.pool

    @property
    def compositions(self) -> int:
        """Steps that are released, of all candidates; of selection, those of the one run that is."""
        return steps_of(self.rungs) if self.rungs else self.steps if self.trials else self.candidates * self.steps

    @property
    def runs_worth(self) -> float:
        """Training in units of one whole run; of selection, expected."""
        return self.trials.mean if self.trials else self.compositions / self.steps


class Spent(NamedTuple):
    """Epsilon of a whole grid and of one of its runs."""

    grid: float
    run: float

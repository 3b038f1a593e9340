"""Whether an epsilon is a guarantee: the one rule, and the words for an epsilon that is not one."""

from dataclasses import dataclass

from dp_bench.privacy.accountants import proven
from dp_bench.privacy.accounting import rounded_up
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.calibration import true_epsilon

EMULATED = "emulated: epsilon is the paper's setting, not a guarantee for this data"
POOL = "pool for resampling: not private as a whole; its epsilon is that of one selection, never released together"
UNPROVEN = "{accountant}: epsilon is not a guarantee; for comparison with the paper only"
# Up to this arithmetic the sums over a batch were added up in float32, whose rounding no accountant counts.
LAST_WITH_FLOAT32_SUMS = 9


@dataclass(frozen=True)
class Guarantee:
    """What the epsilons of some runs are worth: they are shown with its `mark` or its `words`.

    `holds`: runs that spend (epsilon, delta) as counted are (epsilon, delta)-private for the data that were used, for
    neighbours that add or remove one example; up to rounding if the sums were `float32_sums`.
    """

    emulated: bool  # steps and noise are those of a larger data set
    unproven: str  # the accountant if it does not prove what it counts, else ""
    float32_sums: bool = False
    allocation: Allocation | None = None
    rows: int = 0  # that batches were drawn from

    @property
    def pool(self) -> bool:
        """Whether every run is kept of a search that pays for its winner alone."""
        return self.allocation is not None and self.allocation.pool

    @property
    def holds(self) -> bool:
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not hold, a word each."""
        return ("emulated",) * self.emulated + (self.unproven,) * bool(self.unproven) + ("pool",) * self.pool

    @property
    def mark(self) -> str:
        """For a title or a cell; "" if it holds."""
        return mark(self.reasons)

    def marked(self, epsilon: str) -> str:
        """An epsilon as it may be printed."""
        return f"{epsilon} ({self.mark})" if self.mark else epsilon

    @property
    def words(self) -> str | None:
        """Why it does not hold, with the true epsilons where an accountant proves them; None if it holds."""
        reasons = [EMULATED] if self.emulated else []
        if self.emulated and not self.unproven and self.allocation:
            true = true_epsilon(self.allocation, self.rows)
            reasons.append(
                f"the true epsilon at q = {self.allocation.sampling.batch_size}/{self.rows:,} is "
                f"{rounded_up(true.run)} per run and {rounded_up(true.grid)} per grid"
            )
        reasons += [UNPROVEN.format(accountant=self.unproven)] if self.unproven else []
        reasons += [POOL] if self.pool else []
        return "; ".join(reasons) or None

    @property
    def verdict(self) -> str:
        """For a line that a command prints: `private`, or that it is not, and why."""
        return "private" if self.holds else f"NOT private: {self.words}"


def mark(reasons: tuple[str, ...]) -> str:
    return f"{', '.join(reasons)}: not private" if reasons else ""


def guarantee(allocation: Allocation, rows: int, arithmetic: int | None = None) -> Guarantee:
    """Of runs that drew their batches from `rows` training examples. `arithmetic`: its number, None for today's."""
    accountant = allocation.budget.accountant
    unproven = "" if proven(accountant) else accountant
    float32 = not unproven and arithmetic is not None and arithmetic <= LAST_WITH_FLOAT32_SUMS
    return Guarantee(allocation.sampling.dataset_size != rows, unproven, float32, allocation, rows)

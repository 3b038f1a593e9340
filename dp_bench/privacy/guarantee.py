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
    words: str | None = None  # why it does not hold, with the true epsilons if they are known; None if it holds
    pool: bool = False  # every run is kept of a search that pays for its winner alone

    @property
    def holds(self) -> bool:
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not hold, a word each."""
        return _reasons(self.emulated, self.unproven, self.pool)

    @property
    def mark(self) -> str:
        """For a title or a cell; "" if it holds."""
        return mark(self.reasons)

    def marked(self, epsilon: str) -> str:
        """An epsilon as it may be printed."""
        return f"{epsilon} ({self.mark})" if self.mark else epsilon

    @property
    def verdict(self) -> str:
        """For a line that a command prints: `private`, or that it is not, and why."""
        return f"NOT private: {self.words}" if self.words else "private"


def mark(reasons: tuple[str, ...]) -> str:
    return f"{', '.join(reasons)}: not private" if reasons else ""


def mark_of(allocation: Allocation, rows: int) -> str:
    """The mark alone, without the true epsilons, which take an accountant."""
    return mark(_reasons(*_facts(allocation, rows), allocation.pool))


def _reasons(emulated: bool, unproven: str, pool: bool) -> tuple[str, ...]:
    return ("emulated",) * emulated + (unproven,) * bool(unproven) + ("pool",) * pool


def _facts(allocation: Allocation, rows: int) -> tuple[bool, str]:
    """Whether it is emulated, and the accountant if it does not prove what it counts."""
    accountant = allocation.budget.accountant
    return allocation.sampling.dataset_size != rows, "" if proven(accountant) else accountant


def guarantee(allocation: Allocation, rows: int, arithmetic: int | None = None) -> Guarantee:
    """Of runs that drew their batches from `rows` training examples. `arithmetic`: its number, None for today's."""
    emulated, unproven = _facts(allocation, rows)
    float32 = not unproven and arithmetic is not None and arithmetic <= LAST_WITH_FLOAT32_SUMS
    return Guarantee(emulated, unproven, float32, _words(allocation, rows, emulated, unproven), allocation.pool)


def _words(allocation: Allocation, rows: int, emulated: bool, unproven: str) -> str | None:
    reasons = [EMULATED] if emulated else []
    if emulated and not unproven:
        true = true_epsilon(allocation, rows)
        reasons.append(
            f"the true epsilon at q = {allocation.sampling.batch_size}/{rows:,} is {rounded_up(true.run)} per run "
            f"and {rounded_up(true.grid)} per grid"
        )
    reasons += [UNPROVEN.format(accountant=unproven)] if unproven else []
    reasons += [POOL] if allocation.pool else []
    return "; ".join(reasons) or None

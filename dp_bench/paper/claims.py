"""What the paper concludes from its tables, in words, and which comparisons between strategies that means.

`claims.csv` has one row per sentence: where it stands, the data sets that it is about, how the first strategy of each
pair is said to do beside the second, and the epsilons, if it is not about all of them. A strategy that is said to
diverge is paired with itself.
"""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

# The first strategy is: not clearly worse than the second; not clearly different from it; ahead of it by its mean. Or
# it diverges.
RELATIONS = NOT_WORSE, ALIKE, AHEAD, DIVERGES = "not worse", "alike", "ahead", "diverges"


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper."""

    words: str
    where: str
    datasets: tuple[str, ...]
    relation: str
    pairs: tuple[tuple[str, str], ...]  # of strategies
    epsilons: tuple[float, ...]  # none: every one

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for pair in self.pairs for name in pair))


@functools.cache
def claims() -> tuple[Claim, ...]:
    """In the order of the paper's parts."""
    with Path(__file__).with_suffix(".csv").open(newline="") as file:
        return tuple(
            Claim(
                words=row["words"],
                where=row["where"],
                datasets=tuple(row["datasets"].split()),
                relation=row["relation"],
                pairs=tuple((first, second) for first, second in (pair.split("/") for pair in row["pairs"].split())),
                epsilons=tuple(map(float, row["epsilons"].split())),
            )
            for row in csv.DictReader(file)
        )

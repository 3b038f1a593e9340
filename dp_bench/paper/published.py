"""What the paper published: every cell of its result tables, as printed, with its misprints corrected and named.

`published.csv` has one row per cell. `mean` and `sd` are as printed: accuracy in percent, mean squared error x 10^2.
`lr`, `clip` and `quantile` are what the print means: a starred value is printed x 10^3, and two columns, a learning
rate and the epsilons of one table are misprinted; `note` says so where it happens, and `printed` is the row's text in
paper.tex, epsilon first. `status` is `value` (hyperparameters and a metric), `point` (hyperparameters only: all of
k = 7, whose values are in figures, and the NoDP of every caption) or `diverged` (a dash: no run of the grid converged).
"""

import csv
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_AXES = ("lr", "clip", "quantile")

# Percent and x 10^2: what a printed number is divided by to be the metric that a run stores.
PRINTED_SCALE = 100


@dataclass(frozen=True)
class Cell:
    """One cell, in the units of a run's own metric: accuracy as a fraction, mean squared error as it is."""

    dataset: str
    strategy: str
    k: int
    epsilon: float  # of the whole grid; infinite for NoDP
    status: str  # value | point | diverged
    hyperparameters: Mapping[str, float]
    mean: float | None
    sd: float | None
    table: str  # its label in paper.tex
    printed: str
    note: str


@functools.cache
def cells() -> tuple[Cell, ...]:
    """Every published cell: 94 values and 2 divergences at k = 5 and 9, 47 points and a divergence at k = 7, 9 NoDP."""
    with Path(__file__).with_suffix(".csv").open(newline="") as file:
        return tuple(
            Cell(
                dataset=row["dataset"],
                strategy=row["strategy"],
                k=int(row["k"]),
                epsilon=float(row["epsilon"]),
                status=row["status"],
                hyperparameters={axis: float(row[axis]) for axis in _AXES if row[axis]},
                mean=_in_metric_units(row["mean"]),
                sd=_in_metric_units(row["sd"]),
                table=row["table"],
                printed=row["printed"],
                note=row["note"],
            )
            for row in csv.DictReader(file)
        )


@functools.cache
def ks_with_metrics() -> frozenset[int]:
    """5 and 9. Of k = 7 only hyperparameters are printed, and that one grid diverged: nothing to compare with."""
    return frozenset(cell.k for cell in cells() if cell.status == "value")


def best_point(dataset: str, strategy: str, k: int, epsilon: float) -> dict[str, float] | None:
    """The hyperparameters that the paper found best, or None if it names none. Epsilon means nothing to NoDP."""
    for cell in cells():
        here = (cell.dataset, cell.strategy, cell.k) == (dataset, strategy, k)
        if here and (cell.epsilon == epsilon or math.isinf(cell.epsilon)) and cell.hyperparameters:
            return dict(cell.hyperparameters)
    return None


def _in_metric_units(printed: str) -> float | None:
    return float(printed) / PRINTED_SCALE if printed else None

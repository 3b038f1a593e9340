"""Every published value under the sound protocol and under the paper's probable one."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dp_bench.paper.readings import PROBABLE, SOUND
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import BETTER, REPRODUCED, WORSE, Score, scorecard
from dp_bench.report.contents import shown
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.readings import results_of
from dp_bench.report.table import Column, Table, printed_pair
from dp_bench.tasks import TASKS

_SOUND, _PROBABLE = "sound protocol", "the paper's probable protocol (not private)"
_COLUMNS = (
    *("data set", "strategy", Column("k", "number"), Column("ε", "budget"), Column("paper", "mean and sd")),
    *(Column("metric", "mean and sd", _SOUND), Column("in sd", "deviations", _SOUND)),
    Column("verdict", "verdict", _SOUND),
    *(Column("metric", "mean and sd", _PROBABLE), Column("in sd", "deviations", _PROBABLE)),
    Column("verdict", "verdict", _PROBABLE),
)

Pair = tuple[Score, Score]  # of one published cell: sound, probable


def pairs(collection: Collection) -> list[Pair]:
    """The published cells of k = 5 and 9 with a value, under both protocols; empty if the probable one was not run."""
    probable = results_of(collection.runs, PROBABLE)
    if not probable:
        return []
    both = zip(scorecard(results_of(collection.runs, SOUND)), scorecard(probable), strict=True)
    return [pair for pair in both if pair[0].cell.status == "value"]


@shown("Scorecard", 50, main_only=True)
def protocols_table(collection: Collection) -> Table | None:
    """One row per published value."""
    found = pairs(collection)
    if not found:
        return None
    return Table(
        "protocols",
        "Every published value beside ours under the sound protocol and under the paper's probable one: batches of "
        "fixed size, counted without replacement.",
        _COLUMNS,
        [_row(*pair) for pair in found],
        notes=(
            "A cell of AG News is emulated where such runs are there: steps and noise as with all of the rows.",
            *_summaries(found),
        ),
        grids=[[score.grid for score in pair if score.grid] for pair in found],
    )


def _row(sound: Score, probable: Score) -> tuple[Any, ...]:
    cell = sound.cell
    place = (names.dataset(cell.dataset), names.strategy(cell.strategy), cell.k, cell.epsilon)
    return (*place, printed_pair(cell.dataset, cell.mean, cell.sd), *_cells(sound), *_cells(probable))


def _cells(score: Score) -> tuple[Any, ...]:
    return printed_pair(score.cell.dataset, score.mean, score.sd), score.deviations, score.shown_verdict


def _summaries(found: Sequence[Pair]) -> list[str]:
    """By data set: the verdicts of the cells that were run under both, and how far off they are on average."""
    return [
        line
        for dataset in TASKS
        if (line := _summary(dataset, [pair for pair in found if pair[0].cell.dataset == dataset]))
    ]


def _summary(dataset: str, mine: Sequence[Pair]) -> str:
    both = [pair for pair in mine if all(score.deviations is not None for score in pair)]
    if not both:
        return ""
    words = [_in_words(name, [pair[i] for pair in both]) for i, name in enumerate(("sound", "probable"))]
    return f"{names.dataset(dataset)}, {len(both)} of {len(mine)} values run under both: {'; '.join(words)}."


def _in_words(name: str, scores: Sequence[Score]) -> str:
    counts = Counter(score.verdict for score in scores)
    middle = statistics.median(score.deviations for score in scores if score.deviations is not None)
    each = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (REPRODUCED, BETTER, WORSE))
    return f"{name} {each}, median {names.deviations(middle)} sd"

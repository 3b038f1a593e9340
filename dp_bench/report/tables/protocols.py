"""Every published value under the sound protocol and under the paper's probable one."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from dp_bench.paper.readings import PROBABLE, SOUND
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import BETTER, REPRODUCED, WORSE, Score, key_of_cell, scorecard
from dp_bench.report.contents import shown
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.sections import results_of
from dp_bench.report.table import Column, Row, Table, by_column, place, printed_pair
from dp_bench.tasks import TASKS

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
        *by_column([_row(*pair) for pair in found]),
        notes=(
            "A cell of AG News is emulated where such runs are there: steps and noise as with all of the rows.",
            *_summaries(found),
        ),
        grids=[[score.grid for score in pair if score.grid] for pair in found],
    )


def _row(sound: Score, probable: Score) -> Row:
    cell = sound.cell
    return {
        **place(key_of_cell(cell)),
        Column("paper", "mean and sd"): printed_pair(cell.dataset, cell.mean, cell.sd),
        **_columns("sound protocol", sound),
        **_columns("the paper's probable protocol (not private)", probable),
    }


def _columns(group: str, score: Score) -> Row:
    return {
        Column("metric", "mean and sd", group): printed_pair(score.cell.dataset, score.mean, score.sd),
        Column("in sd", "deviations", group): score.deviations,
        Column("verdict", "verdict", group): score.shown_verdict,
    }


def _summaries(found: Sequence[Pair]) -> Iterator[str]:
    """By data set: the verdicts of the cells that were run under both, and how far off they are on average."""
    for dataset in TASKS:
        mine = [pair for pair in found if pair[0].cell.dataset == dataset]
        both = [pair for pair in mine if all(score.deviations is not None for score in pair)]
        if both:
            words = "; ".join(map(_in_words, ("sound", "probable"), zip(*both, strict=True)))
            yield f"{names.dataset(dataset)}, {len(both)} of {len(mine)} values run under both: {words}."


def _in_words(name: str, scores: Sequence[Score]) -> str:
    counts = Counter(score.verdict for score in scores)
    middle = statistics.median(score.deviations for score in scores if score.deviations is not None)
    each = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (REPRODUCED, BETTER, WORSE))
    return f"{name} {each}, median {names.deviations(middle)} sd"

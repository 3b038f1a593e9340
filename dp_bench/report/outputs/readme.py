"""The table of results in a README: written into it by the reporter, between two marks, never by hand."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dp_bench.errors import invalid
from dp_bench.experiment.folder_names import reading
from dp_bench.files.atomic import write_atomically
from dp_bench.privacy.accounting import exact
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import OPEN, VERDICTS, Score, section_scores
from dp_bench.report.epsilon_notes import no_guarantees
from dp_bench.report.load.sections import Section
from dp_bench.report.render.markdown import code, escaped, lines
from dp_bench.report.table import Column, Table, printed_pair
from dp_bench.report.tables.scorecard import headline
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

START, END = "<!-- results: written by dp-bench report -->", "<!-- end of results -->"
_COLUMNS = (
    *("data set", "strategy", Column("ε", "number"), Column("published", "mean and sd"), Column("here", "mean and sd")),
    *("verdict", Column("seeds", "number"), "all cells run"),
)


def check(path: Path) -> str:
    """The file's text, which must have a place for the results."""
    text = path.read_text() if path.is_file() else ""
    if text.count(START) != 1 or text.count(END) != 1:
        raise invalid(str(path), f"one line {START!r} and one {END!r}", "no place for the results", "add them")
    return text


def update(path: Path, sections: Sequence[Section]) -> None:
    """Replace what stands between the marks of the file."""
    text = check(path)
    before, rest = text.split(START)
    after = rest.split(END)[1]
    write_atomically(path, f"{before}{START}\n\n{block(sections)}\n{END}{after}".encode())


def block(sections: Sequence[Section]) -> str:
    """Per data set and strategy: the smallest budget that was run at k = 5 (else another k), and a count.

    Of the protocol that is compared first, and of emulated data. Other readings of the paper are only named: they are
    many, and each was run on few cells.
    """
    found: list[list[Score]] = []
    notes: dict[str, None] = {}
    others: dict[str, None] = {}
    units: dict[str, None] = {}
    for section in sections:
        if not section.composed:
            continue
        scores, readings = section_scores(section), _readings(section)
        rows = groups(scores)
        if rows and readings and section.slug:
            others |= dict.fromkeys(code(" ".join(choices)) for choices in readings)
        elif rows:
            found += rows
            units |= dict.fromkeys(_unit(dataset) for dataset in section.variants)
            notes |= dict.fromkeys(_notes(section, scores))
    if others:
        notes[f"Other readings of the paper that were run on some of these cells: {', '.join(others)}."] = None
    grids = [[score.grid for score in members if score.grid] for members in found]
    words = [f"{escaped(text)}\n" for text in (f"{'; '.join(units)}.", *notes)]
    table = Table("results", "", _COLUMNS, [_row(members) for members in found], grids=grids)
    return "\n".join([*lines(table), "", *words])


def _readings(section: Section) -> list[tuple[str, ...]]:
    """Which choices each data set's variant departs by, but for emulation; nothing where none does."""
    choices = (reading(variant) for variant in section.variants.values())
    return list(dict.fromkeys(tuple(chosen) for chosen in choices if chosen))


def groups(scores: Iterable[Score]) -> list[list[Score]]:
    """Those that were run, by data set and strategy."""
    found: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        cell = score.cell
        if score.verdict not in OPEN and cell.status != "point" and STRATEGIES[cell.strategy].private:
            found.setdefault((cell.dataset, cell.strategy), []).append(score)
    return list(found.values())


def place(score: Score) -> tuple[int, float]:
    """The smallest comes first: of the least k, the least budget."""
    return score.cell.k, score.cell.epsilon


def _row(members: list[Score]) -> tuple[Any, ...]:
    score = min(members, key=place)
    cell = score.cell
    assert score.grid is not None
    marks = ["emulated"] * score.grid.emulated + reading(score.grid.spec.variant)
    mark = f" ({', '.join(marks)})" if marks else ""
    counts = [f"{n} {verdict}" for verdict in VERDICTS if (n := sum(s.verdict == verdict for s in members))]
    return (
        names.dataset(cell.dataset) + mark,
        names.strategy(cell.strategy),
        f"{exact(cell.epsilon)}",
        printed_pair(cell.dataset, cell.mean, cell.sd) or "diverged",
        printed_pair(cell.dataset, score.mean, score.sd) or "diverged",
        score.shown_verdict,
        score.point.seeds_in_words if score.point else str(score.grid.seeds),
        f"{len(members)}: {', '.join(counts)}",
    )


def _unit(dataset: str) -> str:
    better = "higher" if TASKS[dataset].higher_is_better else "lower"
    return f"{names.dataset(dataset)}: {TASKS[dataset].metric_axis}, {better} is better"


def _notes(section: Section, scores: Sequence[Score]) -> list[str]:
    notes = [("Emulated data: " if section.slug else "") + headline(scores)]
    notes += no_guarantees(list(section.results.values()))
    for grid in section.results.values():
        if grid.spec.source.kind != "complete":
            caveats = "; ".join(grid.spec.source.caveats)
            notes.append(f"{names.dataset(grid.key.dataset)} here: {caveats}.")
    return list(dict.fromkeys(notes))

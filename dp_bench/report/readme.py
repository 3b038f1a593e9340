"""The table of results in a README: written into it by the reporter, between two marks, never by hand."""

import json
from collections.abc import Sequence
from pathlib import Path

from dp_bench.cache import write_atomically
from dp_bench.errors import UserError
from dp_bench.report import names
from dp_bench.report.commands import departures
from dp_bench.report.guarantee import no_guarantees
from dp_bench.report.results import Section
from dp_bench.report.score_tables import headline
from dp_bench.report.scorecard import NOT_RUN, VERDICTS, Score, section_scores
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

START, END = "<!-- results: written by dp-bench report -->", "<!-- end of results -->"
_COLUMNS = ("data set", "strategy", "ε", "published", "here", "verdict", "seeds", "all cells run")


def check(path: Path) -> str:
    """The file's text, which must have a place for the results."""
    text = path.read_text() if path.is_file() else ""
    if text.count(START) != 1 or text.count(END) != 1:
        raise UserError(f"{path}: found no place for the results, expected one line {START!r} and one {END!r}")
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
    lines = ["| " + " | ".join(_COLUMNS) + " |", "| --- | --- | --: | --: | --: | --- | --: | --- |"]
    notes: dict[str, None] = {}
    others: dict[str, None] = {}
    units: dict[str, None] = {}
    for section in sections:
        scores, readings = section_scores(section), _readings(section)
        rows = _rows(scores)
        if rows and readings and section.slug:
            others |= dict.fromkeys(f"`{' '.join(choices)}`" for choices in readings)
        elif rows:
            lines += rows
            units |= dict.fromkeys(_unit(dataset) for dataset in section.variants)
            notes |= dict.fromkeys(_notes(section, scores))
    if others:
        notes[f"Other readings of the paper that were run on some of these cells: {', '.join(others)}."] = None
    return "\n".join([*lines, "", f"{'; '.join(units)}.\n", *(f"{note}\n" for note in notes)])


def _readings(section: Section) -> list[tuple[str, ...]]:
    """Which choices each data set's variant departs by, but for emulation; nothing where none does."""
    choices = (_choices(variant) for variant in section.variants.values())
    return list(dict.fromkeys(tuple(chosen) for chosen in choices if chosen))


def _choices(variant: str) -> list[str]:
    return [choice for choice in departures(variant) if "emulate_size" not in choice]


def _rows(scores: Sequence[Score]) -> list[str]:
    run = [
        score
        for score in scores
        if score.verdict != NOT_RUN and score.cell.status != "point" and STRATEGIES[score.cell.strategy].private
    ]
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in run:
        groups.setdefault((score.cell.dataset, score.cell.strategy), []).append(score)
    return ["| " + " | ".join(_row(members)) + " |" for members in groups.values()]


def _row(members: list[Score]) -> tuple[str, ...]:
    score = min(members, key=lambda s: (s.cell.k, s.cell.epsilon))
    cell = score.cell
    assert score.grid is not None
    marks = ["emulated"] * score.grid.emulated + _choices(score.grid.facts["variant"])
    mark = f" ({', '.join(marks)})" if marks else ""
    counts = [f"{n} {verdict}" for verdict in VERDICTS if (n := sum(s.verdict == verdict for s in members))]
    return (
        names.dataset(cell.dataset) + mark,
        names.strategy(cell.strategy),
        f"{cell.epsilon:g}",
        _value(cell.mean, cell.sd),
        _value(score.mean, score.sd),
        score.verdict + " (tuned)" * score.tuned,
        score.point.seeds_in_words if score.point else str(score.grid.seeds),
        f"{len(members)}: {', '.join(counts)}",
    )


def _unit(dataset: str) -> str:
    better = "higher" if TASKS[dataset].higher_is_better else "lower"
    return f"{names.dataset(dataset)}: {names.metric_axis(dataset)}, {better} is better"


def _notes(section: Section, scores: Sequence[Score]) -> list[str]:
    notes = [("Emulated data: " if section.slug else "") + headline(scores)]
    notes += no_guarantees(list(section.results.values()))
    for grid in section.results.values():
        if grid.facts["source_kind"] != "complete":
            caveats = "; ".join(json.loads(grid.facts["caveats"]))
            notes.append(f"{names.dataset(grid.key.dataset)} here: {caveats}.")
    return list(dict.fromkeys(notes))


def _value(mean: float | None, sd: float | None) -> str:
    if mean is None:
        return "diverged"
    return names.metric(mean) + (f" ± {names.metric(sd)}" if sd is not None else "")

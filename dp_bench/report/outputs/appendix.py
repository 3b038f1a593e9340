"""The artifact appendix: each claim, the command that checks it, how long that takes, what one should see."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from dp_bench.experiment.rerun_command import command
from dp_bench.files.atomic import write_atomically
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import Score, section_scores
from dp_bench.report.epsilon_notes import no_guarantees
from dp_bench.report.load.sections import Section
from dp_bench.report.outputs.readme import groups, place
from dp_bench.report.render.markdown import lines
from dp_bench.report.table import Column, Table, mean_and_sd, printed_pair
from dp_bench.testing.command import QUICK_MINUTES

_HEAD = """# Artifact appendix

Written by `dp-bench report --appendix docs/artifact.md` from the reference runs; `make reference` renews it. Minutes
are of one core of the machine that made the runs, all seeds of the command together. Those of the first
five rows are estimates.
"""
_COLUMNS = ("claim", Column("command", "code"), Column("minutes", "number"), "expected output")
_WHOLE = (
    ("the code does what its tests say", "make test", "8 to 18 of two", "no failure; what is skipped says why"),
    ("a part of the paper, judged", "make reproduce", "15", "one table, the path of the page"),
    ("this machine gives the same bits", "dp-bench repeat", "1", "yes, or no and why"),
    (
        "the privacy claims withstand an audit",
        "dp-bench audit --quick",
        str(QUICK_MINUTES),
        "all planted bugs found, exit code 0",
    ),
    ("the budget pays for the whole search", "dp-bench plan experiment=mnist_k5", "1", "'per grid' is at most ε"),
)


def text(sections: Sequence[Section]) -> str:
    """Markdown: the project's claims, then one row per data set and strategy with the smallest budget that was run."""
    found = [groups(score for score in section_scores(section) if score.point) for section in sections[:2]]
    scores = [score for rows in found for score in sorted((min(row, key=place) for row in rows), key=place)]
    rows = [*_WHOLE, *(_row(score) for score in scores)]
    grids = [[score.grid] for score in scores if score.grid]
    table = Table("artifact", "", _COLUMNS, rows, grids=[*([] for _ in _WHOLE), *grids])
    notes = no_guarantees([grid for (grid,) in grids])
    return "\n".join([_HEAD, *lines(table), "", *(f"{note}\n" for note in notes)])


def write(path: Path, sections: Sequence[Section]) -> None:
    write_atomically(path, text(sections).encode())


def _row(score: Score) -> tuple[str, str, str, str]:
    cell, point = score.cell, score.point
    assert point is not None
    assert score.grid is not None
    seconds = [run.provenance.seconds for run in point.runs if run.provenance.seconds == run.provenance.seconds]
    minutes = f"{statistics.median(seconds) * point.seeds / 60:.0f}" if seconds else "?"
    theirs = mean_and_sd(printed_pair(cell.dataset, cell.mean, cell.sd)) or "diverged"
    ours = mean_and_sd(printed_pair(cell.dataset, score.mean, score.sd)) or "diverged"
    emulated = " (emulated)" * score.grid.emulated
    where = f"{names.dataset(cell.dataset)}{emulated}, {names.strategy(cell.strategy)}"
    claim = f"{where}, k = {cell.k}, ε = {names.epsilon(cell.epsilon)}"
    seeds = [run.spec.seed for run in point.runs]
    expected = f"{ours}; published {theirs}: {score.shown_verdict}"
    return claim, command("run", point.runs[0].spec, seeds), minutes, expected

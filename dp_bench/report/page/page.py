"""The report as one page that needs nothing else: styles, pictures, numbers and a little script inside.

Without its script everything that stands in it still shows. Only the runs of very large stores are separate files.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dp_bench import __version__
from dp_bench.report.analysis import scorecard as sc
from dp_bench.report.build import Report
from dp_bench.report.cells import Cell, guarantee_words
from dp_bench.report.chart import Chart
from dp_bench.report.contents import Part
from dp_bench.report.epsilon_notes import budget_words
from dp_bench.report.load.results import Grid
from dp_bench.report.page.embed import MOST_RUNS_INSIDE, as_script, chart_data, packed_runs, picture, run_files
from dp_bench.report.table import Column, Table

_LONG_TEXT = 30  # beyond this many letters a cell's text is broken

_CLASSES = {
    **dict.fromkeys((sc.REPRODUCED, sc.SAME_POINT, sc.AS_GOOD, "holds", "holds but for ties"), "verdict-good"),
    sc.BETTER: "verdict-better",
    **dict.fromkeys((sc.WORSE, sc.OTHER_POINT, sc.PARTLY_DIVERGED, "does not hold"), "verdict-bad"),
    **dict.fromkeys((sc.NOT_RUN, sc.NOT_JUDGED, sc.NOT_SEARCHED, "partly"), "verdict-open"),
}


_COLUMN = {"verdict": Column("verdict", "verdict")}  # of the table of all grids; the others are numbers or text
_WORDY = ("from", "data set", "strategy", "ε holds", "protocol", "hyperparameters", "verdict")


def page(report: Report, folder: Path) -> str:
    """The whole page; the charts' pictures are read from below `folder`."""
    templates = FileSystemLoader(Path(__file__).with_name("templates"))
    made = Environment(
        loader=templates, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    numbers = {(cell.from_here, cell.name): number for number, cell in enumerate(report.cells)}
    charts: list[Chart] = []

    def number_of(chart: Chart) -> int:
        charts.append(chart)
        return len(charts) - 1

    def cell_of(table: Table, row: int, column: int, from_here: bool) -> int | None:
        return numbers.get((from_here, table.opens(row, column)))

    made.globals |= {"classes": _classes, "blocks": _blocks, "picture": picture, "version": __version__}
    made.globals |= {"number_of": number_of, "cell_of": cell_of, "cell_class": _cell_class, "wordy": _WORDY}
    made.globals |= {"cells": report.cells, "meanings": _meanings(report.cells)}
    main, *others = [chapter for chapter in report.chapters if not chapter.from_here] or report.chapters
    here = [chapter for chapter in report.chapters if chapter.from_here]
    mark = "{data}"  # the charts that are shown are known only when all is rendered
    shown = made.get_template("page.html.j2").render(
        report=report, main=main, others=others, here=here, folder=folder, data=Markup(mark)
    )
    cells = [{"name": c.name, "guarantee": guarantee_words(c.grid), "here": c.from_here} for c in report.cells]
    content: dict[str, object] = {"cells": cells, "charts": [chart_data(one) for one in charts]}
    if _inside(report.cells):
        content["runs"] = packed_runs(report.cells)
    before, after = shown.rsplit(mark, 1)
    return before + as_script(content) + after


def files_beside(report: Report) -> dict[str, str]:
    """The files that the page loads when a grid is opened, by name; empty if the runs are inside the page."""
    return {} if _inside(report.cells) else run_files(report.cells)


def _inside(cells: Sequence[Cell]) -> bool:
    return sum(cell.grid.runs for cell in cells) <= MOST_RUNS_INSIDE


def _meanings(cells: Sequence[Cell]) -> list[str]:
    """What the epsilons of all grids mean, one paragraph per protocol."""
    by_protocol: dict[str, list[Grid]] = {}
    for cell in cells:
        by_protocol.setdefault(f"{cell.protocol}{', this machine' * cell.from_here}", []).append(cell.grid)
    return [f"{protocol}: {budget_words(grids)}" for protocol, grids in by_protocol.items()]


def _cell_class(heading: str, text: str) -> str:
    return _classes(_COLUMN.get(heading, Column(heading, "text" if heading in _WORDY else "number")), text)


def _blocks(part: Part) -> list[tuple[bool, list[Table | Chart]]]:
    """Neighbouring tables, neighbouring charts; and whether they are tables."""
    return [(is_table, list(items)) for is_table, items in groupby(part.items, lambda item: isinstance(item, Table))]


def _classes(column: Column, text: str = "") -> str:
    """Of a cell with this text, or of the column's heading."""
    verdict = _CLASSES.get(text.partition(" (")[0]) if column.kind == "verdict" else None  # without "(tuned)"
    found = ["text"] * (column.align == "left") + ["long"] * (len(text) > _LONG_TEXT) + [verdict] * bool(verdict)
    return " ".join(filter(None, found))

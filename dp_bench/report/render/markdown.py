"""A table as Markdown and as CSV."""

import csv
import io
import re
from collections.abc import Sequence

from dp_bench.files.names import no_formula, one_line
from dp_bench.report.table import Table, in_ascii

# What begins an HTML tag, and what makes a link of brackets: names, hosts and reasons come from stored runs.
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])(?=\()")


def markdown(table: Table) -> str:
    notes = (f"\n{escaped(note)}" for note in table.footnotes)
    return "\n".join([f"**{escaped(table.caption)}**", "", *lines(table), *notes, ""])


def escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: "\\" + found[0], one_line(text))


def code(text: str) -> str:
    """As code, in which nothing is markup."""
    return "`" + one_line(text).replace("`", "'") + "`"


def lines(table: Table) -> list[str]:
    """Headings, rule and rows."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    def words(text: str) -> str:
        return escaped(text).replace("`", r"\`")

    rule = [":--" if column.align == "left" else "--:" for column in table.columns]
    shown = [code if column.kind == "code" else words for column in table.columns]
    rows = [[show(cell) if cell else "" for show, cell in zip(shown, row, strict=True)] for row in table.cells]
    return [line(row) for row in ([words(heading) for heading in _headings(table)], rule, *rows)]


def comma_separated(table: Table) -> str:
    """In ASCII, each row with what its epsilon means: the file may be passed on alone."""
    rows = [[in_ascii(heading) for heading in _headings(table)]]
    rows += [[column.plain(value) for column, value in zip(table.columns, row, strict=True)] for row in table.rows]
    if table.guarantees:
        rows = [[*row, in_ascii(words)] for row, words in zip(rows, ["guarantee", *table.guarantees], strict=True)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([no_formula(cell) for cell in row] for row in rows)
    return text.getvalue()


def _headings(table: Table) -> list[str]:
    """One per column: there is no place for those of groups."""
    return [f"{column.group} {column.heading}".strip() for column in table.columns]

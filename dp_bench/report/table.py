"""A table, and two ways to write it: Markdown and CSV. Cells are text, Greek letters and all. LaTeX: latex.py."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

_ASCII = {
    "–": "-",
    "−": "-",
    "×": "x ",
    "±": "+-",
    "∞": "inf",
    "²": "^2",
    "†": "",
    "‡": "",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "ν": "nu",
    "ρ": "rho",
    "σ": "sigma",
}


@dataclass(frozen=True)
class Table:
    """`groups` are headings over several columns, as (text, number of columns), covering all of them, or none."""

    name: str  # of its files, and its LaTeX label
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()
    text_columns: frozenset[int] = frozenset({0})  # set flush left; all others hold numbers
    # What the epsilon of each row means. The notes say it too, but a CSV has none and is passed on alone.
    guarantees: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows} | {len(self.columns)}
        if len(widths) != 1 or (self.groups and sum(span for _, span in self.groups) != len(self.columns)):
            raise ValueError(f"{self.name}: rows, columns and groups must be equally wide. Found {sorted(widths)}.")
        if self.guarantees and len(self.guarantees) != len(self.rows):
            raise ValueError(f"{self.name}: expected {len(self.rows)} guarantees. Found {len(self.guarantees)}.")

    @property
    def flat_columns(self) -> list[str]:
        """One heading a column, for writers that know no groups."""
        over = [text for text, span in self.groups for _ in range(span)] or [""] * len(self.columns)
        return [f"{group} {column}".strip() for group, column in zip(over, self.columns, strict=True)]


def markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    rule = [":--" if i in table.text_columns else "--:" for i in range(len(table.columns))]
    lines = [line(table.flat_columns), line(rule), *(line(row) for row in table.rows)]
    return "\n".join([f"**{table.caption}**", "", *lines, *(f"\n{note}" for note in table.notes), ""])


def comma_separated(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [table.flat_columns, *table.rows]
    if table.guarantees:
        rows = [[*row, words] for row, words in zip(rows, ["guarantee", *table.guarantees], strict=True)]
    writer.writerows([in_ascii(cell) for cell in row] for row in rows)
    return text.getvalue()


def in_ascii(text: str) -> str:
    """As programs that read CSVs like it."""
    return "".join(_ASCII.get(letter, letter) for letter in text)

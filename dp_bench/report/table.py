"""One table, three ways to write it: Markdown, CSV and LaTeX (booktabs). Cells are text, Greek letters and all."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dp_bench.cache import write_atomically

# LaTeX does not break a float, and a longtable is refused in two columns.
_ROWS_OF_A_PAGE = 40
# Columns beyond which a table spans both columns of a page, and beyond which it is set smaller.
_ONE_COLUMN, _ORDINARY = 7, 10

_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "-": "-",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "∞": r"$\infty$",
    "²": "$^2$",
    "√": r"$\surd$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "α": r"$\alpha$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "ν": r"$\nu$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
}
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


def write(table: Table, folder: Path) -> None:
    for suffix, render in (("md", markdown), ("csv", comma_separated), ("tex", latex)):
        write_atomically(folder / f"{table.name}.{suffix}", render(table).encode())


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


def latex(table: Table) -> str:
    r"""Floats to \input into any document that has booktabs: several where one page would not hold all rows."""
    pages = [table.rows[i : i + _ROWS_OF_A_PAGE] for i in range(0, len(table.rows), _ROWS_OF_A_PAGE)] or [()]
    floats = [_latex_float(table, rows, i, len(pages)) for i, rows in enumerate(pages)]
    return "\n".join([r"% needs \usepackage{booktabs}", *floats, ""])


def _latex_float(table: Table, rows: Sequence[Sequence[str]], page: int, pages: int) -> str:
    environment = "table*" if len(table.columns) > _ONE_COLUMN else "table"
    size = r"\scriptsize\setlength{\tabcolsep}{3pt}" if len(table.columns) > _ORDINARY else r"\small"
    alignment = "".join("l" if i in table.text_columns else "r" for i in range(len(table.columns)))
    words = [table.caption, *table.notes] if page == 0 else [table.caption]
    part = f" (Part {page + 1} of {pages}.)" if pages > 1 else ""
    label = f"tab:{table.name}" + (f"_{page + 1}" if page else "")
    return "\n".join(
        [
            rf"\begin{{{environment}}}[tb]",
            r"\centering" + size,
            rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
            r"\toprule",
            *_latex_groups(table),
            _latex_row(table.columns),
            r"\midrule",
            *(_latex_row(row) for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_latex_text(' '.join(words) + part)}}}",
            rf"\label{{{label}}}",
            rf"\end{{{environment}}}",
        ]
    )


def _latex_groups(table: Table) -> list[str]:
    if not table.groups:
        return []
    cells = [rf"\multicolumn{{{span}}}{{c}}{{{_latex_text(text)}}}" for text, span in table.groups]
    rules, start = "", 1
    for text, span in table.groups:
        if text:
            rules += rf"\cmidrule(lr){{{start}-{start + span - 1}}}"
        start += span
    return [" & ".join(cells) + r" \\", rules]


def _latex_row(cells: Sequence[str]) -> str:
    # Braces: a row that begins with a bracket would be read as the argument of the line break before it.
    return (
        " & ".join(f"{{{_latex_text(cell)}}}" if cell.startswith("[") else _latex_text(cell) for cell in cells) + r" \\"
    )


def _latex_text(text: str) -> str:
    # Whatever else a folder may be called, a document must compile.
    return "".join(_LATEX.get(letter, letter if letter.isascii() else "?") for letter in text)

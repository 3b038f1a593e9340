"""A table in LaTeX: floats that fit on a page, with nothing but booktabs.

How wide a table will be is guessed from its letters, as LaTeX sets nothing here. Where a page is too narrow for it, its
text columns are broken into lines, the longest ones most.
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from dp_bench.report.table import Table


class _Layout(NamedTuple):
    """A way to set a table; lengths in points."""

    environment: str
    size: str
    width: float  # of the paper's text, or of one of its two columns
    letter: float  # an ordinary one: a digit
    gap: float  # between two columns
    line: float


# The article class in two columns, which is narrower than the styles of conferences, less a little for wrong guesses.
_PAGE, _COLUMN = 455.0, 220.0
_SMALL = r"\small"
_SCRIPT = r"\scriptsize\setlength{\tabcolsep}{3pt}"
_TINY = r"\tiny\setlength{\tabcolsep}{2pt}"
_SMALL_IN_A_COLUMN = _Layout("table", _SMALL, _COLUMN, letter=4.7, gap=12, line=11)
_SMALL_ON_A_PAGE = _SMALL_IN_A_COLUMN._replace(environment="table*", width=_PAGE)
_SMALLER = _Layout("table*", _SCRIPT, _PAGE, letter=4.0, gap=6, line=8)
_SMALLEST = _Layout("table*", _TINY, _PAGE, letter=3.6, gap=4, line=6)

# LaTeX does not break a float, and a longtable is refused in two columns. In points: a page, and letters of a caption.
_HEIGHT = 490.0
_CAPTION_LETTER, _CAPTION_LINE = 5.0, 12.0
# Lines that are ragged on the right hold less than their width.
_RAGGED = 1.3
# Letters that are narrower than a digit, or half as wide again.
_NARROW, _WIDE = frozenset(" .,:;()[]'ijlt†‡²"), frozenset("mw=<>±×−∞ABCDEFGHIJKLMNOPQRSTUVWXYZ")
# A word of more letters (a checksum, an override) may be broken, best behind a mark that ends a part of it.
_LONG_WORD = 20
_PIECE = re.compile(rf"[^=,/_;]{{1,{_LONG_WORD}}}[=,/_;]*|[=,/_;]+")

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


def latex(table: Table) -> str:
    r"""Floats to \input into any document that has booktabs: several where one page would not hold all rows."""
    layout = _layout(table)
    widths = _widths(table, layout)
    pages = _pages(table, layout, widths)
    floats = [_float(table, rows, layout, widths, i, len(pages)) for i, rows in enumerate(pages)]
    return "\n".join([r"% needs \usepackage{booktabs}", *floats, ""])


def _layout(table: Table) -> _Layout:
    """The largest that holds the table as it is, else the largest that holds it with its text broken into lines."""
    natural, least = _natural(table), _least(table)
    for layout in (_SMALL_IN_A_COLUMN, _SMALL_ON_A_PAGE, _SMALLER):
        if sum(natural) * layout.letter <= _room(table, layout):
            return layout
    return _SMALLER if sum(least) * _SMALLER.letter <= _room(table, _SMALLER) else _SMALLEST


def _room(table: Table, layout: _Layout) -> float:
    return layout.width - (len(table.columns) - 1) * layout.gap


def _cells(table: Table, column: int) -> list[str]:
    return [table.columns[column], *(row[column] for row in table.rows)]


def _natural(table: Table) -> list[float]:
    """Letters of each column."""
    return _under_groups(table, [max(map(_length, _cells(table, i))) for i in range(len(table.columns))])


def _length(text: str) -> float:
    return sum(0.6 if letter in _NARROW else 1.5 if letter in _WIDE else 1.0 for letter in text)


def _least(table: Table) -> list[float]:
    """Letters of each column when its text is broken wherever it may be; numbers stay whole."""
    pieces = (
        [_length(piece) for cell in _cells(table, i) for word in cell.split() for piece in _pieces(word)]
        for i in range(len(table.columns))
    )
    broken = [
        max(found, default=0) if i in table.text_columns else whole
        for i, (found, whole) in enumerate(zip(pieces, _natural(table), strict=True))
    ]
    return _under_groups(table, broken)


def _under_groups(table: Table, letters: list[float]) -> list[float]:
    """A heading over several columns that is wider than they are widens the last of them."""
    end = 0
    for text, span in table.groups:
        end += span
        letters[end - 1] += max(0.0, _length(text) - sum(letters[end - span : end]))
    return letters


def _pieces(word: str) -> list[str]:
    return [word] if len(word) <= _LONG_WORD else _PIECE.findall(word)


def _widths(table: Table, layout: _Layout) -> list[float | None]:
    """In points, of the columns that are broken into lines: what is left of the page goes to the longest ones."""
    natural, least = _natural(table), _least(table)
    missing = sum(natural) - _room(table, layout) / layout.letter
    if missing <= 0:
        return [None] * len(natural)
    kept = max(0.0, 1 - missing / (sum(natural) - sum(least) or 1))
    return [
        None if whole == few else layout.letter * (few + kept * (whole - few))
        for whole, few in zip(natural, least, strict=True)
    ]


def _pages(table: Table, layout: _Layout, widths: Sequence[float | None]) -> list[list[Sequence[str]]]:
    caption = _length(" ".join([table.caption, *table.notes])) * _CAPTION_LETTER / layout.width * _CAPTION_LINE
    pages: list[list[Sequence[str]]] = [[]]
    height = caption
    for row in table.rows:
        lines = [_RAGGED * _length(cell) * layout.letter / w for cell, w in zip(row, widths, strict=True) if w]
        tall = layout.line * math.ceil(max([1.0, *lines]))
        if height + tall > _HEIGHT:
            pages.append([])
            height = caption
        pages[-1].append(row)
        height += tall
    return pages


def _float(
    table: Table,
    rows: Sequence[Sequence[str]],
    layout: _Layout,
    widths: Sequence[float | None],
    page: int,
    pages: int,
) -> str:
    alignment = "".join("l" if i in table.text_columns else "r" for i in range(len(table.columns)))
    words = [table.caption, *table.notes] if page == 0 else [table.caption]
    part = f" (Part {page + 1} of {pages}.)" if pages > 1 else ""
    label = f"tab:{table.name}" + (f"_{page + 1}" if page else "")
    return "\n".join(
        [
            rf"\begin{{{layout.environment}}}[tb]",
            r"\centering" + layout.size,
            rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
            r"\toprule",
            *_groups(table),
            _row(table.columns, widths),
            r"\midrule",
            *(_row(row, widths) for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_text(' '.join(words) + part)}}}",
            rf"\label{{{label}}}",
            rf"\end{{{layout.environment}}}",
        ]
    )


def _groups(table: Table) -> list[str]:
    if not table.groups:
        return []
    cells = [rf"\multicolumn{{{span}}}{{c}}{{{_text(text)}}}" for text, span in table.groups]
    rules, start = "", 1
    for text, span in table.groups:
        if text:
            rules += rf"\cmidrule(lr){{{start}-{start + span - 1}}}"
        start += span
    return [" & ".join(cells) + r" \\", rules]


def _row(cells: Sequence[str], widths: Sequence[float | None]) -> str:
    return " & ".join(_cell(cell, width) for cell, width in zip(cells, widths, strict=True)) + r" \\"


def _cell(text: str, width: float | None) -> str:
    if width is not None:
        # A box, as a column of paragraphs cannot be set ragged without another package.
        return rf"\parbox[t]{{{width:.0f}pt}}{{\raggedright\hspace{{0pt}}{_broken(text)}\strut}}"
    # Braces: a row that begins with a bracket would be read as the argument of the line break before it.
    return f"{{{_text(text)}}}" if text.startswith("[") else _text(text)


def _broken(text: str) -> str:
    return " ".join(r"\allowbreak{}".join(map(_text, _pieces(word))) for word in text.split())


def _text(text: str) -> str:
    # Whatever else a folder may be called, a document must compile.
    return "".join(_LATEX.get(letter, letter if letter.isascii() else "?") for letter in text)

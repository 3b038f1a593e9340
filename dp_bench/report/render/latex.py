"""A table of the paper in LaTeX: a float that LaTeX itself shrinks where the page is too narrow for it."""

from collections.abc import Sequence

from dp_bench.report.names import GREEK
from dp_bench.report.table import Table

_MATHS = (r"\times", r"\pm", r"\geq", r"\leq", r"\infty", "^2", r"^{\dagger}", r"^{\ddagger}", "-", "<", ">")
_LATEX = {
    **{c: "\\" + c for c in "&%$#_{}"},
    **{c: f"${word}$" for c, word in zip("×±≥≤∞²†‡−<>", _MATHS, strict=True)},
    **{letter: rf"$\{word}$" for letter, word in GREEK.items()},
    "ε": r"$\varepsilon$",
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"},
}


def latex(table: Table) -> str:
    r"""A float to \input into any document that has booktabs and adjustbox."""
    alignment = "".join(column.align[0] for column in table.columns)
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,adjustbox}",
            r"\begin{table*}[tb]",
            r"\centering\small",
            r"\begin{adjustbox}{max width=\textwidth}",
            rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
            r"\toprule",
            *_groups(table),
            _row(table.headings),
            r"\midrule",
            *map(_row, table.cells),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{adjustbox}",
            rf"\caption{{{_text(' '.join([table.caption, *table.footnotes]))}}}",
            rf"\label{{tab:{table.name}}}",
            r"\end{table*}",
            "",
        ]
    )


def _groups(table: Table) -> list[str]:
    if not table.groups:
        return []
    cells = [rf"\multicolumn{{{span}}}{{c}}{{{_text(text)}}}" for text, span in table.groups]
    rules, start = "", 1
    for text, span in table.groups:
        rules += rf"\cmidrule(lr){{{start}-{start + span - 1}}}" if text else ""
        start += span
    return [" & ".join(cells) + r" \\", rules]


def _row(cells: Sequence[str]) -> str:
    # Braces: a row that begins with a bracket would be read as the argument of the line break before it.
    return " & ".join(f"{{{_text(cell)}}}" if cell.startswith("[") else _text(cell) for cell in cells) + r" \\"


def _text(text: str) -> str:
    # Whatever else a folder may be called, a document must compile.
    return "".join(_LATEX.get(letter, letter if letter.isascii() else "?") for letter in text)

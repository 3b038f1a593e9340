"""Tables for people: drawn by rich on a terminal, plain aligned lines anywhere else. NO_COLOR is respected."""

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_COLORS = {"failed": "red", "diverged": "yellow", "running": "cyan"}
_SPARKS = "▁▂▃▄▅▆▇█"


def console(file: TextIO | None = None) -> Console:
    return Console(file=file or sys.stdout, highlight=False, soft_wrap=False)


def rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    """Columns of numbers to the right; names of users' own are text, never markup."""
    table = Table(box=SIMPLE_HEAD, title=escape(title) or None, title_justify="left", pad_edge=False)
    for i, heading in enumerate(headings):
        numbers = all(_is_number(row[i]) for row in rows)
        style = _COLORS.get(heading, "")
        table.add_column(heading, justify="right" if numbers else "left", style=style, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    numbers = [all(_is_number(row[i]) for row in rows) for i in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        padded = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numbers, strict=True))
        return "  ".join(padded).rstrip()

    return [line(headings), *(line(row) for row in rows)]


def as_lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The table as standard output can show it."""
    shown = console()
    if not shown.is_terminal:
        return plain_table(headings, rows)
    with shown.capture() as captured:
        shown.print(rich_table(headings, rows))
    return captured.get().rstrip("\n").splitlines()


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], file: TextIO | None = None) -> None:
    shown = console(file)
    if shown.is_terminal:
        shown.print(rich_table(headings, rows))
    else:
        print("\n".join(plain_table(headings, rows)), file=file or sys.stdout, flush=True)


def sparkline(values: Sequence[float], most: int = 60) -> str:
    """The values as a line of blocks; a gap where one is not finite."""
    if len(values) > most:
        values = [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]
    finite = [value for value in values if abs(value) < float("inf")]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    top = len(_SPARKS) - 1
    return "".join(
        _SPARKS[round(top * (value - low) / (high - low or 1))] if abs(value) < float("inf") else " "
        for value in values
    )


def short_names(folders: Iterable[str]) -> dict[str, str]:
    """A grid's folder without profile and variant; with so much of them as tells it from the others."""
    listed = list(folders)
    variants = list(dict.fromkeys(folder.rsplit("/", 4)[0] for folder in listed))
    parts = [set(variant.replace("/", ",").split(",")) for variant in variants]
    common = set.intersection(*parts) if parts else set()
    own = {v: ",".join(p for p in v.replace("/", ",").split(",") if p not in common) for v in variants}
    found = {}
    for folder in listed:
        variant, *rest = folder.rsplit("/", 4)
        found[folder] = "/".join([f"{rest[0]} ({own[variant]})" if own[variant] else rest[0], *rest[1:]])
    return found


def _is_number(text: str) -> bool:
    return not text or text[0].isdigit() or text in ("-", "∞") or text.lstrip("-−+")[:1].isdigit()

"""Tables for people: drawn by rich on a terminal, plain aligned lines anywhere else. NO_COLOR is respected."""

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dp_bench.experiment.folder_names import DEFAULT, choices
from dp_bench.experiment.spec import RunSpec
from dp_bench.files.names import short
from dp_bench.privacy.guarantee import guarantee

_COLORS = {"failed": "red", "diverged": "yellow", "running": "cyan"}
_SPARKS = "▁▂▃▄▅▆▇█"
_MOST_SPARKS = 60  # on a line


def console(file: TextIO) -> Console:
    return Console(file=file, highlight=False)


def rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Columns of numbers to the right; names of users' own are text, never markup."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
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
    shown = console(sys.stdout)
    if not shown.is_terminal:
        return plain_table(headings, rows)
    with shown.capture() as captured:
        shown.print(rich_table(headings, rows))
    return captured.get().rstrip("\n").splitlines()


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n".join(as_lines(headings, rows)), flush=True)


def sparkline(values: Sequence[float]) -> str:
    """The values as a line of blocks; a gap where one is not finite."""
    if len(values) > _MOST_SPARKS:
        values = [values[round(i * (len(values) - 1) / (_MOST_SPARKS - 1))] for i in range(_MOST_SPARKS)]
    finite = [value for value in values if abs(value) < float("inf")]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    top = len(_SPARKS) - 1
    return "".join(
        _SPARKS[round(top * (value - low) / (high - low or 1))] if abs(value) < float("inf") else " "
        for value in values
    )


class GridName(NamedTuple):
    """Which grid it is, in the words of a table."""

    dataset: str  # with so much of profile and variant as tells the grid from others
    strategy: str
    k: str
    epsilon: str
    mark: str = ""  # of an epsilon that is not a guarantee

    @property
    def cells(self) -> list[str]:
        epsilon = f"{self.epsilon} ({self.mark})" if self.mark else self.epsilon
        return [self.dataset, self.strategy, self.k, epsilon]

    def __str__(self) -> str:
        return f"{self.dataset}/{self.strategy}/k{self.k}/eps{self.epsilon}"


def short_names(specs: Iterable[RunSpec]) -> dict[str, GridName]:
    """The names of the grids of these runs, by their folders."""
    grids = {str(spec.grid_folder): spec for spec in specs}
    parts = {name: [spec.profile, *(choices(spec.variant) or [DEFAULT])] for name, spec in grids.items()}
    common = set.intersection(*map(set, parts.values())) if parts else set()
    found = {}
    for name, spec in grids.items():
        own = ",".join(part for part in parts[name] if part not in common)
        dataset = f"{spec.dataset.name} ({own})" if own else spec.dataset.name
        worth = guarantee(spec.allocation, spec.source.train_rows).mark if spec.allocation else ""
        found[name] = GridName(dataset, spec.strategy, str(spec.grid.k), short(spec.epsilon), worth)
    return found


def _is_number(text: str) -> bool:
    return not text or text[0].isdigit() or text in ("-", "∞") or text.lstrip("-−+")[:1].isdigit()

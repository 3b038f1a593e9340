"""A table as files, one a notation."""

from pathlib import Path

from dp_bench.cache import write_atomically
from dp_bench.report.latex import latex
from dp_bench.report.table import Table, comma_separated, markdown

_NOTATIONS = {"md": markdown, "csv": comma_separated, "tex": latex}


def write(table: Table, folder: Path) -> list[str]:
    """Write the table into the folder, and return the names of its files."""
    for suffix, render in _NOTATIONS.items():
        write_atomically(folder / f"{table.name}.{suffix}", render(table).encode())
    return [f"{table.name}.{suffix}" for suffix in _NOTATIONS]

"""A table as files, one per notation."""

from pathlib import Path

from dp_bench.files.atomic import write_atomically
from dp_bench.report.render.latex import latex
from dp_bench.report.render.markdown import comma_separated, markdown
from dp_bench.report.table import Table


def write(table: Table, folder: Path) -> None:
    """Write the table into the folder. LaTeX only of the paper's tables."""
    made = {"md": markdown(table), "csv": comma_separated(table)} | ({"tex": latex(table)} if table.in_paper else {})
    for suffix, text in made.items():
        write_file(folder / f"{table.name}.{suffix}", text)


def write_file(path: Path, text: str) -> None:
    """A file of a report, which is made durable as a whole."""
    write_atomically(path, text.encode(), durable=False)

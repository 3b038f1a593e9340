"""Files of numbers: the metrics.csv of a run, the data of a trade-off."""

import csv
from pathlib import Path


def columns(text: str) -> dict[str, list[float]]:
    """The columns of a CSV that holds nothing but numbers under its headings, and at least a row of them."""
    rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(text.splitlines())]
    return {name: [row[name] for row in rows] for name in rows[0]}


def read_metrics(root: Path, folder: str) -> dict[str, list[float]] | None:
    """The columns of a run's metrics.csv, or None where it cannot be read."""
    try:
        return columns((root / folder / "metrics.csv").read_text())
    except (OSError, ValueError, TypeError, LookupError):
        return None

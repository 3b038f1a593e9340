"""What `dp-bench trade-off` stores next to the runs: the data of a figure, and what they were measured on."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from dp_bench.errors import invalid
from dp_bench.experiment.spec import RunSpec
from dp_bench.files import system
from dp_bench.files.atomic import write_atomically
from dp_bench.files.checksummed import read_checksummed, write_checksummed

TRADE_OFF_DATA, TRADE_OFF_FACTS = "trade_off.csv", "trade_off.json"


def trade_off_folder(spec: RunSpec) -> PurePosixPath:
    """Where what is measured of such a run is kept."""
    return PurePosixPath(spec.profile, "trade_off", spec.dataset.name)


def write_trade_off(folder: Path, rows: bytes, facts: Mapping[str, Any]) -> None:
    """The data of one figure, and what they were measured on. Each file is whole, and tells what belongs to it."""
    write_atomically(folder / TRADE_OFF_DATA, rows)
    write_checksummed(folder / TRADE_OFF_FACTS, {**facts, "csv_sha256": hashlib.sha256(rows).hexdigest()})


def read_trade_off(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """What `write_trade_off` wrote; UserError where its files are damaged or do not belong together."""
    facts, rows = read_checksummed(folder / TRADE_OFF_FACTS), system.read(folder / TRADE_OFF_DATA, follow=False)
    if hashlib.sha256(rows).hexdigest() != facts["csv_sha256"]:
        expected = f"what fits the checksum in {TRADE_OFF_FACTS}"
        raise invalid(TRADE_OFF_DATA, expected, "something else", "delete both to measure them again")
    return rows, {name: value for name, value in facts.items() if name != "csv_sha256"}

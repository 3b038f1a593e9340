"""The runs behind a report, copied to a place where they can be kept for good: no checkpoints, no models, no locks."""

import shutil
from pathlib import Path

from dp_bench.report.collect import Collection

_KEPT = ("spec.json", "metrics.csv", "result.json", "provenance.json", "trade_off.csv", "trade_off.json")


def copy_runs(collection: Collection, place: Path) -> None:
    """Copy every finished run, and the data of trade-off figures, to the same folders under `place`."""
    done = collection.runs.loc[collection.runs["status"] != "unfinished", "folder"]
    for folder in [*done, *(found.folder for found in collection.trade_offs)]:
        source, target = collection.root / folder, place / folder
        target.mkdir(parents=True, exist_ok=True)
        for name in _KEPT:
            if (source / name).exists():
                shutil.copyfile(source / name, target / name)

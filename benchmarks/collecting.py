"""How the time to collect results grows with their number: linearly, or it is a defect.

    python benchmarks/collecting.py [--repetitions 5]

Synthetic runs, read as `dp-bench report` reads them. `report.py` measures a whole report of the paper's sweep.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from growth import fitted
from options import positive

from dp_bench.experiment import grid
from dp_bench.experiment.config import GridConfig
from dp_bench.experiment.resolve import axes_of
from dp_bench.report.load.collect import collect
from dp_bench.tasks import TASKS

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from report_helpers import synthetic_spec, write_run

REPETITIONS = 5
RUNS = (1000, 2000, 4000)
_EVALUATIONS = 24  # of an MNIST run


def measure(repetitions: int = REPETITIONS, sizes: Sequence[int] = RUNS) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        stores = [_store(Path(folder, str(size)), size) for size in sizes]
        _seconds(stores[0])  # what is slow only once
        rounds = [[_seconds(store) for store in stores] for _ in range(repetitions)]
    return fitted("collecting", "runs", sizes, rounds)


def _store(root: Path, size: int) -> Path:
    """FixedThreshold's grids on MNIST, seed after seed until there are enough runs."""
    points = grid.points(axes_of("fixed_threshold", GridConfig(k=9)))
    values = [0.1 + 0.03 * i for i in range(_EVALUATIONS)]
    cells = list(itertools.product(TASKS["mnist"].epsilons, points))
    for i in range(size):
        seed, cell = divmod(i, len(cells))
        epsilon, point = cells[cell]
        write_run(root, synthetic_spec("mnist", "fixed_threshold", 9, float(epsilon), seed, **point), values)
    return root


def _seconds(store: Path) -> float:
    start = time.perf_counter()
    collect(store, "paper")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=positive, default=REPETITIONS)
    print(json.dumps(measure(parser.parse_args().repetitions)))


if __name__ == "__main__":
    main()

"""`dp-bench reproduce`: a part of the paper in a quarter of an hour, next to the committed reference results.

The paper's quickest data set (AG News: half a minute a run) is trained at the full protocol where the data can be had,
and judged. The others, and synthetic data in its place, are trained at a much reduced protocol: that shows that
everything works, is shown with the published values and is never judged.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dp_bench.arguments import command_parser
from dp_bench.data.find import MissingData, Source
from dp_bench.errors import JobsFailed
from dp_bench.paper import published
from dp_bench.report import names
from dp_bench.report.analysis.shown_strategies import PUBLISHED
from dp_bench.report.commands.report import make_report
from dp_bench.report.load.results import Grid
from dp_bench.report.load.sections import reading, sections
from dp_bench.strategies import STRATEGIES
from dp_bench.sweep.terminal import print_table
from dp_bench.tasks import TASKS

REFERENCE = Path("reports/reference/runs")
_DATASETS = tuple(dict.fromkeys(cell.dataset for cell in published.cells()))
_FULL = min(_DATASETS, key=lambda name: TASKS[name].step_cost)  # quick enough to be trained in full
_REDUCED = tuple(name for name in _DATASETS if name != _FULL)
_STRATEGIES = "strategy=" + ",".join(name for name in STRATEGIES if name in PUBLISHED)


def main(argv: Sequence[str]) -> int:
    parser = command_parser(
        "reproduce",
        "Train a part of the paper (a quarter of an hour on two cores), repeat a reference run bit for "
        "bit, and report both with the committed reference results. The same command resumes.",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are kept (default: runs)")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="where the report goes (default: reports)")
    options = parser.parse_args(argv)
    for arguments in sweeps(_source()):
        print(f"dp-bench run -m {' '.join(arguments)}", file=sys.stderr, flush=True)
        code = "import sys; from dp_bench.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "run", "-m", *arguments, f"runs={options.runs}"]
        if subprocess.run(command).returncode:
            raise JobsFailed("a sweep failed, for the reason given above; the same command resumes")
    reference = REFERENCE if REFERENCE.is_dir() else None
    profiles = [name for name in ("quick", "verify") if (options.runs / name).is_dir()]
    page = make_report(options.runs, ",".join(profiles), options.out, reference=reference)
    _summary(options.runs, profiles, reference)
    print(f"\nthe page: {page}")
    return 0


def _source() -> Source | None:
    """The quickest data set as it can be had here; None if it cannot."""
    try:
        return TASKS[_FULL].describe()
    except MissingData:
        return None


def sweeps(quickest: Source | None) -> list[list[str]]:
    """What is trained: the quickest data set in full if it can be had, the rest reduced."""
    reduced = ["dataset=" + ",".join(_REDUCED if quickest else (*_REDUCED, _FULL)), _STRATEGIES, "grid.k=5"]
    reduced += ["profile=quick", "seeds=[0]"]
    if quickest is None:
        return [reduced]
    full = [f"dataset={_FULL}", _STRATEGIES, "grid.k=5", "profile=verify", "epsilons=outer", "seeds=[0,1]"]
    if quickest.kind != "complete":  # the paper's steps and noise, which a part of the data cannot guarantee
        full.append(f"dataset.emulate_size={TASKS[_FULL].official_rows()[0]}")
    return [full, reduced]


def _summary(runs: Path, profiles: Sequence[str], reference: Path | None) -> None:
    """One short table: what was found before, and here."""
    from dp_bench.report.analysis.scorecard import BETTER, NOT_JUDGED, REPRODUCED, WORSE, section_scores
    from dp_bench.report.commands.repeat import same_bits
    from dp_bench.report.load.collect import collect

    stores = [("reference", collect(reference, "verify"))] if reference else []
    rows = []
    for label, collection in [*stores, ("this machine", collect(runs, ",".join(profiles)))]:
        for section in sections(collection.runs):
            if label == "reference" and any(reading(variant) for variant in section.variants.values()):
                continue  # other readings than the defaults, but for emulation, are on the page
            scores = [s for s in section_scores(section) if s.point and s.cell.status != "point"]
            for dataset in section.variants:
                mine = [score for score in scores if score.cell.dataset == dataset]
                counts = Counter(score.verdict for score in mine)
                if mine:
                    about = _protocol(next(score.grid for score in mine if score.grid))
                    verdicts = [str(counts[verdict] or "-") for verdict in (REPRODUCED, BETTER, WORSE, NOT_JUDGED)]
                    rows.append([label, names.dataset(dataset), about, str(len(mine)), *verdicts])
    print_table(("from", "data set", "protocol", "cells", "reproduced", "better", "worse", "not judged"), rows)
    if reference:
        print(same_bits(stores[0][1].runs))


def _protocol(grid: Grid) -> str:
    if grid.synthetic:
        return "reduced, synthetic data"
    if not grid.full_protocol:
        return "reduced"
    if grid.emulated:
        return "full, emulated"
    return "full" if grid.spec.source.kind == "complete" else "full, part of the data"

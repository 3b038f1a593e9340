"""The runs by how they read the paper, whatever data they were trained on."""

from collections.abc import Iterable, Sequence

from dp_bench.experiment import folder_names
from dp_bench.experiment.record import RunRecord
from dp_bench.paper.readings import Reading
from dp_bench.report.load.results import Results, most_seeds, results


def reading(variant: str) -> Reading:
    """The choices of a variant that do not name the data."""
    return frozenset(folder_names.reading(variant))


def results_of(runs: Sequence[RunRecord], wanted: Reading) -> Results:
    """The grids that were searched under one reading.

    Of a data set of which only a part is here the emulated runs, if there are any: they have the paper's noise.
    """
    mine = [run for run in runs if reading(run.spec.variant) == wanted]
    closest = {dataset: _closest_to_the_paper(mine, dataset) for dataset in {run.spec.dataset.name for run in mine}}
    chosen = [run for run in mine if run.spec.variant == closest[run.spec.dataset.name]]
    return results(chosen, most_seeds(chosen)) if chosen else {}


def _closest_to_the_paper(runs: Iterable[RunRecord], dataset: str) -> str:
    found = {run.spec.variant for run in runs if run.spec.dataset.name == dataset}
    return min(found, key=lambda variant: (not folder_names.is_emulated(variant), variant))

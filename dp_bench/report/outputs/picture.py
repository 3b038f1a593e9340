"""The one picture of a README: what each strategy reaches for which budget, published and ours."""

from collections.abc import Sequence
from pathlib import Path

from dp_bench.experiment.folder_names import DEFAULT
from dp_bench.files.atomic import write_atomically
from dp_bench.report.chart import Chart
from dp_bench.report.figures.metric import metric
from dp_bench.report.load.results import Results
from dp_bench.report.load.sections import Section, reading
from dp_bench.tasks import TASKS

_K = 5


def overview(sections: Sequence[Section]) -> Chart | None:
    """One panel per data set at k = 5: of the protocol closest to the paper's in steps and noise, so emulated data of a
    data set of which only a part is there, which its title then says."""
    closest = {name: _closest(sections, name) for name in TASKS}
    charts = [chart for name, mine in closest.items() if (chart := metric(mine, name, _K)) is not None]
    if not charts:
        return None
    panels = tuple(panel for chart in charts for panel in chart.panels)
    caption = " ".join(chart.caption for chart in charts)
    grids = [grid for mine in closest.values() for grid in mine.values()]
    return Chart("picture", caption, panels, columns=len(panels), panel_size=(3.9, 3.2), grids=grids)


def _closest(sections: Sequence[Section], dataset: str) -> Results:
    """The first section of those whose data set counts the most rows and whose protocol has no other departure."""
    found: Results = {}
    most = 0
    for section in sections:
        mine = {key: grid for key, grid in section.results.items() if key.dataset == dataset}
        plain = not reading(section.variants.get(dataset, DEFAULT))
        rows = max((grid.spec.accounted_rows for grid in mine.values()), default=0)
        if plain and rows > most:
            found, most = mine, rows
    return found


def write(path: Path, sections: Sequence[Section]) -> None:
    """As PNG; nothing if no private grid at k = 5 has a result."""
    from dp_bench.report.render.pictures import drawn

    if (chart := overview(sections)) is not None:
        write_atomically(path, drawn(chart, pdf=False)["png"])

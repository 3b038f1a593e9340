"""Pictures as files: PNG for the page, PDF for a paper.

A picture takes a fifth of a second to draw, and a report has a hundred. Drawn ones are kept in the cache under the
checksum of all that they are made of, so a report draws only what has changed since the last one.
"""

import functools
import gc
import hashlib
import io
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import matplotlib
import PIL
from matplotlib import style
from matplotlib.figure import Figure
from PIL import Image

from dp_bench.files.atomic import cache_folder, write_atomically
from dp_bench.files.checksummed import read_checksummed_bytes, write_checksummed_bytes
from dp_bench.report.chart import Chart
from dp_bench.report.render.draw import draw
from dp_bench.report.render.looks import drawing_order, look_of

_STYLE = Path(__file__).with_name("dp_bench.mplstyle")
_CODE = (Path(__file__), Path(__file__).with_name("draw.py"), _STYLE)
_WORTH_PROCESSES = 8


class Drawing(NamedTuple):
    """A chart to be drawn into `folder`, as NAME.png, and for a paper as NAME.pdf: fonts alone take it 0.2 s."""

    chart: Chart
    folder: Path
    pdf: bool = True


def save_all(drawings: Sequence[Drawing]) -> None:
    """Every one of them, on all cores where many have to be drawn."""
    missing = [drawing for drawing in drawings if not _copied(drawing)]
    if len(missing) < _WORTH_PROCESSES:
        for drawing in missing:
            save(*drawing)
        return
    # What a worker inherits is not its garbage: it need not search thousands of runs for some with every figure.
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 8), initializer=gc.freeze) as pool:
        for _ in pool.map(save, *zip(*missing, strict=True), chunksize=2):
            pass


def save(chart: Chart, folder: Path, pdf: bool = True) -> None:
    """Draw it, whatever the cache has, and keep it there."""
    stem = _cached(chart)
    for kind, content in drawn(chart, pdf).items():
        write_checksummed_bytes(stem.with_suffix(f".{kind}"), content)
        write_atomically(folder / f"{chart.name}.{kind}", content, durable=False)


def _copied(drawing: Drawing) -> bool:
    """Whether the cache had it, in all its formats."""
    chart, folder, pdf = drawing
    stem = _cached(chart)
    for kind in ("png", "pdf") if pdf else ("png",):
        content = read_checksummed_bytes(stem.with_suffix(f".{kind}"))
        if content is None:
            return False
        write_atomically(folder / f"{chart.name}.{kind}", content, durable=False)
    return True


def _cached(chart: Chart) -> Path:
    """Named by the checksum of everything that a picture follows from: data, looks, this code and the libraries."""
    used = dict.fromkeys(series.look for panel in chart.panels for series in panel.series)
    order = [name for name in drawing_order() if name in used]
    looks = {name: look_of(name) for name in used}
    return cache_folder() / "figures" / hashlib.sha256(repr((_code(), chart, looks, order)).encode()).hexdigest()


@functools.cache
def _code() -> tuple[str, ...]:
    sources = (hashlib.sha256(file.read_bytes()).hexdigest() for file in _CODE)
    return (*sources, matplotlib.__version__, PIL.__version__)


def drawn(chart: Chart, pdf: bool = True) -> dict[str, bytes]:
    """The files' contents, by format."""
    with style.context(["default", _STYLE]), io.BytesIO() as buffer:
        figure = draw(chart)
        # Laid out once for both files: finding room for labels takes as long as drawing them.
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine(None)
        pictures = {"png": _png(figure)}
        if pdf:
            # No date inside: the same runs give the same file.
            figure.savefig(buffer, format="pdf", metadata={"CreationDate": None, "Title": chart.caption})
            pictures["pdf"] = buffer.getvalue()
        return pictures


def _png(figure: Figure) -> bytes:
    """256 colours, each a mean of close ones: the page is a third as large, and a heat map's cells stay distinct."""
    dpi = matplotlib.rcParams["savefig.dpi"]
    figure.set_dpi(dpi)
    with io.BytesIO() as buffer:
        figure.savefig(buffer, format="rgba")
        picture = Image.frombytes("RGBA", figure.canvas.get_width_height(), buffer.getvalue()).convert("RGB")
    with io.BytesIO() as buffer:
        # A tenth larger than with optimize=True, which takes six times as long.
        picture.quantize(method=Image.Quantize.MEDIANCUT).save(buffer, format="png", dpi=(dpi, dpi))
        return buffer.getvalue()

"""Pictures as files: PNG for the page, PDF for a paper.

A picture takes about half a second to draw, and a report has a hundred. Drawn ones are kept in the cache under the
checksum of all that they are made of, so a report draws only what has changed since the last one.
"""

import functools
import gc
import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import matplotlib
import PIL
from matplotlib import style
from matplotlib.figure import Figure
from PIL import Image

from dp_bench.files.atomic import write_atomically
from dp_bench.files.checksummed import read_checksummed_bytes, write_checksummed_bytes
from dp_bench.report.chart import Chart
from dp_bench.report.render.draw import draw
from dp_bench.report.render.looks import drawing_order, look_of
from dp_bench.report.render.webp import cached_picture

_STYLE = Path(__file__).with_name("dp_bench.mplstyle")
_CODE = (Path(__file__), Path(__file__).with_name("draw.py"), _STYLE)
_WORTH_PROCESSES = 8


class Drawing(NamedTuple):
    """A chart to be drawn into `folder`, as NAME.png, and for a paper as NAME.pdf: fonts alone take it 0.2 s."""

    chart: Chart
    folder: Path
    pdf: bool = True

    @property
    def formats(self) -> tuple[str, ...]:
        return ("png", "pdf") if self.pdf else ("png",)


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
    drawing = Drawing(chart, folder, pdf)
    pictures, stem = _drawn(drawing), cached_picture(_identity(chart))
    for kind, content in pictures.items():
        write_checksummed_bytes(stem.with_suffix(f".{kind}"), content)
    _write(drawing, pictures)


def _copied(drawing: Drawing) -> bool:
    """Whether the cache had it, in all its formats."""
    stem = cached_picture(_identity(drawing.chart))
    pictures = {kind: read_checksummed_bytes(stem.with_suffix(f".{kind}")) for kind in drawing.formats}
    whole = {kind: content for kind, content in pictures.items() if content is not None}
    if len(whole) < len(pictures):
        return False
    _write(drawing, whole)
    return True


def _write(drawing: Drawing, pictures: Mapping[str, bytes]) -> None:
    for kind, content in pictures.items():
        write_atomically(drawing.folder / f"{drawing.chart.name}.{kind}", content, durable=False)


def _identity(chart: Chart) -> str:
    """The checksum of everything that a picture follows from: data, looks, this code and the libraries."""
    used = dict.fromkeys(series.look for panel in chart.panels for series in panel.series)
    order = [name for name in drawing_order() if name in used]
    looks = {name: look_of(name) for name in used}
    return hashlib.sha256(repr((_code(), chart, looks, order)).encode()).hexdigest()


@functools.cache
def _code() -> tuple[str, ...]:
    sources = (hashlib.sha256(file.read_bytes()).hexdigest() for file in _CODE)
    return (*sources, matplotlib.__version__, PIL.__version__)


def _drawn(drawing: Drawing) -> dict[str, bytes]:
    with style.context(["default", _STYLE]):
        figure = draw(drawing.chart)
        _lay_out(figure)
        pictures = {"png": _png(figure)}
        if drawing.pdf:
            # No date inside: the same runs give the same file.
            with io.BytesIO() as buffer:
                figure.savefig(buffer, format="pdf", metadata={"CreationDate": None, "Title": drawing.chart.caption})
                pictures["pdf"] = buffer.getvalue()
        return pictures


def _png(figure: Figure) -> bytes:
    """256 colours, each a mean of close ones: the page is a third as large, and a heat map's cells stay distinct."""
    with io.BytesIO() as buffer:
        figure.savefig(buffer, format="png")
        picture = Image.open(buffer).convert("RGB")
    dpi = matplotlib.rcParams["savefig.dpi"]
    with io.BytesIO() as buffer:
        picture.quantize(method=Image.Quantize.MEDIANCUT).save(buffer, format="png", optimize=True, dpi=(dpi, dpi))
        return buffer.getvalue()


def _lay_out(figure: Figure) -> None:
    """Once for both files: finding room for labels takes as long as drawing them."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)

"""What the page carries inside: small pictures; charts and grids as compact JSON that no name can break out of."""

import base64
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from dp_bench.files.atomic import cache_folder
from dp_bench.files.checksummed import read_checksummed_bytes, write_checksummed_bytes
from dp_bench.report.cells import Cell, compact, opened
from dp_bench.report.chart import Chart, HeatMap, Panel, Series
from dp_bench.report.render.looks import look_of

# Beyond so many runs each grid's are a separate file, loaded when it is opened. Packed, a run takes about 0.4 kB, and
# the page has to stay below 3 MB.
MOST_RUNS_INSIDE = 2000
_COLORS = 64  # of a picture
_INDEXED = re.compile(r"\$(.+?)_t\$")
_ESCAPED = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def as_script(content: object) -> str:
    """JSON that is safe inside a script element: no letter of it can end the element or begin another."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).translate(_ESCAPED)


def picture(file: Path) -> str:
    """A PNG in 64 colors and two fifths fewer bytes, as base64: the page has to stay below 3 MB, and draws most figures
    from their numbers."""
    png = file.read_bytes()
    place = cache_folder() / "figures" / f"{hashlib.sha256(png).hexdigest()}-{_COLORS}.webp"
    content = read_checksummed_bytes(place)
    if content is None:
        with Image.open(io.BytesIO(png)) as pixels, io.BytesIO() as buffer:
            few = pixels.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
            few.convert("RGB").save(buffer, format="webp", lossless=True, method=3)  # 4, the default, is no smaller
            content = buffer.getvalue()
        write_checksummed_bytes(place, content)
    return base64.b64encode(content).decode()


def packed_runs(cells: Iterable[Cell]) -> str:
    """The runs of all cells, in their order: deflated JSON in base64, a third as long as plain."""
    text = json.dumps([_shared_steps(opened(cell.grid)) for cell in cells], separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def run_files(cells: Iterable[Cell]) -> dict[str, str]:
    """One script for each grid's runs: a page opened as a file may load scripts, but not read other files."""
    return {
        f"data/grids/{number}.js": f"dpBenchRuns({number},{as_script(_shared_steps(opened(cell.grid)))})\n"
        for number, cell in enumerate(cells)
    }


def _shared_steps(content: dict[str, Any]) -> dict[str, Any]:
    """Runs of a grid are mostly evaluated after the same steps: these are listed once."""
    lists: dict[tuple[float, ...], int] = {}
    for point in content["points"]:
        for run in point["runs"]:
            steps = tuple(int(step) for step in run["curves"]["step"])
            run["curves"]["step"] = lists.setdefault(steps, len(lists))
    return content | {"steps": [list(steps) for steps in lists]}


def chart_data(chart: Chart) -> dict[str, Any]:
    return {"columns": chart.columns, "panels": [_panel(panel) for panel in chart.panels]}


def _panel(panel: Panel) -> dict[str, Any]:
    found: dict[str, Any] = {"title": _plain(panel.title), "x": _plain(panel.x_label), "y": _plain(panel.y_label)}
    optional = {
        "xLog": panel.x_log,
        "yLog": panel.y_log,
        "ticks": panel.x_ticks and [compact(tick) for tick in panel.x_ticks],
        "names": panel.y_names,
        "band": panel.x_band,
        "from": None if panel.y_from is None else compact(panel.y_from),
        "heat": panel.heat_map and _heat(panel.heat_map),
        "series": [_series(series) for series in panel.series],
    }
    return found | {name: value for name, value in optional.items() if value not in (None, False, [])}


def _series(series: Series) -> dict[str, Any]:
    look = look_of(series.look)
    dashes = list(look.dashes[1]) if isinstance(look.dashes, tuple) else None
    optional: Mapping[str, Any] = {
        "low": series.low and [compact(value) for value in series.low],
        "high": series.high and [compact(value) for value in series.high],
        "hollow": series.hollow,
        "dashes": dashes,
    }
    return {
        **{"label": _plain(series.label), "kind": series.kind, "color": look.color},
        **{"x": [compact(value) for value in series.x], "y": [compact(value) for value in series.y]},
        **{name: value for name, value in optional.items() if value},
    }


def _heat(heat: HeatMap) -> dict[str, Any]:
    return {
        "x": [compact(value) for value in heat.x],
        "y": [compact(value) for value in heat.y],
        "values": [[None if value is None else compact(value) for value in row] for row in heat.values],
        "diverged": sorted(heat.diverged),
        "marks": {name: list(place) for name, place in heat.marks.items()},
        "higher": heat.higher_is_better,
    }


def _plain(label: str) -> str:
    """Without matplotlib's notation for an index."""
    return _INDEXED.sub("\\1\u209c", label).replace("$", "")

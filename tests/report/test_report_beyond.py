"""Beyond the paper: every whole grid under each way to pay for its search, side by side."""

from dataclasses import replace
from pathlib import Path

import pytest
from running import POINT, composed, keep

from dp_bench.experiment.resolve import specs
from dp_bench.experiment.selected import SelectedGrid
from dp_bench.report.figures.beyond import beyond, beyond_selection
from dp_bench.report.load.collect import collect
from dp_bench.report.render.draw import draw
from dp_bench.report.tables.beyond import beyond_table

pytestmark = pytest.mark.usefixtures("without_data")

POOL = ("privacy.allocator=selection", "privacy.selection.pool=true")


def keep_grid(root: Path, strategy: str, *choices: str, values: tuple[float, ...]) -> None:
    chosen = [
        "dataset=ag_news",
        "dataset.stand_in=true",
        f"strategy={strategy}",
        *POINT[strategy],
        "grid.k=3",
        *choices,
    ]
    first = specs(composed(*chosen))[0]
    for spec, value in zip(SelectedGrid(root, first).candidates, values, strict=False):
        for seed in (0, 1):
            keep(root, replace(spec, seed=seed), value + seed / 50)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_allocators_stand_side_by_side(tmp_path: Path) -> None:
    keep_grid(tmp_path, "online", values=(0.3, 0.5, 0.4))
    keep_grid(tmp_path, "online", "privacy.allocator=halving", values=(0.4, 0.6, 0.5))
    keep_grid(tmp_path, "online", *POOL, values=(0.5, 0.7, 0.6))
    keep_grid(tmp_path, "auto_s", values=(0.2, 0.25, 0.1))
    keep_grid(tmp_path, "psac", values=(0.9,))  # a part of its grid: not a search
    collection = collect(tmp_path, "paper")
    table = beyond_table(collection)
    assert table is not None
    assert [row[3] for row in table.rows] == ["Online", "AUTO-S"]
    online = dict(zip(((c.group, c.heading) for c in table.columns), table.rows[0], strict=True))
    assert online["composition", "metric"] == pytest.approx((51.0, 1.414), abs=1e-3)
    assert online["halving", "metric"] == pytest.approx((61.0, 1.414), abs=1e-3)
    assert 60 < online["selection", "expected"] < 71
    assert online["selection", "winner"] == pytest.approx((50, 72))
    prices = [float(online[name, "ν"]) for name in ("composition", "halving", "selection")]
    assert prices == sorted(prices, reverse=True)
    assert table.cells[1][-5:] == ("", "", "", "", "")  # AUTO-S was searched by composition alone
    assert "NOT PRIVATE" in table.guarantees[0]  # the pool
    chart = beyond(collection)
    assert chart is not None
    (panel,) = chart.panels
    assert panel.y_names == ("Online", "AUTO-S")
    marks = {series.label: (series.x, series.low, series.high) for series in panel.series}
    assert marks["halving"][0] == pytest.approx((61.0,))
    assert marks.keys() == {"composition", "halving"}  # an interval of winners would flatten their differences
    assert marks["composition"][0] == pytest.approx((51.0, 26.0))
    (ax,) = draw(chart).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["Online", "AUTO-S"]
    assert ax.get_xlim()[0] < 25 < 62 < ax.get_xlim()[1]  # error bars lie along x, and are in the picture
    winners = beyond_selection(collection)
    assert winners is not None
    (panel,) = winners.panels
    assert panel.y_names == ("Online",)
    marks = {series.label: (series.x, series.low, series.high) for series in panel.series}
    assert marks["composition"][0] == pytest.approx((51.0,))
    assert marks["selection"][1:] == (pytest.approx((50.0,)), pytest.approx((72.0,)))
    assert "NOT PRIVATE" in winners.meaning


def test_without_anything_beyond_the_paper_there_is_nothing(tmp_path: Path) -> None:
    keep_grid(tmp_path, "online", values=(0.3, 0.5, 0.4))
    collection = collect(tmp_path, "paper")
    assert beyond_table(collection) is None
    assert beyond(collection) is None
    assert beyond_selection(collection) is None

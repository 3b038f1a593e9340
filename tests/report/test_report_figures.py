"""Figures by their data, then by what matplotlib was told to draw."""

import base64
import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageChops, ImageStat
from report_helpers import small_store, synthetic_spec, write_run

from dp_bench.report.analysis.accounts import accounts
from dp_bench.report.analysis.scorecard import scorecard
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.figures.deviations import deviations
from dp_bench.report.figures.heat_maps import heat_maps
from dp_bench.report.figures.learning import learning_curves
from dp_bench.report.figures.metric import metric
from dp_bench.report.figures.privacy import candidates, frontiers
from dp_bench.report.figures.trade_off import trade_off
from dp_bench.report.figures.trajectories import trajectories
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import Results
from dp_bench.report.load.sections import sections
from dp_bench.report.load.trade_offs import TradeOff
from dp_bench.report.page.embed import picture
from dp_bench.report.render import pictures
from dp_bench.report.render.draw import draw
from dp_bench.report.render.looks import Look, look_of
from dp_bench.strategies import STRATEGIES


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def results(store: Path) -> Results:
    return sections(collect(store, "paper").runs)[0].results


def by_label(chart: Chart | None, panel: int = 0) -> dict[str, Series]:
    assert chart is not None
    return {series.label: series for series in chart.panels[panel].series}


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_metric_against_epsilon(results: Results) -> None:
    chart = metric(results, "mnist", 5)
    series = by_label(chart)
    online = series["Online"]
    assert online.x == (3.0, 5.0)
    assert online.y == pytest.approx((91.19, 91.66))
    assert online.low == pytest.approx((91.19 - 0.51, 91.66 - 0.50))
    assert online.high == pytest.approx((91.19 + 0.51, 91.66 + 0.50))
    assert series["Online, published"].y == pytest.approx((91.19, 91.66, 92.96, 94.11))
    assert series["Online, published"].high == pytest.approx((91.70, 92.16, 93.86, 94.74))
    assert series["NoDP"].y == pytest.approx((98.1,))
    assert "FixedQuantile" not in series
    assert chart is not None
    (panel,) = chart.panels
    assert (panel.x_label, panel.y_label, panel.y_log) == ("ε of the whole grid", "test accuracy (%)", False)
    assert panel.x_ticks == (3.0, 5.0, 7.0, 9.0)
    assert "seeds are not charged" in chart.text
    assert metric(results, "fashion_mnist", 5) is None  # all of it diverged


def test_metric_is_drawn_as_its_data_say(results: Results) -> None:
    chart = metric(results, "mnist", 5)
    assert chart is not None
    figure = draw(chart)
    (ax,) = figure.axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("ε of the whole grid", "test accuracy (%)")
    online = ax.containers[0]
    assert online.get_label() == "Online"
    assert list(online.lines[0].get_xdata()) == [3, 5]
    assert list(online.lines[0].get_ydata()) == pytest.approx([91.19, 91.66])
    (bars,) = online.lines[2]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert ends == [pytest.approx([90.68, 91.70]), pytest.approx([91.16, 92.16])]
    figure.draw_without_rendering()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3", "5", "7", "9"]
    low, high = ax.get_ylim()
    assert low < 88  # FixedThreshold's published bar is inside, though marks are shifted sideways
    assert high > 98.1
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Online", "FixedThreshold", "NoDP", "hollow: published"]


def test_errors_are_drawn_on_a_log_axis(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec("fashion_mnist", epsilon=1.0, lr=0.3162), [0.17, 0.02])
    chart = metric(sections(collect(tmp_path, "paper").runs)[0].results, "fashion_mnist", 5)
    assert chart is not None
    assert draw(chart).axes[0].get_yscale() == "log"
    assert by_label(chart)["Online"].y == pytest.approx((2.0,))


def test_deviations(results: Results) -> None:
    chart = deviations(scorecard(results), "mnist")
    series = by_label(chart)
    assert series["Online, k = 5"].x == pytest.approx((0, 0), abs=1e-9)
    assert series["Online, k = 5"].y == (0.0, 1.0)
    assert chart is not None
    (panel,) = chart.panels
    assert panel.y_names == ("Online, ε = 3", "Online, ε = 5", "FixedThreshold, ε = 3")
    assert panel.x_band == (-2.0, 2.0)
    assert "Marks at an edge" not in chart.text
    assert legend_of(chart) == ["k = 5"]
    assert deviations(scorecard(results), "ag_news") is None


def test_deviations_beyond_the_edge_are_said_to_be(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec("mnist", "online", 9, 3.0, lr=1.0), [0.1, 0.2])
    chart = deviations(scorecard(sections(collect(tmp_path, "paper").runs)[0].results), "mnist")
    assert chart is not None
    assert "Marks at an edge lie further out." in chart.text
    assert legend_of(chart) == ["k = 9"]


def legend_of(chart: Chart) -> list[str]:
    (legend,) = draw(chart).legends
    return [text.get_text() for text in legend.get_texts()]


def test_learning_curves(results: Results, store: Path) -> None:
    chart = learning_curves(results, "mnist", 5)
    online = by_label(chart)["Online"]
    assert online.x == (0, 586, 1172)
    assert online.y == pytest.approx((10, 91.19, 90.19))
    assert online.low == pytest.approx((10, 90.68, 89.68))
    assert online.high == pytest.approx((10, 91.70, 90.70))
    assert set(by_label(chart)) == {"Online", "FixedThreshold", "NoDP"}
    assert set(by_label(chart, 1)) == {"Online", "NoDP"}
    assert chart is not None
    # FixedThreshold's lowest seed at the end; where training begins, at 10 %, is left out.
    assert [panel.y_from for panel in chart.panels] == [pytest.approx(87.0)] * 2
    assert [ax.get_ylim()[0] for ax in draw(chart).axes] == [pytest.approx(87.0)] * 2
    assert all(ax.get_ylim()[1] > 98.2 for ax in draw(chart).axes)


def test_trajectories(results: Results, store: Path) -> None:
    chart = trajectories(results, "mnist", 5)
    assert chart is not None
    assert [(panel.title, panel.y_label) for panel in chart.panels] == [("Online", "$C_t$"), ("Online", "$ρ_t$")]
    assert by_label(chart, 0)["ε = 3"].y == pytest.approx((0.1, 0.2, 0.4))
    assert by_label(chart, 1)["ε = 5"].y == pytest.approx((3.162, 1.581, 0.7905))
    assert trajectories(results, "fashion_mnist", 5) is None


def test_heat_map(results: Results) -> None:
    (chart,) = heat_maps(results, "mnist", 5)
    assert chart is not None
    (panel,) = chart.panels
    heat = panel.heat_map
    assert heat is not None
    assert (len(heat.x), len(heat.y)) == (5, 5)
    assert heat.values[3][0] == pytest.approx(89.0)  # rho = 3.162, C = 0.01
    assert heat.values[3][2] == pytest.approx(79.0)
    assert heat.diverged == {(3, 3)}
    assert heat.values[3][3] is None
    assert heat.marks == {"our best": (3, 0), "published best": (3, 0)}
    assert heat.not_run
    figure = draw(chart)
    image = figure.axes[0].images[0].get_array()
    assert image is not None
    assert image[3][0] == pytest.approx(89.0)
    assert image.mask[0].all()


def test_price_of_candidates(results: Results) -> None:
    found = accounts(results)
    chart = candidates(found)
    assert chart is not None
    assert [panel.title for panel in chart.panels] == ["MNIST", "Fashion MNIST"]
    curve = by_label(chart)["ε = 3"]
    assert curve.x == (5, 25)
    nu = {account.grid.key: account.allocation.noise_multiplier for account in found}
    assert curve.y == tuple(nu[key] for key in sorted(nu) if key.epsilon == 3.0 and key.dataset == "mnist")[::-1]
    assert by_label(chart)["FixedThreshold"].x == (25.0,)


def test_strategies_have_one_name_in_the_legend_and_it_is_readable(tmp_path: Path) -> None:
    """AdamWOSM has grids on one data set only, so that the same sizes are of other strategies on each."""
    write_run(tmp_path, synthetic_spec("mnist", "online", lr=0.3162), [0.1, 0.9])
    write_run(tmp_path, synthetic_spec("ag_news", "online", lr=0.3162), [0.25, 0.8])
    write_run(tmp_path, synthetic_spec("ag_news", "adam_wosm", clip=1.0), [0.25, 0.8])
    for strategy, other in (("fixed_threshold", {"clip": 0.01}), ("fixed_quantile", {"quantile": 0.5})):
        write_run(tmp_path, synthetic_spec("ag_news", strategy, lr=0.3162, **other), [0.25, 0.8])
    chart = candidates(accounts(sections(collect(tmp_path, "paper").runs)[0].results))
    assert chart is not None
    assert legend_of(chart) == ["Online", "FixedThreshold, FixedQuantile", "AdamWOSM"]
    narrow = replace(chart, panels=chart.panels[1:], columns=1, grids=[])
    figure = draw(narrow)
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width


def test_frontiers(results: Results) -> None:
    found = accounts(results)
    chart = frontiers(found, "mnist")
    account = next(a for a in found if a.grid.key.strategy == "online" and a.grid.key.epsilon == 3.0)
    nu = account.allocation.noise_multiplier
    frontier, chosen = by_label(chart)["ε = 3"], by_label(chart)["chosen"]
    for nu_q, nu_g in [*zip(frontier.x, frontier.y, strict=True), (chosen.x[0], chosen.y[0])]:
        assert nu_q**-2 + nu_g**-2 == pytest.approx(nu**-2)
    assert chosen.y[0] == pytest.approx(1.01 * nu)
    assert chosen.x[0] == pytest.approx(7.124 * nu, rel=1e-4)
    assert len(chosen.x) == 2
    assert frontiers(found, "fashion_mnist") is None


def test_trade_off() -> None:
    columns = {"t": [100.0, 100.0, 950.0, 950.0], "C": [1.0, 0.1, 1.0, 0.1], "cosine": [0.7, 0.5, 0.1, 0.4]}
    chart = trade_off(TradeOff("paper/trade_off/mnist", "mnist", columns, "Online, seed 0."), "trade_off")
    series = by_label(chart)
    assert list(series) == ["t = 100", "t = 950"]
    assert series["t = 100"].x == (0.1, 1.0)
    assert series["t = 100"].y == (0.5, 0.7)
    assert (chart.panels[0].x_log, chart.panels[0].y_label) == (True, "cosine similarity")
    assert "NOT PRIVATE" in chart.text
    assert chart.text.endswith("Online, seed 0.")


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_files(results: Results, store: Path, tmp_path: Path) -> None:
    made = [metric(results, "mnist", 5), *heat_maps(results, "mnist", 5)]
    charts = [chart for chart in made if chart is not None]
    pictures.save_all([pictures.Drawing(chart, tmp_path) for chart in charts])
    assert (tmp_path / "metric_mnist_k5.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "grid_mnist_k5.pdf").read_bytes().startswith(b"%PDF")
    files = [tmp_path / "metric_mnist_k5.pdf", tmp_path / "metric_mnist_k5.png"]
    first = [file.read_bytes() for file in files]
    pictures.save(charts[0], tmp_path)
    assert [file.read_bytes() for file in files] == first
    with Image.open(tmp_path / "grid_mnist_k5.png") as picture:
        assert picture.info["dpi"] == pytest.approx((160, 160), abs=0.1)
        found = picture.convert("RGB").getcolors()
    assert found is not None
    colours = {colour for _, colour in found}
    assert {(255, 255, 255), (244, 244, 244)} <= colours  # a palette must not make white of what was not run


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The captions of what is drawn from now on, with an empty cache."""
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
    captions: list[str] = []

    def counted(chart: Chart) -> Figure:
        captions.append(chart.text)
        return draw(chart)

    monkeypatch.setattr(pictures, "draw", counted)
    return captions


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_picture_is_drawn_again_only_if_it_would_change(
    drawn: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Series("Online", (1.0, 2.0), (3.0, 4.0), look="online")
    chart = Chart("one", "first", (Panel("title", "x", "y", (line,)),))
    pictures.save_all([pictures.Drawing(chart, tmp_path / "a")])
    pictures.save_all([pictures.Drawing(chart, tmp_path / "b"), pictures.Drawing(chart, tmp_path / "c", pdf=False)])
    assert drawn == ["first"]
    for name in ("one.png", "one.pdf"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["one.png"]

    (panel,) = chart.panels
    other = replace(chart, caption="other data", panels=(replace(panel, series=(replace(line, y=(3.0, 4.1)),)),))
    pictures.save_all([pictures.Drawing(other, tmp_path / "d")])
    assert drawn == ["first", "other data"]
    monkeypatch.setattr(pictures, "look_of", lambda name: Look("#000000"))
    pictures.save_all([pictures.Drawing(chart, tmp_path / "e")])
    assert drawn == ["first", "other data", "first"]


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_damaged_picture_of_the_cache_is_drawn_again(drawn: list[str], tmp_path: Path) -> None:
    chart = Chart("one", "first", (Panel("title", "x", "y"),))
    pictures.save(chart, tmp_path / "a")
    for file in (tmp_path / "cache" / "figures").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    pictures.save_all([pictures.Drawing(chart, tmp_path / "b")])
    assert drawn == ["first", "first"]
    assert (tmp_path / "a" / "one.png").read_bytes() == (tmp_path / "b" / "one.png").read_bytes()


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_page_has_the_picture_of_the_file_in_fewer_colors(drawn: list[str], tmp_path: Path) -> None:
    chart = Chart("one", "first", (Panel("title", "x", "y"),))
    pictures.save(chart, tmp_path)
    first, again = (picture(tmp_path / "one.png") for _ in range(2))
    assert first == again
    with Image.open(io.BytesIO(base64.b64decode(first))) as small, Image.open(tmp_path / "one.png") as large:
        assert small.size == large.size
        assert len(small.convert("RGB").getcolors()) <= 64
        difference = ImageChops.difference(small.convert("RGB"), large.convert("RGB"))
        assert max(ImageStat.Stat(difference).mean) < 1, "of 255"


def test_strategies_differ_without_colour() -> None:
    looks = [look_of(name) for name in STRATEGIES.built_in]
    assert len({look.marker for look in looks}) == len({str(look.dashes) for look in looks}) == len(looks)
    assert len({look.color for look in looks}) == len(looks)


def test_a_grid_that_diverged_is_missing_and_named(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec("mnist", "online", 5, 3.0, 0, lr=0.3162), [0.1, 0.9])
    spec = synthetic_spec("mnist", "online", 5, 5.0, 0, lr=0.3162)
    write_run(tmp_path, spec, [math.nan, math.nan], diverged="the test metric is not finite")
    results = sections(collect(tmp_path, "paper").runs)[0].results
    for chart in (metric(results, "mnist", 5), learning_curves(results, "mnist", 5)):
        assert chart is not None
        assert "Not shown, as every run diverged: Online at ε = 5." in chart.text


def test_whatever_a_strategy_moves_is_drawn_and_what_stays_is_not(tmp_path: Path) -> None:
    """An entry of the trajectory that no built-in strategy has: a column of metrics.csv after the others."""
    for seed in range(2):
        moving = synthetic_spec("mnist", "online", 5, 3.0, seed, lr=0.3162)
        write_run(tmp_path, moving, [0.1, 0.5, 0.9], lr=[0.3] * 3, slope=[5.0, -1.0, 2.0 + seed])
        still = synthetic_spec("mnist", "fixed_threshold", 5, 3.0, seed, lr=0.3162, clip=1.0)
        write_run(tmp_path, still, [0.1, 0.5, 0.9])
    collected = collect(tmp_path, "paper")
    assert not collected.skipped
    chart = trajectories(sections(collected.runs)[0].results, "mnist", 5)
    assert chart is not None
    assert [(panel.title, panel.y_label) for panel in chart.panels] == [
        ("Online", "$C_t$"),
        ("Online", "$ρ_t$"),
        ("Online", "slope"),
    ]
    assert by_label(chart, 2)["ε = 3"].y == (5.0, -1.0, 2.5)
    assert [panel.y_log for panel in chart.panels] == [True, True, False]
    assert "slope" in chart.text

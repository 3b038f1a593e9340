"""Charts drawn by matplotlib."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from dp_bench.report.chart import FAR, Chart, HeatMap, Panel, Series
from dp_bench.report.render.looks import drawing_order, look_of


def draw(chart: Chart) -> Figure:
    """The chart on a canvas of its own; nothing global is touched."""
    rows = math.ceil(len(chart.panels) / chart.columns)
    width, height = chart.panel_size
    figure = Figure(figsize=(width * chart.columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, chart.columns, squeeze=False, sharey=chart.share_y)
    axes: list[Axes] = list(grid.flat)
    for ax, panel in zip(axes, chart.panels, strict=False):
        _draw_panel(ax, panel)
    for ax, panel in zip(axes, chart.panels, strict=False):  # when all is drawn: panels may share their axis
        if panel.y_from is not None:
            ax.set_ylim(bottom=panel.y_from)
    for ax in axes[len(chart.panels) :]:
        ax.set_visible(False)
    if chart.share_y:
        for ax in axes:
            ax.label_outer(remove_inner_ticks=False)
    _legend(figure, chart)
    return figure


def _draw_panel(ax: Axes, panel: Panel) -> None:
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.heat_map:
        _draw_heat_map(ax, panel.heat_map)
        return
    if panel.x_log:
        ax.set_xscale("log")
    if panel.y_log:
        ax.set_yscale("log")
    if panel.x_band:
        ax.axvspan(*panel.x_band, color="#0072B2", alpha=0.09, linewidth=0)
        ax.axvline(0, color="#666666", linewidth=0.8)
        far = max((min(abs(x), FAR) for one in panel.series for x in one.x), default=0.0)
        ax.set_xlim(-max(far, 3) * 1.08, max(far, 3) * 1.08)
    # Only strategies over the same few epsilons would hide each other.
    crowded = panel.x_ticks is not None
    looks = list(dict.fromkeys(one.look for one in panel.series if crowded and one.kind in ("bars", "points")))
    for series in panel.series:
        aside = looks.index(series.look) - (len(looks) - 1) / 2 if series.look in looks else 0.0
        _draw_series(ax, series, aside, sideways=panel.y_names is not None)
    if panel.x_ticks is not None:
        ax.xaxis.set_major_locator(FixedLocator(panel.x_ticks))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.margins(x=0.09)
    if panel.y_names is not None:
        ax.set_yticks(range(len(panel.y_names)), panel.y_names)
        ax.set_ylim(len(panel.y_names) - 0.5, -0.5)
    _plain_log_ticks(ax)


def _draw_series(ax: Axes, series: Series, aside: float, sideways: bool) -> None:
    """`sideways`: error bars lie along x, as names stand along y."""
    look = look_of(series.look)
    if series.kind == "level":
        ax.axhline(series.y[0], color=look.color, linestyle=look.dashes, linewidth=1.2, label=series.label, zorder=1)
        return
    if series.kind == "line":
        ax.plot(series.x, series.y, color=look.color, linestyle=look.dashes, label=series.label)
        if series.named_at_end:
            end = (series.x[-1], series.y[-1])
            ax.annotate(
                series.label, end, (6, 0), textcoords="offset points", va="center", fontsize=8, color=look.color
            )
        if series.low is not None and series.high is not None:
            ax.fill_between(series.x, series.low, series.high, color=look.color, alpha=0.14, linewidth=0)
        return
    # Neighbours stand side by side by points of ink, so that the data stay where they are.
    shift = 5 * aside + (2.5 if series.hollow and ax.get_autoscalex_on() else 0.0)
    place = ax.transData + ScaledTranslation(shift / 72, 0, ax.figure.dpi_scale_trans)
    error = None
    if series.low is not None and series.high is not None:
        middle = series.x if sideways else series.y
        below = [value - low for value, low in zip(middle, series.low, strict=True)]
        error = [below, [high - value for value, high in zip(middle, series.high, strict=True)]]
    # Marks beyond the limits of a panel that has a band are drawn at its edge.
    x, y = series.x if ax.get_autoscalex_on() else [min(max(value, -FAR), FAR) for value in series.x], series.y
    # A shifted transform is left out when axes are fitted to their data.
    ax.update_datalim(list(zip(x, y, strict=True)))
    for ends in (series.low, series.high):
        if ends is not None:
            ax.update_datalim(list(zip(ends, y, strict=True) if sideways else zip(x, ends, strict=True)))
    ax.errorbar(
        x,
        y,
        xerr=error if sideways else None,
        yerr=None if sideways else error,
        transform=place,
        fmt=look.marker,
        color=look.color,
        markersize=9 if look.marker == "*" else 5.5,
        markerfacecolor="white" if series.hollow else look.color,
        markeredgecolor=look.color,
        markeredgewidth=1.1,
        linestyle=look.dashes if series.kind == "bars" else "none",
        elinewidth=0.7 if series.hollow else 1.1,
        capsize=0 if series.hollow else 2.5,
        alpha=0.75 if series.hollow else 1,
        zorder=2 if series.hollow else 3,
        label=series.label,
    )
    ax.autoscale_view()


def _plain_log_ticks(ax: Axes) -> None:
    """0.02 and 5 rather than powers of ten where an axis spans little."""
    for axis, (low, high), scale in (
        (ax.xaxis, ax.get_xlim(), ax.get_xscale()),
        (ax.yaxis, ax.get_ylim(), ax.get_yscale()),
    ):
        if scale != "log" or not 0 < low < high or high / low > 2000:
            continue
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        spans = ((300, (1,)), (30, (1, 3)), (8, (1, 2, 5)), (0, (1, 1.5, 2, 3, 4, 5, 7)))
        steps = next(steps for least, steps in spans if high / low > least)
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        if sum(low <= tick <= high for tick in ticks) < 2:
            axis.set_major_locator(MaxNLocator(4))
        else:
            axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_heat_map(ax: Axes, heat: HeatMap) -> None:
    values = [[math.nan if value is None else value for value in row] for row in heat.values]
    finite = [value for row in values for value in row if value == value]
    ax.grid(False)
    colours = matplotlib.colormaps["viridis" if heat.higher_is_better else "viridis_r"].with_extremes(bad="#f4f4f4")
    image = ax.imshow(values, origin="lower", aspect="auto", cmap=colours)
    ax.set_xticks(range(len(heat.x)), [f"{value:.3g}" for value in heat.x], rotation=45 if len(heat.x) > 5 else 0)
    ax.set_yticks(range(len(heat.y)), [f"{value:.3g}" for value in heat.y])
    for row, column in heat.diverged:
        corner = (column - 0.5, row - 0.5)
        ax.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor="#999999", linewidth=0))
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    with_numbers = len(heat.x) <= 5
    if with_numbers:
        for row, line in enumerate(values):
            for column, value in enumerate(line):
                if value == value:
                    bright = (value - low) / (high - low or 1) > 0.55
                    ink = "black" if bright == heat.higher_is_better else "white"
                    ax.text(column, row - 0.26, f"{value:.3g}", ha="center", va="center", fontsize=5.5, color=ink)
    for name, (row, column) in heat.marks.items():
        ours, height = name == "our best", row + 0.12 * with_numbers
        if ours:
            ax.plot(column, height, "*", ms=9, mfc="white", mec="black", mew=0.8)
        else:  # a dark ring around a light one: seen on any colour
            ax.plot(column, height, "o", ms=13, mfc="none", mec="white", mew=1.6)
            ax.plot(column, height, "o", ms=15, mfc="none", mec="black", mew=0.6)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    bar.outline.set_visible(False)


def _legend(figure: Figure, chart: Chart) -> None:
    """One for all panels, below them."""
    if any(panel.heat_map for panel in chart.panels):
        handles = _heat_map_legend([panel.heat_map for panel in chart.panels if panel.heat_map])
    elif any(panel.y_names and panel.x_band for panel in chart.panels):  # strategies are named next to their marks
        hollow = {series.hollow for panel in chart.panels for series in panel.series}
        filled = Line2D([], [], marker="o", ls="none", color="#555555", label="k = 5")
        handles = [filled] * (False in hollow) + [_hollow("k = 9")] * (True in hollow)
    else:
        handles = _series_legend(figure, chart)
    most = min(len(handles), max(3, min(6, int(figure.get_figwidth() / 1.35))))
    for columns in range(most, 0, -1):
        legend = figure.legend(handles=handles, loc="outside lower center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _series_legend(figure: Figure, chart: Chart) -> list[Any]:
    drawn: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            drawn.setdefault(label, handle)
    series = [one for panel in chart.panels for one in panel.series if not one.named_at_end]
    order = {look: i for i, look in enumerate(drawing_order())}
    series.sort(key=lambda one: order.get(one.look, len(order)))
    handles = [drawn[label] for label in dict.fromkeys(one.label for one in series if not one.hollow)]
    return [*handles, _hollow("hollow: published")] if any(one.hollow for one in series) else handles


def _hollow(label: str) -> Line2D:
    return Line2D([], [], marker="o", ls="none", mfc="white", mec="#555555", label=label)


def _heat_map_legend(maps: Sequence[HeatMap]) -> list[Any]:
    handles: list[Any] = []
    if any("our best" in heat.marks for heat in maps):
        handles.append(Line2D([], [], marker="*", ls="none", mfc="white", mec="black", ms=9, label="our best"))
    if any("published best" in heat.marks for heat in maps):
        handles.append(Line2D([], [], marker="o", ls="none", mfc="none", mec="black", ms=9, label="published best"))
    if any(heat.diverged for heat in maps):
        handles.append(Patch(facecolor="#f4f4f4", edgecolor="#999999", hatch="////", label="diverged"))
    if any(heat.not_run for heat in maps):
        handles.append(Patch(facecolor="#f4f4f4", edgecolor="#cccccc", label="not run"))
    return handles

"""The benchmark in one picture, PNG and PDF, in the look of the reports' figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contenders import CONTENDERS, COPY, FIXED_THRESHOLD, ONLINE, PLAIN, SAME_LAYOUT, SGEMM, WITH_NOISE
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import dp_bench.report.render
from dp_bench.tasks import TASKS

Rows = Sequence[Mapping[str, Any]]

TITLES = {task.model: task.model_title for task in TASKS.values()} | {"collecting": "collecting results"}
_STYLE = Path(dp_bench.report.render.__file__).with_name("dp_bench.mplstyle")
# Okabe and Ito's colours, which the colour-blind can tell apart; names and markers do without.
_OURS, _BASELINES, _OTHERS = "#0072B2", "#333333", "#D55E00"
_GROWTH = {
    "cnn": ("#0072B2", "o"),
    "autoencoder": ("#D55E00", "s"),
    "bag_of_words": ("#009E73", "^"),
    "collecting": ("#333333", "D"),
}


def save(rows: Rows, growth: Rows, folder: Path) -> None:
    """A row of panels with times, one with memory, one with growth, as bench.png and bench.pdf."""
    with style.context(["default", str(_STYLE)]):
        figure = draw(rows, growth)
        figure.savefig(folder / "bench.png")
        figure.savefig(folder / "bench.pdf", metadata={"CreationDate": None})


def draw(rows: Rows, growth: Rows) -> Figure:
    models = list(dict.fromkeys(row["model"] for row in rows))
    sweeps = list(dict.fromkeys(g["against"] for g in growth))
    lines, columns = 2 + bool(growth), max(len(models), len(sweeps), 2)
    figure = Figure(figsize=(3.9 * columns, 3.1 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(lines, columns, squeeze=False)
    for ax in axes.flat:
        ax.set_visible(False)
    for column, model in enumerate(models):
        here = [row for row in rows if row["model"] == model and row["contender"] != SGEMM]
        _compare(axes[0][column], here, "ratio_plain", f"{TITLES[model]}: time of a step", names_too=column == 0)
        _compare(axes[1][column], here, "peak_ratio", f"{TITLES[model]}: peak memory", names_too=column == 0)
    for column, against in enumerate(sweeps):
        _grow(axes[2][column], [g for g in growth if g["against"] == against], against)
    marks = [
        Line2D([], [], marker="o", ls="none", color="#555555", label="1 thread"),
        Line2D([], [], marker="o", ls="none", mfc="white", mec="#555555", label="more threads"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=2)
    return figure


def _compare(ax: Axes, rows: Rows, key: str, title: str, *, names_too: bool) -> None:
    """One dot per contender and thread count; whiskers are the quartiles of its times."""
    ax.set_visible(True)
    ax.set_title(title)
    ax.set_xlabel("× plain PyTorch")
    ax.set_xscale("log")
    shown = [name for name in CONTENDERS if name not in (SGEMM, COPY)]
    threads = sorted({row["threads"] for row in rows})
    for row in rows:
        if row["contender"] not in shown or row.get(key) is None:
            continue
        value, colour = row[key], _colour(row["contender"])
        aside = 0.16 * (2 * threads.index(row["threads"]) - (len(threads) - 1))
        spread = None
        if key == "ratio_plain":
            spread = [[value * (1 - row["ms_low"] / row["ms"])], [value * (row["ms_high"] / row["ms"] - 1)]]
        ax.errorbar(
            [value],
            [shown.index(row["contender"]) + aside],
            xerr=spread,
            fmt="o",
            color=colour,
            markerfacecolor=colour if row["threads"] == 1 else "white",
            elinewidth=1.1,
        )
    ax.axvline(1, color="#666666", linewidth=0.8)
    ax.set_yticks(range(len(shown)), shown if names_too else [""] * len(shown))
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", labelrotation=45)


def _colour(contender: str) -> str:
    if contender in (PLAIN, SAME_LAYOUT, WITH_NOISE):
        return _BASELINES
    return _OURS if contender in (FIXED_THRESHOLD, ONLINE) else _OTHERS


def _grow(ax: Axes, growth: Rows, against: str) -> None:
    ax.set_visible(True)
    ax.set_title("Collecting results" if against == "runs" else f"Online: time of a step against {against}")
    ax.set_xlabel(against)
    ax.set_ylabel("milliseconds")
    ax.set_xscale("log")
    ax.set_yscale("log")
    for one in growth:
        colour, marker = _GROWTH[one["model"]]
        label = f"{TITLES[one['model']]}, exponent {one['exponent']:.2f}"
        ax.plot(one["sizes"], one["ms"], color=colour, marker=marker, label=label)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ticks = growth[0]["sizes"]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks], rotation=45)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** (0.15 * len(growth)))  # room for the legend
    ax.legend(loc="upper left")

"""The clipping trade-off, from the data that `dp-bench trade-off` stores next to the runs."""

from itertools import groupby
from operator import itemgetter

from dp_bench.report import names
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.contents import shown
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.trade_offs import TradeOff


@shown("Training", 40, main_only=True)
def trade_offs(collection: Collection) -> list[Chart]:
    found = collection.trade_offs
    return [trade_off(one, f"trade_off_{i}" if i else "trade_off") for i, one in enumerate(found)]


def trade_off(found: TradeOff, name: str) -> Chart:
    """The clipping trade-off: similarity of sanitised and true gradient against C, one line per step."""
    rows = sorted(zip(*(found.columns[column] for column in ("t", "C", "cosine")), strict=True))
    series = []
    for i, (t, points) in enumerate(groupby(rows, key=itemgetter(0))):
        _, clips, cosines = zip(*points, strict=True)
        series.append(Series(f"t = {t:.0f}", clips, cosines, look=f"epsilon{i}"))
    title = names.dataset(found.dataset)
    words = f"{title} (not private: it reads true gradients)", "clipping threshold $C$", "cosine similarity"
    panel = Panel(*words, tuple(series), x_log=True)
    caption = f"{title}. The choice of the clipping threshold trades bias, at small C, for noise, at large C. "
    caption += "Cosine similarity of the sanitised and the true gradient during training. NOT PRIVATE: it reads true "
    caption += "gradients."
    return Chart(name, f"{caption} {found.measured_on}", (panel,), grids=[])  # the caption says what its ε is worth

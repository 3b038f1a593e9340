"""The clipping trade-off, from the data that `dp-bench trade-off` stores next to the runs."""

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
    by_step: dict[int, list[tuple[float, float]]] = {}
    for t, clip, cosine in zip(*(found.columns[column] for column in ("t", "C", "cosine")), strict=True):
        by_step.setdefault(int(t), []).append((clip, cosine))
    series = tuple(
        Series(f"t = {t}", tuple(c for c, _ in points), tuple(cosine for _, cosine in points), look=f"epsilon{i}")
        for i, (t, points) in enumerate((t, sorted(by_step[t])) for t in sorted(by_step))
    )
    title = names.dataset(found.dataset)
    panel = Panel(
        f"{title} (not private: it reads true gradients)",
        "clipping threshold $C$",
        "cosine similarity",
        series,
        x_log=True,
    )
    caption = "The choice of the clipping threshold trades bias, at small C, for noise, at large C. Cosine similarity "
    caption += "of the sanitised and the true gradient during training. NOT PRIVATE: it reads true gradients."
    return Chart(
        name, f"{title}. {caption} {found.measured_on}", (panel,), grids=[]
    )  # the caption says what its ε is worth

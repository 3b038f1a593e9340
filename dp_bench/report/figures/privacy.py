"""The privacy page's figures: the price of candidates, and how Online splits its noise."""

import math
from collections.abc import Sequence

from dp_bench.privacy.accounting import exact
from dp_bench.report import names
from dp_bench.report.analysis.accounts import Account
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.contents import shown
from dp_bench.report.epsilon_notes import not_private
from dp_bench.strategies import STRATEGIES
from dp_bench.strategies.online import Online


@shown("Privacy", 10)
def candidates(accounts: Sequence[Account]) -> Chart | None:
    """ν against the number of candidates: one curve per budget, through the grids that were run."""
    panels = []
    together = _of_the_same_sizes(accounts)
    for dataset in dict.fromkeys(account.grid.key.dataset for account in accounts):
        mine = [a for a in accounts if a.grid.key.dataset == dataset]
        series = [*_curves(mine), *_markers(mine, together)]
        title = names.dataset(dataset) + not_private(a.grid for a in mine)
        panels.append(Panel(title, "candidates in the grid", "ν of every run", tuple(series), x_log=True, y_log=True))
    caption = "What trying more candidates costs: the noise multiplier ν of every run of a grid against the number of "
    caption += "its candidates. Markers: the grids in this report; where sizes are equal one may hide another. "
    if not panels:
        return None
    grids = [account.grid for account in accounts]
    return Chart("candidates", caption, tuple(panels), min(3, len(panels)), panel_size=(3.4, 2.9), grids=grids)


def _curves(accounts: Sequence[Account]) -> list[Series]:
    """The grids of each budget, joined: they lie on the curve of its price."""
    series = []
    for i, epsilon in enumerate(sorted({account.grid.key.epsilon for account in accounts})):
        mine = {
            (a.allocation.candidates, a.allocation.noise_multiplier) for a in accounts if a.grid.key.epsilon == epsilon
        }
        x, y = (tuple(column) for column in zip(*sorted(mine), strict=True))
        series.append(Series(f"ε = {exact(epsilon)}", x, y, look=f"epsilon{i}", named_at_end=True))
    return series


def _of_the_same_sizes(accounts: Sequence[Account]) -> list[list[str]]:
    """Strategies by the grids they have, on all data sets: those that always coincide share a marker and a name."""
    found: dict[frozenset[tuple[str, int, float]], list[str]] = {}
    for strategy in dict.fromkeys(account.grid.key.strategy for account in accounts):
        mine = [a for a in accounts if a.grid.key.strategy == strategy]
        sizes = frozenset((a.grid.key.dataset, a.allocation.candidates, a.allocation.noise_multiplier) for a in mine)
        found.setdefault(sizes, []).append(strategy)
    return list(found.values())


def _markers(accounts: Sequence[Account], together: Sequence[Sequence[str]]) -> list[Series]:
    """The grids of each group of strategies."""
    series = []
    for strategies in together:
        mine = [a.allocation for a in accounts if a.grid.key.strategy == strategies[0]]
        if mine:
            x, y = zip(*sorted((float(a.candidates), a.noise_multiplier) for a in mine), strict=True)
            label = ", ".join(names.strategy(name) for name in strategies)
            series.append(Series(label, x, y, kind="points", look=strategies[0]))
    return series


@shown("Privacy", 20)
def frontiers(accounts: Sequence[Account], dataset: str) -> Chart | None:
    """The Pareto frontiers of ν_g and ν_q with the points that Online uses, one panel per k."""
    mine = [a for a in accounts if a.grid.key.dataset == dataset and STRATEGIES[a.grid.key.strategy] is Online]
    panels = []
    for k in sorted({account.grid.key.k for account in mine}):
        series = []
        of_k = sorted((a for a in mine if a.grid.key.k == k), key=lambda a: a.grid.key.epsilon)
        for i, account in enumerate(of_k):
            x, y = (tuple(c) for c in zip(*_online_frontier(account.allocation.noise_multiplier), strict=True))
            series.append(Series(f"ε = {exact(account.grid.key.epsilon)}", x, y, look=f"epsilon{i}"))
        chosen = [(account.split["direction"], account.split["gradient"]) for account in of_k]
        x, y = (tuple(column) for column in zip(*chosen, strict=True))
        series.append(Series("chosen", x, y, kind="points", look="chosen"))
        title = f"k = {k}" + not_private(a.grid for a in of_k)
        labels = ("$ν_q$, of the derivative", "$ν_g$, of the gradient")
        panels.append(Panel(title, *labels, tuple(series), x_log=True, y_log=True))
    if not panels:
        return None
    caption = f"{names.dataset(dataset)}: Pareto frontiers of Online's two noise multipliers, one line per budget, and "
    caption += "the chosen points."
    grids = [account.grid for account in mine]
    return Chart(f"frontier_{dataset}", caption, tuple(panels), len(panels), panel_size=(3.2, 2.9), grids=grids)


def _online_frontier(noise_multiplier: float) -> list[tuple[float, float]]:
    """Pairs (ν_q, ν_g) whose joint release costs what one release at ν costs: ν_g^-2 + ν_q^-2 = ν^-2."""
    multiples = [1 + 0.02 * 2000 ** (i / 59) for i in range(60)]  # of ν, dense where the curve is steep
    return [(noise_multiplier * m, noise_multiplier / math.sqrt(1 - m**-2)) for m in multiples]

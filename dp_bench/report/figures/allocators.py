"""The price of a search under each allocator."""

from collections.abc import Sequence

from dp_bench.privacy.accountants import RDP
from dp_bench.privacy.accounting import exact
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.allocators import COMPOSITION, HALVING, SELECTION, rungs_of
from dp_bench.privacy.calibration import allocate
from dp_bench.privacy.selection import DISTRIBUTIONS, Trials
from dp_bench.report import names
from dp_bench.report.analysis.accounts import Account
from dp_bench.report.chart import Chart, Panel, Series
from dp_bench.report.contents import shown

_CANDIDATES = (5, 9, 25, 49, 81)  # the paper's grids with one and two axes


@shown("Privacy", 25, main_only=True)
def allocators(accounts: Sequence[Account], dataset: str) -> Chart | None:
    """ν against the number of candidates, one line per allocator, at the smallest budget of a private grid."""
    mine = [a for a in accounts if a.grid.key.dataset == dataset and a.private]
    if not mine:
        return None
    account = min(mine, key=lambda account: account.grid.key.epsilon)
    allocation, every = account.allocation, account.grid.spec.train.evaluate_every
    budget = Budget(allocation.budget.epsilon, allocation.budget.delta, RDP)
    lines: dict[str, list[float]] = {}
    for n in _CANDIDATES:
        size = (budget, allocation.sampling, n, allocation.steps)
        each = {COMPOSITION: allocate(*size), HALVING: allocate(*size, rungs_of(n, allocation.steps, every))}
        each |= {f"{SELECTION}, {name}": allocate(*size, trials=Trials(name, n)) for name in DISTRIBUTIONS}
        for name, found in each.items():
            lines.setdefault(name, []).append(found.noise_multiplier)
    series = [
        Series(name, tuple(map(float, _CANDIDATES)), tuple(found), look=f"epsilon{i}", named_at_end=True)
        for i, (name, found) in enumerate(lines.items())
    ]
    title = f"{names.dataset(dataset)}, ε = {names.epsilon(budget.epsilon)}"
    panel = Panel(title, "candidates", "ν of every run", tuple(series), x_log=True, y_log=True)
    caption = (
        f"{names.dataset(dataset)}: what a search costs under each allocator: the noise multiplier ν for "
        f"({exact(budget.epsilon)}, {exact(budget.delta)}) by RDP against the number of candidates. Of selection, as "
        "many trials are expected as there are candidates, and only the winner may be released. Computed, not measured."
    )
    return Chart(f"allocators_{dataset}", caption, (panel,), panel_size=(4.6, 3.2), grids=[account.grid])

"""What adaptive strategies move during training."""

import math

from dp_bench.privacy.accounting import exact
from dp_bench.report import names
from dp_bench.report.analysis.shown_strategies import of
from dp_bench.report.chart import Chart, Panel
from dp_bench.report.contents import shown
from dp_bench.report.epsilon_notes import not_private
from dp_bench.report.figures.common import curve, epsilons_of, several
from dp_bench.report.load.results import Results
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS


@shown("Training", 20)
def trajectories(results: Results, dataset: str, k: int) -> Chart | None:
    """C_t, ρ_t and whatever else moves during the training of the best points, of the strategies that move anything."""
    mine = of(results, dataset, k)
    looks = {epsilon: f"epsilon{i}" for i, epsilon in enumerate(epsilons_of(mine))}
    moving = _moving(mine)
    columns = dict.fromkeys(["clip", "lr", *(column for own in moving.values() for column in own)])
    panels = []
    for column in columns:
        for strategy in [name for name, own in moving.items() if column in own]:
            grids = [grid for key, grid in mine.items() if key.strategy == strategy and key.epsilon in looks]
            found = [
                curve(grid, column, 1, f"ε = {exact(grid.key.epsilon)}", looks[grid.key.epsilon]) for grid in grids
            ]
            series = tuple(one for one in found if one is not None)
            if series:
                title, symbol = names.strategy(strategy) + not_private(grids), _over_time(names.axis(strategy, column))
                log = all(value > 0 for one in series for value in one.low or one.y)
                panels.append(Panel(title, "step", symbol, series, y_log=log))
    others = "".join(f", {column}" for column in list(columns)[2:])
    caption = f"{names.dataset(dataset)}, k = {k}: how the threshold Cₜ and the step size ρₜ{others} of the best "
    caption += "points move; bands span the seeds."
    return several(f"trajectories_{dataset}_k{k}", caption, panels, grids=list(mine.values()))


def _moving(mine: Results) -> dict[str, list[str]]:
    """The entries of the trajectory of every strategy whose best points changed at least one of them."""
    found: dict[str, dict[str, bool]] = {}
    for key, grid in mine.items():
        others = ("step", TASKS[key.dataset].metric, "epsilon")
        for run in grid.best.runs if grid.best else ():
            for column, values in run.columns().items():
                if column not in others and any(map(math.isfinite, values)):
                    own = found.setdefault(key.strategy, {})
                    own[column] = own.get(column, False) or len(set(values)) > 1
    moving = {name: list(own) for name, own in found.items() if any(own.values())}
    return {name: moving[name] for name in STRATEGIES if name in moving}


def _over_time(symbol: str) -> str:
    """With an index t if it is a letter; a word stays as it is."""
    return f"${symbol}_t$" if len(symbol) == 1 else symbol

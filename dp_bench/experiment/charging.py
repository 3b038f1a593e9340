"""What a search costs: what is searched is charged, however it is written.

The claim. A budget belongs to one grid: one data set, strategy, k, epsilon, delta and accountant. It pays for every
configuration that a command tries there, not only for the points of the grid: sweeping `strategy.momentum=0,0.9` as
well searches the grid twice, so twice as many configurations are charged (`grid.times=2`) and all of them get more
noise. Whether the second value was swept, chosen by a group (`profile=paper,verify`), set by a reference
(`train.epochs=${privacy.epsilon}`) or written in a file does not matter: what counts is the number of values, or of
different protocols that come of them, whichever is larger.

Not charged is what is not a search on the same data at the same budget: another data set, a grid with a budget of its
own (`OTHER_BUDGET`), and what is not a hyperparameter (`NOT_A_SEARCH`). Seeds are among these, as in the
paper; reports say what they would cost. Every key that is not listed here is charged, so a new key is charged until
someone decides otherwise.
"""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from dp_bench.errors import invalid
from dp_bench.experiment.config import Config
from dp_bench.experiment.spec import RunSpec
from dp_bench.privacy.accountants import proven
from dp_bench.privacy.accounting import exact, rounded_up
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.calibration import total
from dp_bench.privacy.checks import LAST_BITS
from dp_bench.strategies import STRATEGIES

Choices = Mapping[str, Sequence[str]]  # key -> the values it takes, as they were typed

# Each value has other data or a grid with a budget of its own.
OTHER_BUDGET = {
    "dataset",
    "strategy",
    "grid.k",
    "privacy.epsilon",
    "privacy.delta",
    "privacy.accountant",
    "protocol",
    "privacy.allocator",
    "privacy.selection.distribution",
    "privacy.selection.mean",
    "privacy.selection.pool",
}
# Two values of these would be two runs in one folder: a command may name only one of each.
ONE_RUN_WHATEVER_ITS_VALUE = {"device", "threads", "micro_batch", "checkpoint.keep", "quiet", "tracker"}
# Seeds repeat a run, as long as all are drawn in one way (two values of `seed` are charged). `points` and `epsilons`
# choose among grids that are charged in full. The others say where a run is computed, shown and kept.
NOT_A_SEARCH = {"seeds", "points", "epsilons", "runs"} | ONE_RUN_WHATEVER_ITS_VALUE


def is_charged(key: str, swept: Sequence[str]) -> bool:
    """Whether several values of a key cost budget; `swept`: the axes of the grid, which its points already charge."""
    grid_members = {f"strategy.{name}" for name in swept}
    return key not in OTHER_BUDGET | NOT_A_SEARCH | grid_members


def times_by_budget(choices: Choices, configs: Iterable[Config]) -> Callable[[Config], int]:
    """How often each of the `configs` that a command chose has its grid searched."""
    tried: dict[object, set[str]] = {}  # by budget: what is tried besides the points of a grid
    for config in configs:
        tried.setdefault(_budget(config), set()).add(_protocol(config))

    def times(config: Config) -> int:
        swept = STRATEGIES[config.strategy.name].swept
        values = math.prod(len(set(values)) for key, values in choices.items() if is_charged(key, swept))
        return config.grid.times * max(values, len(tried[_budget(config)]))

    return times


def _budget(config: Config) -> object:
    """Which budget pays for a configuration."""
    return config.dataset.name, config.strategy.name, config.grid.k, json.dumps(asdict(config.privacy))


def _protocol(config: Config) -> str:
    """What a configuration tries besides the points of its grid, however that was written."""
    swept = STRATEGIES[config.strategy.name].swept
    strategy = {name: value for name, value in asdict(config.strategy).items() if name not in swept}
    tried = [asdict(config.dataset), asdict(config.model), strategy, asdict(config.grid), asdict(config.train)]
    return json.dumps([config.profile, config.seed, *tried], sort_keys=True)


def refuse_sweeps_of_one_run(choices: Choices) -> None:
    """Refuse several values of a key that makes no other run."""
    for key in sorted(ONE_RUN_WHATEVER_ITS_VALUE & choices.keys()):
        if len(set(choices[key])) > 1:
            remedy = "run one sweep after the other, each with its own runs=FOLDER"
            raise invalid(key, "one value, as it makes no other run", ", ".join(choices[key]), remedy)


def shared_budget(run: RunSpec) -> Hashable:
    """What grids that are charged to one budget have in common."""
    assert run.allocation is not None
    return run.dataset.name, run.strategy, run.grid.k, run.allocation.budget, run.seeding


def refuse_overspending(runs: Iterable[RunSpec]) -> None:
    """Refuse grids that share a budget and spend more than it together.

    Each gets the noise for as many copies of itself as there are grids. That is enough where they take equally many
    steps at one sampling rate; where they do not, RDP may find the most at another order for all than for any of them.
    """
    shared: dict[Hashable, dict[PurePosixPath, Allocation]] = {}
    times: dict[Hashable, int] = {}
    for run in runs:
        if run.allocation is not None and run.grid.times > 1 and proven(run.allocation.budget.accountant):
            shared.setdefault(shared_budget(run), {})[run.grid_folder] = run.allocation
            times[shared_budget(run)] = run.grid.times
    for which, grids in shared.items():
        allocations = list(grids.values())
        if len({(allocation.sampling, allocation.steps) for allocation in allocations}) == 1:
            continue
        budget = allocations[0].budget
        spent = total(allocations, [1 / times[which]] * len(allocations))
        if spent > budget.epsilon * (1 + LAST_BITS):
            expected = f"grids that keep to one budget of {exact(budget.epsilon)} together, as they are one search"
            got = f"{rounded_up(spent)} by RDP, as they differ in steps or sampling rate"
            remedy = "sweep epochs, batch sizes and rows one after the other, each with a budget of its own"
            raise invalid("privacy.epsilon", expected, got, remedy)


def refuse_a_second_release(runs: Iterable[tuple[RunSpec, Path]]) -> None:
    """Refuse a run with seed=secure in two stores: each would draw noise of its own, and one budget pays for one.

    A run with seed=named is the same run wherever it is kept.
    """
    kept: dict[PurePosixPath, Path] = {}
    for run, root in runs:
        if run.secure and run.allocation is not None and (first := kept.setdefault(run.folder, root)) != root:
            both = f"{first.name} and {root.name}"
            got = f"{both}: each would release everything anew, and the budget is charged once"
            raise invalid("runs", "one folder with seed=secure", got, "choose one of them")

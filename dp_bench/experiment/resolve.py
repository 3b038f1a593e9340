"""From a checked configuration to the specs of its runs: every number that it leaves open is found here."""

from dataclasses import asdict, replace

from dp_bench.data import Source
from dp_bench.errors import invalid
from dp_bench.experiment import grid
from dp_bench.experiment.config import Config, DatasetConfig, GridConfig, PrivacyConfig, task_options
from dp_bench.experiment.folder_names import variant
from dp_bench.experiment.spec import Machine, RunSpec
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.allocators import COMPOSITION, HALVING, SELECTION, rungs_of
from dp_bench.privacy.calibration import allocate
from dp_bench.privacy.selection import Trials
from dp_bench.strategies import STRATEGIES
from dp_bench.strategies.ranges import declared_axes
from dp_bench.tasks import TASKS

_MOST_STEPS = 10**8  # of one run: days, and millions of evaluations
_MOST_ROWS = 10**12


def specs(config: Config, *, fetch: bool = True) -> list[RunSpec]:
    """The runs of one configuration, one per seed; every number in them is checked and none is left to be found.

    Without `fetch`, data that is not on this machine is taken to be the official one, and not downloaded.
    """
    task, strategy = TASKS[config.dataset.name], STRATEGIES[config.strategy.name]
    source = task.describe(task_options(config.dataset, config.model), fetch=fetch)
    axes = axes_of(config.strategy.name, config.grid)
    points = len(grid.points(axes))
    selection = config.privacy.selection
    if selection.mean == points:  # the same search has one name, whether or not its default is written out
        config = replace(config, privacy=replace(config.privacy, selection=replace(selection, mean=None)))
    hyperparameters = {n: v for n, v in asdict(config.strategy).items() if n != "name"}
    for name, candidates in axes.items():
        hyperparameters[name] = grid.snap(hyperparameters[name], candidates, name)
    rows = _accounted_rows(config.dataset, source)
    epochs, batch_size = config.train.epochs, config.train.batch_size
    sampling = Sampling(batch_size, rows)
    if not 0.5 < epochs * (rows / batch_size) <= _MOST_STEPS:
        raise invalid("train.epochs", f"enough for 1 to {_MOST_STEPS:,} steps", epochs, "train for longer or shorter")
    steps = round(epochs * rows / batch_size)
    allocation, halved = None, strategy.private and config.privacy.allocator == HALVING
    if strategy.private:
        budget = Budget(config.privacy.epsilon, config.privacy.delta, config.privacy.accountant)
        candidates_charged = points * config.grid.times
        rungs = rungs_of(candidates_charged, steps, config.train.evaluate_every) if halved else ()
        if config.privacy.allocator != COMPOSITION and config.grid.times > 1:
            expected = "composition where other keys are swept as well, as the others compare the points of one grid"
            got = f"{config.privacy.allocator} with grid.times={config.grid.times}"
            remedy = "sweep them one after the other, each with a budget of its own, or choose composition"
            raise invalid("privacy.allocator", expected, got, remedy)
        trials = trials_of(config.privacy, candidates_charged)
        allocation = allocate(budget, sampling, candidates_charged, steps, rungs, trials)
        allocation = replace(allocation, pool=config.privacy.selection.pool)
    first = RunSpec(
        profile=config.profile,
        variant=variant(config, source),
        dataset=config.dataset,
        model=config.model,
        strategy=config.strategy.name,
        hyperparameters=hyperparameters,
        grid=config.grid if strategy.private else replace(config.grid, times=1),  # only a budget is divided
        privacy=config.privacy if strategy.private else None,
        train=config.train,
        source=source,
        allocation=allocation,
        steps=steps,
        seed=config.seeds[0],
        seeding=config.seed,
        machine=Machine(config.device, config.threads, config.micro_batch or task.micro_batch),
        strategy_path=STRATEGIES.outside_path(config.strategy.name),
        task_path=TASKS.outside_path(config.dataset.name),
        strategy_code=STRATEGIES.outside_code(config.strategy.name),
        task_code=TASKS.outside_code(config.dataset.name),
        ranked_seeds=tuple(sorted(config.seeds)) if halved else (),
    )
    first.check_folder()
    first.build_strategy()  # a strategy refuses hyperparameters and budgets that cannot be
    return [replace(first, seed=seed) for seed in config.seeds]


def candidates(spec: RunSpec) -> list[RunSpec]:
    """The run at every point of its grid, in the fixed order of the grid."""
    return [spec.at(point) for point in grid.points(axes_of(spec.strategy, spec.grid))]


def trials_of(privacy: PrivacyConfig, candidates: int) -> Trials | None:
    """How many are tried; None if that is not left to chance."""
    if privacy.allocator != SELECTION:
        return None
    mean = privacy.selection.mean
    return Trials(privacy.selection.distribution, float(candidates if mean is None else mean))


def _accounted_rows(dataset: DatasetConfig, source: Source) -> int:
    """N, as steps and noise are computed from it."""
    if dataset.emulate_size is None:
        return source.train_rows
    if dataset.emulate_size <= source.train_rows:
        expected = f"more than the {source.train_rows} training rows that are there"
        raise invalid("dataset.emulate_size", expected, dataset.emulate_size, "leave it out, or see dataset.limit")
    if dataset.emulate_size > _MOST_ROWS:
        raise invalid("dataset.emulate_size", f"at most {_MOST_ROWS:.0e}", dataset.emulate_size, "lower it")
    return dataset.emulate_size


def axes_of(strategy: str, g: GridConfig) -> dict[str, tuple[float, ...]]:
    """What a strategy's grid searches: the values that the configuration gives an axis or that are declared for it,
    else `k` of them over its range; and those to be searched also."""
    swept, declared, also = STRATEGIES[strategy].swept, declared_axes(STRATEGIES[strategy]), asdict(g.also)
    for name in g.axes:
        if name not in swept:
            expected = f"an axis that {strategy} sweeps ({', '.join(swept) or 'none'})"
            raise invalid("grid.axes", expected, name, "leave it out")
    for name, extra in also.items():
        if extra and name not in swept:
            expected = f"values for what the strategy sweeps ({', '.join(swept) or 'nothing'})"
            raise invalid(f"grid.also.{name}", expected, extra, f"remove it, or sweep {name} with another strategy")
    values = {**{name: axis.values for name, axis in declared.items() if axis.values}, "quantile": g.quantile, **g.axes}
    ranges = {**{name: axis.span for name, axis in declared.items() if axis.span}, "lr": g.lr, "clip": g.clip}
    axes = {}
    for name in swept:
        if name in values:
            candidates = tuple(set(values[name]))
        elif name in ranges:
            candidates = grid.log_spaced(ranges[name][0], ranges[name][1], g.k)
        else:
            raise invalid("grid", f"values for {name}", "none", f"add 'grid.axes={{{name}:[VALUE,...]}}'")
        axes[name] = grid.widen(candidates, also.get(name, ()))
    return axes

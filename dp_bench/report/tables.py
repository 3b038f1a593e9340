"""The paper's tables from our runs."""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence

from dp_bench import published
from dp_bench.report import architectures, names
from dp_bench.report.guarantee import budget_words, guarantees
from dp_bench.report.results import Grid, Key, Results
from dp_bench.report.table import Table
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

PRIVATE = tuple(name for name, strategy in STRATEGIES.items() if strategy.private)
PUBLISHED = frozenset(cell.strategy for cell in published.cells())
PAPER_MODEL_SIZES = {"ag_news": 113156, "mnist": 551322, "fashion_mnist": 48705}  # tab:1

NOT_RUN = "n.r."
_INCOMPLETE, _SEEDS_DIVERGED = "†", "‡"


def datasets(results: Results) -> Table:
    """The paper's first table: what each experiment trains on and with."""
    facts = {name: grid.facts for name in TASKS for grid in results.values() if grid.key.dataset == name}
    accounted = {
        name: max(g.facts["accounted_rows"] for g in results.values() if g.key.dataset == name) for name in facts
    }
    sizes = {name: architectures.size(TASKS[name].model, json.loads(f["model"])) for name, f in facts.items()}
    lines: dict[str, Callable[[str], str]] = {
        "Dataset size": lambda name: f"{facts[name]['train_rows']:,}",
        "Size that steps and noise are for": lambda name: f"{accounted[name]:,}",
        "Test set size": lambda name: f"{facts[name]['test_rows']:,}",
        "Data": lambda name: facts[name]["source_kind"],
        "Batch size": lambda name: f"{facts[name]['batch_size']:,}",
        "Steps of a run": lambda name: f"{facts[name]['steps']:,}",
        "Model": lambda name: names.model(TASKS[name].model),
        "Model size": lambda name: f"{sizes[name]:,}",
        "Model size in the paper": lambda name: f"{PAPER_MODEL_SIZES[name]:,}" if name in PAPER_MODEL_SIZES else "",
    }
    return Table(
        "datasets",
        "Data sets and models shared throughout the experiments.",
        ("", *(names.dataset(name) for name in facts)),
        tuple((title, *(value(name) for name in facts)) for title, value in lines.items()),
        notes=tuple(
            f"{names.dataset(name)}: why the model is not of the paper's size, see docs/fidelity.md."
            for name in facts
            if sizes[name] != PAPER_MODEL_SIZES.get(name, sizes[name])
        ),
    )


def models(results: Results) -> list[Table]:
    """A table of layers for each data set's model."""
    found = []
    for name, task in TASKS.items():
        options = next((json.loads(g.facts["model"]) for g in results.values() if g.key.dataset == name), None)
        if options is None:
            continue
        rows = architectures.layers(task.model, options)
        found.append(
            Table(
                f"model_{task.model}",
                f"{names.model(task.model)}, trained on {names.dataset(name)}: "
                f"{sum(row.parameters for row in rows):,} parameters.",
                ("layer", "kernel or output size", "stride", "padding", "non-linearity", "parameters"),
                tuple((r.kind, r.size, r.stride, r.padding, r.activation, f"{r.parameters:,}") for r in rows),
                text_columns=frozenset({0, 4}),
            )
        )
    return found


def best_tables(results: Results) -> list[Table]:
    """In the paper's layout, a table a data set and k: the best hyperparameters and what they reach."""
    places = dict.fromkeys((key.dataset, key.k) for key in results)
    return [_best_table(results, dataset, k) for dataset, k in places]


def _best_table(results: Results, dataset: str, k: int) -> Table:
    mine = {key: grid for key, grid in results.items() if (key.dataset, key.k) == (dataset, k)}
    strategies = columns_for(mine)
    epsilons = sorted({key.epsilon for key in mine if STRATEGIES[key.strategy].private})
    groups, columns = [("", 1)], ["ε"]
    for name in strategies:
        axes = [names.axis(axis) for axis in STRATEGIES[name].swept]
        groups.append((names.strategy(name), len(axes) + 2))
        columns += [*axes, names.metric_column(dataset), "std dev"]
    rows = []
    for epsilon in epsilons:
        cells = [_best_cells(mine.get(Key(dataset, name, k, epsilon)), name) for name in strategies]
        rows.append((names.epsilon(epsilon), *itertools.chain.from_iterable(cells)))
    return Table(
        f"best_{dataset}_k{k}",
        f"{names.dataset(dataset)}, k = {k}: the best hyperparameters of each grid and their {metric_words(dataset)}, "
        f"mean and standard deviation over {_seeds(mine.values())}; {_no_dp(mine, dataset, k)}.",
        tuple(columns),
        tuple(rows),
        tuple(groups),
        notes=(budget_words(mine.values()), *_marks(rows, mine.values())),
        guarantees=tuple(_row_words([g for key, g in mine.items() if key.epsilon == epsilon]) for epsilon in epsilons),
    )


def _row_words(grids: Sequence[Grid]) -> str:
    """What the epsilon of a row means, and in words what the marks in it say, which a CSV has not."""
    (words,) = guarantees([grids])
    incomplete = [names.strategy(grid.key.strategy) for grid in grids if grid.points and not grid.complete]
    words += f" Points or seeds are missing: {', '.join(incomplete)}." if incomplete else ""
    diverged = _diverged_seeds(grids)
    return words + (f" Seeds diverged: {diverged}." if diverged else "")


def columns_for(keys: Iterable[Key]) -> list[str]:
    """The paper's strategies, run or not, and whichever others were run."""
    run = {key.strategy for key in keys}
    return [name for name in PRIVATE if name in PUBLISHED or name in run]


def _best_cells(grid: Grid | None, strategy: str) -> list[str]:
    """The cells of one strategy in one row."""
    width = len(STRATEGIES[strategy].swept) + 2
    if grid is None or not grid.points:
        return [NOT_RUN] + [""] * (width - 1)
    incomplete = "" if grid.complete else _INCOMPLETE
    best = grid.best
    if best is None:
        return ["-" + incomplete] + ["-"] * (width - 1)
    mark = incomplete + (_SEEDS_DIVERGED if best.diverged else "")
    point = [names.number(value) for value in best.hyperparameters.values()]
    return [*point, names.metric(best.mean()) + mark, names.metric(best.sd())]


def _marks(rows: Iterable[Sequence[str]], grids: Iterable[Grid]) -> list[str]:
    text = {cell for row in rows for cell in row}
    notes = {
        "-": "-: every run of the grid diverged.",
        NOT_RUN: f"{NOT_RUN}: not run.",
        _INCOMPLETE: f"{_INCOMPLETE}: points or seeds of the grid are missing, so its best may be another.",
        _SEEDS_DIVERGED: f"{_SEEDS_DIVERGED}: seeds of the point diverged; each counts with its best evaluation, if it "
        f"has one. {_diverged_seeds(grids)}.",
    }
    found = {mark for cell in text for mark in (_INCOMPLETE, _SEEDS_DIVERGED) if mark in cell}
    found |= {cell.rstrip(_INCOMPLETE) for cell in text} & {"-", NOT_RUN}
    return [note for mark, note in notes.items() if mark in found]


def _diverged_seeds(grids: Iterable[Grid]) -> str:
    return "; ".join(
        f"{names.strategy(grid.key.strategy)} at ε = {names.epsilon(grid.key.epsilon)}: of {grid.best.seeds_in_words}"
        for grid in grids
        if grid.best and grid.best.diverged
    )


def metric_words(dataset: str) -> str:
    metric = TASKS[dataset].metric
    return "test accuracy in %" if metric == "accuracy" else f"test {metric} ×10²"


def _seeds(grids: Iterable[Grid]) -> str:
    counts = {grid.best.seeds for grid in grids if grid.best}
    if not counts:
        return "seeds"
    few, many = min(counts), max(counts)
    return names.plural(many, "seed") if few == many else f"{few} to {many} seeds"


def _no_dp(mine: Results, dataset: str, k: int) -> str:
    grid = mine.get(Key(dataset, "no_dp", k, math.inf))
    if grid is None or grid.best is None:
        return "NoDP was not run" if grid is None or not grid.points else "every run of NoDP diverged"
    sd = grid.best.sd()
    value = names.metric(grid.best.mean()) + (f" ± {names.metric(sd)}" if sd is not None else "")
    return f"best NoDP for ρ = {names.number(grid.best.hyperparameters['lr'])} ({value})"

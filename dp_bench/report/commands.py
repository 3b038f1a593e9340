"""How to get each number again: the command that runs a point."""

import json

from dp_bench.report import names
from dp_bench.report.guarantee import budget_words, guarantees
from dp_bench.report.results import Grid, Point, Results
from dp_bench.report.table import Table
from dp_bench.strategies import STRATEGIES


def table(results: Results) -> Table:
    """A command a point."""
    rows = [(_name(grid), command(grid, point)) for grid in results.values() for point in grid.points]
    meanings = [words for grid in results.values() for words in guarantees([[grid]]) * len(grid.points)]
    return Table(
        "commands",
        "Every point that was run, and the command that runs it again.",
        ("grid", "command"),
        tuple(rows),
        notes=(
            "The same bits need the same commit (runs.csv names every run's: git checkout it first), the same versions "
            "and kind of processor; a later version may round differently: the same within a run's own scatter.",
            budget_words(results.values()),
        ),
        text_columns=frozenset({0, 1}),
        guarantees=tuple(meanings),
    )


def command(grid: Grid, point: Point) -> str:
    facts, key = grid.facts, grid.key
    swept = STRATEGIES[key.strategy].swept
    chosen = [f"profile={facts['folder'].split('/')[0]}", f"dataset={key.dataset}", f"strategy={key.strategy}"]
    chosen += [f"strategy.{name}={point.hyperparameters[name]!r}" for name in swept]
    chosen += [f"grid.k={key.k}"]
    chosen += [f"privacy.epsilon={key.epsilon:g}"] if facts["budgeted"] else []
    chosen += [*departures(facts["variant"]), f"seeds=[{','.join(_seeds(point))}]"]
    return f"dp-bench run {' '.join(_quoted(text) for text in chosen)}"


def departures(variant: str) -> list[str]:
    """A variant is a list of overrides, but for what the data themselves decide."""
    return [choice for choice in variant.split(",") if choice != "default" and not choice.startswith("data=")]


def _seeds(point: Point) -> list[str]:
    return [folder.rsplit("/seed", 1)[1] for folder in point.folders]


def _quoted(text: str) -> str:
    return json.dumps(text) if "[" in text else text


def _name(grid: Grid) -> str:
    key = grid.key
    return (
        f"{names.dataset(key.dataset)}, {names.strategy(key.strategy)}, k = {key.k}, ε = {names.epsilon(key.epsilon)}"
    )

"""How to get each number again: the command that runs a point."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dp_bench.report import names
from dp_bench.report.guarantee import budget_words, guarantees
from dp_bench.report.results import Grid, Point, Results
from dp_bench.report.table import Table
from dp_bench.strategies import STRATEGIES


def table(results: Results, runs: pd.DataFrame) -> Table:
    """A command for every point and commit at which seeds of it were run."""
    commits = dict(zip(runs["folder"], runs["commit"], strict=True))
    rows, meanings = [], []
    for grid in results.values():
        for point in grid.points:
            seeds: dict[str, list[str]] = {}
            for folder in point.folders:
                seeds.setdefault(commits[folder], []).append(folder.rsplit("/seed", 1)[1])
            rows += [(_name(grid), short(commit), command(grid, point, members)) for commit, members in seeds.items()]
            meanings += [*guarantees([[grid]])] * len(seeds)
    return Table(
        "commands",
        "Every point that was run, and the command that runs it again.",
        ("grid", "commit", "command"),
        tuple(rows),
        notes=(
            "The same bits need the same commit (git checkout it first), the same versions and kind of processor; "
            "another version may draw other noise: the same within a run's own scatter.",
            budget_words(results.values()),
        ),
        text_columns=frozenset({0, 1, 2}),
        guarantees=tuple(meanings),
    )


def command(grid: Grid, point: Point, seeds: Sequence[str]) -> str:
    facts, key = grid.facts, grid.key
    epsilon = key.epsilon if facts["budgeted"] else None
    profile = facts["folder"].split("/")[0]
    chosen = overrides(profile, key.dataset, key.strategy, point.hyperparameters, key.k, epsilon, facts["variant"])
    return f'dp-bench run {" ".join(chosen)} "seeds=[{",".join(seeds)}]"'


def overrides(
    profile: str,
    dataset: str,
    strategy: str,
    hyperparameters: Mapping[str, float],
    k: int,
    epsilon: float | None,
    variant: str,
) -> list[str]:
    """What a command must say to choose a point."""
    chosen = [f"profile={profile}", f"dataset={dataset}", f"strategy={strategy}"]
    chosen += [f"strategy.{name}={hyperparameters[name]!r}" for name in STRATEGIES[strategy].swept]
    chosen += [f"grid.k={k}"]
    chosen += [f"privacy.epsilon={epsilon:g}"] if epsilon is not None else []
    return [*chosen, *departures(variant)]


def departures(variant: str) -> list[str]:
    """A variant is a list of overrides, but for what the data themselves decide."""
    return [choice for choice in variant.split(",") if choice != "default" and not choice.startswith("data=")]


def short(commit: str) -> str:
    """A commit's first digits, and the "+" of a tree that was changed since."""
    return commit[:7] + "+" * commit.endswith("+")


def _name(grid: Grid) -> str:
    key = grid.key
    return (
        f"{names.dataset(key.dataset)}, {names.strategy(key.strategy)}, k = {key.k}, ε = {names.epsilon(key.epsilon)}"
    )

"""Where the numbers come from, and what a reader must be told before the first of them."""

import json
from collections import Counter
from collections.abc import Iterable

import pandas as pd

from dp_bench import published
from dp_bench.report import names
from dp_bench.report.collect import Collection, Skipped
from dp_bench.report.guarantee import budget_words, guarantees, no_guarantees
from dp_bench.report.results import Key, Results, Section
from dp_bench.report.table import Table

_SEEDS_OF_THE_PAPER = 5


def banners(profile: str, section: Section) -> list[str]:
    """Why these results are not the paper's experiment, if they are not: shown first, in bold."""
    runs, found = section.runs, []
    meanings = {"stand-in": "generated stand-in data, so its numbers mean nothing", "subset": "not the paper's data"}
    for kind, meaning in meanings.items():
        datasets = sorted(set(runs.loc[runs["source_kind"] == kind, "dataset"]))
        for name in datasets:
            rows = runs[(runs["dataset"] == name) & (runs["source_kind"] == kind)]
            caveats = json.loads(rows["caveats"].iloc[0])
            found.append(f"{names.dataset(name)} here is {meaning}: {'; '.join(caveats) or kind}.")
    found += no_guarantees(list(section.results.values()))
    departures = {n: v for n, v in section.variants.items() if _protocol_choices(v)}
    if departures:
        each = "; ".join(f"{names.dataset(n)}: {_protocol_choices(v)}" for n, v in departures.items())
        found.append(f"The protocol departs from the project's default: {each}.")
    unsearched = [grid for grid in section.results.values() if not grid.searched]
    if unsearched:
        found.append(
            f"Reduced search: {len(unsearched)} of {names.plural(len(section.results), 'grid')} "
            f"{names.lack(len(unsearched))} points, so that the best point is only the best of those run. Every grid "
            "is charged in full."
        )
    seeds = max((point.seeds for grid in section.results.values() for point in grid.points), default=0)
    if seeds < _SEEDS_OF_THE_PAPER:
        found.append(f"At most {names.plural(seeds, 'seed')} a point; the paper has {_SEEDS_OF_THE_PAPER}.")
    if profile not in ("paper", "verify"):
        found.append(f"Profile {profile}: not the paper's protocol.")
    return found


def _protocol_choices(variant: str) -> str:
    """A variant without the choice of the data, which has a banner of its own."""
    return ", ".join(c for c in variant.split(",") if c != "default" and not c.startswith("data="))


def facts(collection: Collection) -> Table:
    """Commits, versions, machines, time."""
    runs = collection.runs
    rows = [("profile", collection.profile), ("runs read", f"{len(runs):,}")]
    rows += [("commit", text) for text in _counted(runs["commit"])]
    rows += [("versions", text) for text in _counted(runs["versions"].map(_facts_in_words))]
    rows += [("machine", text) for text in _counted(runs["host"] + ": " + runs["machine"].map(_facts_in_words))]
    hours = runs["seconds"].sum() / 3600
    rows.append(("training time", f"{hours:,.1f} hours in all (of a resumed run only its last session is known)"))
    finished = sorted(text for text in set(runs["finished"]) if text)
    if finished:
        rows.append(("runs finished", f"{finished[0]} to {finished[-1]}"))
    return Table(
        "provenance", "Provenance of the runs.", ("what", "found"), tuple(rows), text_columns=frozenset({0, 1})
    )


def _counted(values: "pd.Series[str]") -> list[str]:
    return [f"{value} ({names.plural(count, 'run')})" for value, count in values.value_counts().items()]


def _facts_in_words(encoded: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in json.loads(encoded).items() if value is not None)


def sources(collection: Collection) -> Table:
    """The data behind the runs."""
    columns = ["dataset", "source_kind", "where", "train_rows", "test_rows", "caveats", "checksums"]
    rows = []
    for *texts, caveats, checksums in collection.runs[columns].drop_duplicates().itertuples(index=False):
        dataset, kind, where, train, test = texts
        sums = "; ".join(f"{name} {digest}" for name, digest in json.loads(checksums).items())
        caveat = "; ".join(json.loads(caveats))
        rows.append((names.dataset(str(dataset)), str(kind), str(where), f"{train:,}", f"{test:,}", caveat, sums))
    return Table(
        "sources",
        "The data, with the SHA-256 of each unpacked file.",
        ("data set", "kind", "found at", "train", "test", "caveats", "checksums"),
        tuple(rows),
        text_columns=frozenset({0, 1, 2, 5, 6}),
    )


def divergences(results: Results, runs: pd.DataFrame) -> Table | None:
    """Which runs diverged and why, a row a grid; None where none did."""
    diverged = runs[runs["status"] == "diverged"]
    if diverged.empty:
        return None
    rows, grids = [], []
    for key, grid in results.items():
        if grid.diverged:
            grids.append([grid])
            mine = diverged[(diverged[list(Key._fields)] == list(key)).all(axis=1)]
            reasons = "; ".join(f"{reason} ({count})" for reason, count in Counter(mine["reason"]).most_common())
            place = (names.dataset(key.dataset), names.strategy(key.strategy), str(key.k), names.epsilon(key.epsilon))
            rows.append((*place, f"{grid.diverged} of {grid.runs}", reasons))
    return Table(
        "divergences",
        "Runs that diverged. Each was charged all its steps.",
        ("data set", "strategy", "k", "ε", "diverged", "reasons"),
        tuple(rows),
        notes=(budget_words(results.values()),),
        text_columns=frozenset({0, 1, 5}),
        guarantees=guarantees(grids),
    )


def not_begun(results: Results) -> list[str]:
    """The paper's grids of which nothing is there, a line a data set and k."""
    planned: dict[tuple[str, int], list[Key]] = {}
    for cell in published.cells():
        key = Key(cell.dataset, cell.strategy, cell.k, cell.epsilon)
        planned.setdefault((cell.dataset, cell.k), []).append(key)
    lines = []
    for (dataset, k), keys in planned.items():
        absent = [key for key in keys if key not in results]
        if absent:
            none = f"none of the paper's {len(keys)} grids was begun"
            which = none if absent == keys else f"not begun: {_searches(absent)}"
            lines.append(f"{names.dataset(dataset)}, k = {k}: {which}.")
    return lines


def _searches(keys: Iterable[Key]) -> str:
    epsilons: dict[str, list[str]] = {}
    for key in keys:
        epsilons.setdefault(key.strategy, []).append(names.epsilon(key.epsilon))
    return "; ".join(f"{names.strategy(strategy)} at ε = {', '.join(each)}" for strategy, each in epsilons.items())


def skipped_table(skipped: Iterable[Skipped]) -> Table | None:
    rows = tuple((item.folder, item.reason) for item in skipped)
    if not rows:
        return None
    return Table("skipped", "Folders that were skipped.", ("folder", "reason"), rows, text_columns=frozenset({0, 1}))

"""Where the numbers come from, and what a reader must be told before the first of them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dp_bench.experiment.folder_names import departures
from dp_bench.experiment.record import RunRecord
from dp_bench.report import names
from dp_bench.report.contents import PROVENANCE, shown
from dp_bench.report.epsilon_notes import no_guarantees
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.sections import Section
from dp_bench.report.table import Column, Row, Table, by_column

_SEEDS_OF_THE_PAPER = 5


def banners(profile: str, section: Section) -> list[str]:
    """Why these results are not the paper's experiment, if they are not: shown first, in bold."""
    found = []
    meanings = {"stand-in": "synthetic data, so its numbers mean nothing", "subset": "not the paper's data"}
    for kind, meaning in meanings.items():
        sources = {
            run.spec.dataset.name: run.spec.source for run in reversed(section.runs) if run.spec.source.kind == kind
        }
        for name, source in sorted(sources.items()):
            found.append(f"{names.dataset(name)} here is {meaning}: {'; '.join(source.caveats) or kind}.")
    found += no_guarantees(list(section.results.values()))
    chosen = {name: ", ".join(words) for name, v in section.variants.items() if (words := departures(v))}
    if chosen:
        each = "; ".join(f"{names.dataset(name)}: {words}" for name, words in chosen.items())
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
        found.append(f"At most {names.plural(seeds, 'seed')} per point; the paper has {_SEEDS_OF_THE_PAPER}.")
    if profile not in ("paper", "verify"):
        found.append(f"Profile {profile}: not the paper's protocol.")
    return found


@shown(PROVENANCE, 10)
def facts(collection: Collection) -> Table:
    """Commits, versions, machines, time."""
    runs = collection.runs
    origins = [run.provenance for run in runs]
    rows = [("profile", collection.profile), ("runs read", f"{len(runs):,}")]
    rows += [("commit", text) for text in _counted(origin.commit for origin in origins)]
    rows += [("versions", text) for text in _counted(_in_words(dict(sorted(o.versions.items()))) for o in origins)]
    rows += [("machine", text) for text in _counted(f"{o.host}: {_in_words(o.machine)}" for o in origins)]
    rows.append(("training time", f"{hours(runs):,.1f} hours in all (of a resumed run only its last session is known)"))
    finished = sorted(origin.finished for origin in origins if origin.finished)
    if finished:
        rows.append(("runs finished", f"{finished[0]} to {finished[-1]}"))
    return Table("provenance", "Provenance of the runs.", ("what", "found"), rows)


def hours(runs: Iterable[RunRecord]) -> float:
    """Of training, as far as they are known."""
    return math.fsum(run.provenance.seconds for run in runs if not math.isnan(run.provenance.seconds)) / 3600


def _counted(values: Iterable[str]) -> list[str]:
    return [f"{value} ({names.plural(count, 'run')})" for value, count in Counter(values).most_common()]


def _in_words(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)


@shown(PROVENANCE, 20)
def sources(collection: Collection) -> Table:
    """The data behind the runs."""
    head, rows = by_column([_source(run) for run in collection.runs])
    unique = dict.fromkeys(map(tuple, rows))
    return Table("sources", "The data, with the SHA-256 of each unpacked file.", head, [*unique])


def _source(run: RunRecord) -> Row:
    source = run.spec.source
    return {
        "data set": names.dataset(run.spec.dataset.name),
        "kind": source.kind,
        "found at": run.provenance.where,
        Column("train", "count"): source.train_rows,
        Column("test", "count"): source.test_rows,
        "caveats": "; ".join(source.caveats),
        "checksums": "; ".join(f"{name} {digest}" for name, digest in sorted(source.checksums.items())),
    }


@shown(PROVENANCE, 30)
def skipped_table(collection: Collection) -> Table | None:
    rows = [(item.folder, item.reason) for item in collection.skipped]
    return Table("skipped", "Folders that were skipped.", ("folder", "reason"), rows) if rows else None

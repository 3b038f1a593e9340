"""The contents of a report, before anything is written: its tables and charts, by protocol and by part of the page."""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Collection as Names
from dataclasses import dataclass, field

from dp_bench.report import figures, names, tables
from dp_bench.report.cells import Cell, cells
from dp_bench.report.chart import Chart
from dp_bench.report.contents import PROVENANCE, SECTIONS, Part, Scope, part
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.sections import Section, sections
from dp_bench.report.table import Table
from dp_bench.report.tables import provenance
from dp_bench.report.tables.scorecard import headline, ranking_lines


@dataclass
class Chapter:
    """Everything about one protocol; its files go into `folder` ("" for the main one)."""

    title: str
    folder: str
    banners: list[str]
    headline: list[str]
    parts: list[Part]
    from_here: bool = False  # on a page that opens with the reference results: trained on this machine

    def tables(self) -> list[Table]:
        return [item for part in self.parts for item in part.items if isinstance(item, Table)]

    def charts(self) -> list[Chart]:
        return [item for part in self.parts for item in part.items if isinstance(item, Chart)]


@dataclass
class Report:
    profile: str
    counts: dict[str, str]
    chapters: list[Chapter]  # the main one first
    provenance: Part
    cells: list[Cell] = field(default_factory=list)  # every grid, to be filtered and opened


def build(
    collection: Collection, variant: str | None, accountants: Names[str], reference: Collection | None = None
) -> Report:
    """The report on these runs. `accountants`: slow ones to consult on the privacy of each grid.

    With `reference` the page opens with those runs, in the folder reference/, and the others stand apart from them.
    """
    _import_all()
    scopes = _scopes(collection, variant, accountants)
    chapters = [_chapter(scope) for scope in scopes]
    first, opening, found = collection, scopes, cells(scopes)
    if reference is not None:
        first, opening = reference, _scopes(reference, None, accountants)
        for chapter in chapters:
            chapter.from_here = True
        chapters = [_chapter(scope, "reference") for scope in opening] + chapters
        found = cells(opening) + cells(scopes, from_here=True)
    return Report(collection.profile, _counts(first), chapters, part(PROVENANCE, opening[0]), found)


def _import_all() -> None:
    """Every module of figures and tables, so that a new one is shown without being listed."""
    for package in (figures, tables):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _scopes(collection: Collection, variant: str | None, accountants: Names[str]) -> list[Scope]:
    return [Scope.of(collection, section, accountants) for section in sections(collection.runs, variant)]


def _counts(collection: Collection) -> dict[str, str]:
    statuses = Counter(run.status for run in collection.runs)
    return {
        "runs done": f"{len(collection.runs) - statuses['unfinished']:,}",
        "unfinished": f"{statuses['unfinished']:,}",
        "diverged": f"{statuses['diverged']:,}",
        "folders skipped": f"{len(collection.skipped):,}",
        "hours of training": f"{provenance.hours(collection.runs):,.1f}",
    }


_NOT_JUDGED = (
    "Searched by {allocators}, which asks for less noise than the paper's composition: shown beside it, never compared "
    "with the published values. Candidates were chosen on the test set, which is public here, as in the paper."
)
_WINNERS = (
    " Of a search by selection the winner is all that may be released: that others are missing is how it should be."
)


def _not_judged(section: Section) -> str:
    found = [grid for grid in section.results.values() if grid.allocation is not None]
    ways = sorted({grid.spec.privacy.allocator for grid in found if grid.spec.privacy})
    return _NOT_JUDGED.format(allocators=" or ".join(ways)) + _WINNERS * any(grid.spec.winner_only for grid in found)


def _chapter(scope: Scope, within: str = "") -> Chapter:
    slug, judged = scope.section.slug, scope.section.composed
    return Chapter(
        title=names.protocol(slug) if slug else "Main protocol",
        folder="/".join(filter(None, (within, slug))),
        banners=provenance.banners(scope.collection.profile, scope.section),
        headline=[headline(scope.scores), *ranking_lines(scope.rankings)] if judged else [_not_judged(scope.section)],
        parts=[made for title in SECTIONS if (made := part(title, scope))],
    )

"""The contents of a report, before anything is written: its tables and charts, by section and by part of the page."""

from collections.abc import Collection as Names
from dataclasses import dataclass, field

from dp_bench.report import (
    commands,
    evidence,
    figures,
    privacy,
    privacy_figures,
    provenance,
    score_tables,
    tables,
)
from dp_bench.report.chart import Chart
from dp_bench.report.collect import Collection
from dp_bench.report.guarantee import budget_words
from dp_bench.report.results import Section, sections
from dp_bench.report.scorecard import NOT_RUN, rankings, section_scores, tallies
from dp_bench.report.table import Table

# A whole sweep is run again by its own command, not point by point.
_COMMANDS_WORTH_LISTING = 500


@dataclass
class Part:
    """A part of the page: words, then tables and charts in the order in which they are to be read."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    items: list[Table | Chart] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Chapter:
    """Everything about one protocol; its files go into `folder` ("" for the main one)."""

    title: str
    folder: str
    banners: list[str]
    headline: list[str]
    parts: list[Part]

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


def build(collection: Collection, variant: str | None, accountants: Names[str]) -> Report:
    """The report on these runs. `accountants`: slow ones to consult on the privacy of each grid."""
    chapters = [_chapter(collection, section, accountants) for section in sections(collection.runs, variant)]
    runs = collection.runs
    counts = {
        "runs done": f"{(runs['status'] != 'unfinished').sum():,}",
        "unfinished": f"{(runs['status'] == 'unfinished').sum():,}",
        "diverged": f"{(runs['status'] == 'diverged').sum():,}",
        "folders skipped": f"{len(collection.skipped):,}",
        "hours of training": f"{runs['seconds'].sum() / 3600:,.1f}",
    }
    found = [provenance.facts(collection), provenance.sources(collection), provenance.skipped_table(collection.skipped)]
    origin = Part("Provenance", items=[table for table in found if table is not None])
    return Report(collection.profile, counts, chapters, origin)


def _chapter(collection: Collection, section: Section, accountants: Names[str]) -> Chapter:
    results = section.results
    datasets = list(dict.fromkeys(key.dataset for key in results))
    scores = section_scores(section)
    sums, orders = tallies(scores), rankings(scores)
    accounts = privacy.accounts(results, accountants)
    budget = budget_words(results.values())
    charts = {chart.name: chart for chart in figures.charts(results, scores, collection.root)}

    comparison = Part("Scorecard", score_tables.explanations(sums))
    comparison.items = [
        score_tables.summary(sums, budget),
        *_named(charts, "deviations_"),
        *([score_tables.ranking(orders, budget)] if any(order.verdict != NOT_RUN for order in orders) else []),
        score_tables.full(scores, budget),
    ]

    outcome = Part("Results")
    for dataset in datasets:
        outcome.items += _named(charts, f"metric_{dataset}_")
        outcome.items += [table for table in tables.best_tables(results) if table.name.startswith(f"best_{dataset}_")]

    training = Part("Training")
    for prefix in ("learning_", "trajectories_", "grid_"):
        training.items += _named(charts, prefix)
    if not section.slug:
        training.items += _trade_offs(collection)

    evidence_part = Part("Statistics")
    found = [evidence.comparisons_table(results), *(evidence.statistics_table(results, name) for name in datasets)]
    evidence_part.items += [table for table in found if table.rows]

    page = Part("Privacy", list(privacy.WORDS), warnings=privacy.warnings(results, accounts))
    price = privacy_figures.candidates(accounts)
    frontiers = [privacy_figures.frontiers(accounts, dataset) for dataset in datasets]
    page.items += [chart for chart in (price, *frontiers) if chart is not None]
    page.items += [
        privacy.ledger(accounts, name) for name in datasets if any(a.grid.key.dataset == name for a in accounts)
    ]

    setting = Part("Experiments", items=[tables.datasets(results), *tables.models(results)])

    coverage = Part("Completeness", items=[evidence.completeness_table(results)])
    coverage.paragraphs = provenance.not_begun(results) if not section.slug else []
    diverged = provenance.divergences(results, section.runs)
    coverage.items += [diverged] if diverged else []
    again = commands.table(results, section.runs)
    coverage.items += [again] if len(again.rows) <= _COMMANDS_WORTH_LISTING else []

    return Chapter(
        title=section.slug or "Main protocol",
        folder=section.slug,
        banners=provenance.banners(collection.profile, section),
        headline=[
            score_tables.headline(scores),
            *score_tables.ranking_lines(orders),
        ],
        parts=[part for part in (comparison, outcome, evidence_part, training, page, setting, coverage) if part.items],
    )


def _named(charts: dict[str, Chart], prefix: str) -> list[Chart]:
    return [chart for name, chart in charts.items() if name.startswith(prefix)]


def _trade_offs(collection: Collection) -> list[Chart]:
    """Figures from the data that `dp-bench trade-off` leaves beside the runs."""
    found = collection.trade_offs
    return [figures.trade_off(one, f"trade_off_{i}" if i else "trade_off") for i, one in enumerate(found)]

"""Which figures and tables a report shows: each says so where it is defined, and is found by that alone.

    @shown("Results", 10)
    def metric(results: Results, dataset: str, k: int) -> Chart | None: ...

The parameters of such a function are attributes of `Scope`. One that takes a `dataset` is called for each data set, one
that also takes a `k` for each k of it. What there is no data for is None, or an empty list. `build.py`
imports them all.
"""

import inspect
import itertools
from collections.abc import Callable, Iterable
from collections.abc import Collection as Names
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from dp_bench.report.analysis.accounts import Account, accounts
from dp_bench.report.analysis.scorecard import Ranking, Score, Tally, rankings, section_scores, tallies
from dp_bench.report.chart import Chart
from dp_bench.report.epsilon_notes import budget_words
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.results import Results
from dp_bench.report.load.sections import Section
from dp_bench.report.table import Table

SECTIONS = ("Scorecard", "Results", "Statistics", "Training", "Privacy", "Experiments", "Completeness", "Audit")
PROVENANCE = "Provenance"  # of all protocols together


@dataclass
class Part:
    """A part of the page: words, then tables and charts in the order in which they are to be read."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    items: list[Table | Chart] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, content: "Content") -> None:
        """A str is a paragraph."""
        if isinstance(content, str):
            self.paragraphs.append(content)
        elif isinstance(content, Table | Chart):
            self.items.append(content)
        elif isinstance(content, Part):
            self.paragraphs += content.paragraphs
            self.items += content.items
            self.warnings += content.warnings
        elif content is not None:
            for one in content:
                self.add(one)

    def __bool__(self) -> bool:
        return bool(self.items or self.warnings)


Content = Table | Chart | Part | str | None | Iterable[Table | Chart | str | None]


class Scope(NamedTuple):
    """What a figure or table may be made of: one protocol and its results, in the store that holds them."""

    collection: Collection
    root: Path  # of the store
    section: Section
    main: bool  # whether this protocol is compared first
    results: Results
    budget: str  # what the epsilons of these results mean
    scores: list[Score]
    tallies: list[Tally]
    rankings: list[Ranking]
    accounts: list[Account]

    @classmethod
    def of(cls, collection: Collection, section: Section, asked: Names[str] = ()) -> Self:
        """`asked`: slow accountants to consult on the privacy of each grid."""
        results, scores = section.results, section_scores(section)
        budget, spent = budget_words(results.values()), accounts(results, asked)
        tallied, ranked = tallies(scores), rankings(scores)
        place = (collection, collection.root, section, not section.slug)
        return cls(*place, results, budget, scores, tallied, ranked, spent)


class _Item(NamedTuple):
    section: str
    order: int
    function: Callable[..., Content]
    parameters: frozenset[str]
    main_only: bool


_ITEMS: list[_Item] = []
_F = TypeVar("_F", bound=Callable[..., Content])


def shown(section: str, order: int, *, main_only: bool = False) -> Callable[[_F], _F]:
    """Show what the function returns in this section of every protocol, or of the main one only.

    In ascending order. What differs in the last digit only is shown together, data set by data set: 10, 11, ...
    """

    def register(function: _F) -> _F:
        parameters = frozenset(inspect.signature(function).parameters)
        unknown = parameters - {"dataset", "k", *Scope._fields}
        if section not in (*SECTIONS, PROVENANCE) or unknown:
            raise TypeError(f"{function.__name__}: no section {section}, or not in Scope: {sorted(unknown)}")
        _ITEMS.append(_Item(section, order, function, parameters, main_only))
        return function

    return register


def part(title: str, scope: Scope) -> Part:
    """The part of the page on `title`; false where nothing is to be shown."""
    made = Part(title)
    if title == SECTIONS[0] and not scope.section.composed:
        return made  # another way to pay for a search is not judged by the paper's values
    items = [item for item in _ITEMS if item.section == title and (scope.main or not item.main_only)]
    items.sort(key=lambda item: (item.order, item.function.__name__))
    for _, members in groupby(items, key=lambda item: item.order // 10):
        together = list(members)
        per_dataset = any("dataset" in item.parameters for item in together)
        each = dict.fromkeys(key.dataset for key in scope.results) if per_dataset else [""]
        for dataset, item in itertools.product(each, together):
            ks = {key.k for key in scope.results if key.dataset == dataset} if "k" in item.parameters else {0}
            for k in sorted(ks):
                known = scope._asdict() | {"dataset": dataset, "k": k}
                made.add(item.function(**{name: known[name] for name in item.parameters}))
    return made

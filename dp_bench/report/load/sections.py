"""Runs by protocol: which variants share a table, and which of them is compared with the paper first; by reading."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dp_bench.experiment import folder_names
from dp_bench.experiment.folder_names import DEFAULT, without_private_choices
from dp_bench.experiment.record import RunRecord
from dp_bench.experiment.spec import RunSpec
from dp_bench.paper.readings import Reading
from dp_bench.privacy.allocators import COMPOSITION
from dp_bench.report.load.results import Results, most_seeds, results


@dataclass(frozen=True)
class Section:
    """One protocol: for each data set one variant, with the NoDP runs that belong to it."""

    slug: str  # a folder's name; "" for the one that is compared first
    variants: dict[str, str]
    runs: tuple[RunRecord, ...]
    results: Results

    @property
    def composed(self) -> bool:
        """Whether its budgets pay as the paper's do; only such grids are judged by the paper's."""
        return all(_composed(grid.spec) for grid in self.results.values())


def _composed(spec: RunSpec) -> bool:
    return spec.privacy is None or spec.privacy.allocator == COMPOSITION


def sections(runs: Sequence[RunRecord], preferred: str | None = None) -> list[Section]:
    """The runs by protocol. First, for each data set, the preferred variant, else the default, else the fullest.

    An emulated data set comes first only where there is no other: its epsilons are not guarantees. So does a grid that
    was searched by another allocator than composition, and never together with one that was not. Synthetic data are
    kept apart from real data: numbers of both must not share a table.
    """
    composed = [run for run in runs if _composed(run.spec)]
    private = any(run.spec.allocation for run in composed)
    seeds = most_seeds(runs)
    by_dataset: dict[str, list[RunRecord]] = {}
    for run in runs:
        by_dataset.setdefault(run.spec.dataset.name, []).append(run)
    main = dict[str, str]()
    for dataset, mine in by_dataset.items():
        first = [run for run in _compared(mine) if _composed(run.spec) or not private]
        if first:
            main[dataset] = _main(first, preferred)
    synthetic = {name for name, mine in by_dataset.items() if all(run.spec.source.synthetic for run in mine)}
    if main.keys() - synthetic:
        main = {dataset: variant for dataset, variant in main.items() if dataset not in synthetic}
    rest = dict[str, dict[str, str]]()
    for dataset, mine in by_dataset.items():
        for variant in dict.fromkeys(run.spec.variant for run in _compared(mine)):
            if variant != main.get(dataset):
                rest.setdefault(variant, {})[dataset] = variant
    chosen = [("", main), *((variant, rest[variant]) for variant in sorted(rest))]
    made = [_section(slug, variants, by_dataset, seeds) for slug, variants in chosen]
    placed = {run.folder for section in made for run in section.runs}
    left = [run for run in runs if run.folder not in placed]  # NoDP of variants that no private run has
    for variant in sorted({run.spec.variant for run in left}):
        mine = [run for run in left if run.spec.variant == variant]
        variants = dict.fromkeys((run.spec.dataset.name for run in mine), variant)
        made.append(Section(f"{variant} (NoDP)", variants, tuple(mine), results(mine, seeds)))
    return made


def _compared(runs: Sequence[RunRecord]) -> Sequence[RunRecord]:
    """The private ones, if there are any."""
    return [run for run in runs if run.spec.allocation] or runs


def _main(runs: Sequence[RunRecord], preferred: str | None) -> str:
    there = {run.spec.variant for run in runs}
    for wanted in (preferred, DEFAULT):
        if wanted in there:
            return str(wanted)
    runs = [run for run in runs if not run.spec.source.synthetic] or runs
    runs = [run for run in runs if run.spec.dataset.limit is None] or runs
    runs = [run for run in runs if run.spec.accounted_rows == run.spec.source.train_rows] or runs
    return Counter(run.spec.variant for run in runs).most_common(1)[0][0]


def _section(slug: str, variants: dict[str, str], runs: Mapping[str, Sequence[RunRecord]], seeds: int) -> Section:
    chosen: list[RunRecord] = []
    for dataset, variant in variants.items():
        own = [run for run in runs[dataset] if run.spec.variant == variant]
        if all(run.spec.allocation for run in own):  # there is no NoDP of just this variant
            public = without_private_choices(variant)
            own += [run for run in runs[dataset] if not run.spec.allocation and run.spec.variant == public]
        chosen += own
    return Section(slug, variants, tuple(chosen), results(chosen, seeds))


def reading(variant: str) -> Reading:
    """How a variant reads the paper, whatever data were trained on: its choices that do not name these."""
    return frozenset(folder_names.reading(variant))


def results_of(runs: Sequence[RunRecord], wanted: Reading) -> Results:
    """The grids that were searched under one reading.

    Of a data set of which only a part is here the emulated runs, if there are any: they have the paper's noise.
    """
    mine = [run for run in runs if reading(run.spec.variant) == wanted]
    variants: dict[str, set[str]] = {}
    for run in mine:
        variants.setdefault(run.spec.dataset.name, set()).add(run.spec.variant)
    closest = {name: min(found, key=lambda v: (not folder_names.is_emulated(v), v)) for name, found in variants.items()}
    chosen = [run for run in mine if run.spec.variant == closest[run.spec.dataset.name]]
    return results(chosen, most_seeds(chosen)) if chosen else {}

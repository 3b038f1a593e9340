"""What the paper concludes in words: whether its own tables say so, and whether ours do."""

from collections.abc import Iterator, Mapping, Sequence

from dp_bench.paper import published
from dp_bench.paper.claims import AHEAD, DIVERGES, NOT_WORSE, Claim, claims
from dp_bench.paper.readings import PROBABLE, SOUND
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import NEAR, OPEN, Score, key_of_cell, scorecard
from dp_bench.report.analysis.statistics import pooled_sd
from dp_bench.report.contents import shown
from dp_bench.report.load.collect import Collection
from dp_bench.report.load.results import Grid, Key, worth
from dp_bench.report.load.sections import results_of
from dp_bench.report.table import Column, Row, Table, by_column
from dp_bench.report.tables.provenance import hours

_PROTOCOLS = {SOUND: "sound protocol", PROBABLE: "the paper's probable protocol (not private)"}
HOLDS, PARTLY, FAILS, NOT_RUN = "holds", "partly", "does not hold", "not run"


Value = published.Cell | Score  # in the paper, or here: a grid that diverged has no mean


def claim_holds(relation: str, dataset: str, first: Value, second: Value) -> bool:
    """In one cell. Differences of up to 2 pooled standard deviations are none, but for who is ahead."""
    if relation == DIVERGES:
        return first.mean is None
    if first.mean is None and second.mean is None:
        return relation != AHEAD
    gain = worth(dataset, first.mean) - worth(dataset, second.mean)
    if relation == AHEAD:
        return gain > 0
    near = abs(gain) <= NEAR * (pooled_sd(first.sd, second.sd) or 0.0)
    return near or (relation == NOT_WORSE and gain >= 0)


def comparisons(claim: Claim, cells: Mapping[Key, Value]) -> Iterator[tuple[bool, tuple[Key, ...]]]:
    """Whether it holds in each pair of cells of which both are there."""
    for key, value in cells.items():
        for first, second in claim.pairs:
            other = key._replace(strategy=second)
            about = key.dataset in claim.datasets and key.epsilon in (claim.epsilons or (key.epsilon,))
            if key.strategy == first and about and other in cells:
                yield claim_holds(claim.relation, key.dataset, value, cells[other]), (key, other)


def verdict(held: Sequence[bool]) -> str:
    if not held:
        return NOT_RUN
    return HOLDS if all(held) else PARTLY if any(held) else FAILS


@shown("Scorecard", 40, main_only=True)
def claims_table(collection: Collection) -> Table | None:
    """One row per claim."""
    ours = {
        name: {key_of_cell(s.cell): s for s in scorecard(results_of(collection.runs, reading)) if _counts(s)}
        for reading, name in _PROTOCOLS.items()
    }
    if not any(ours.values()):
        return None
    theirs = {key_of_cell(cell): cell for cell in published.cells() if cell.status != "point"}
    rows, used = zip(*(_row(claim, theirs, ours) for claim in claims()), strict=True)
    return Table(
        "claims",
        "What the paper concludes, sentence by sentence: in how many comparisons its own tables say so, and ours.",
        *by_column(rows),
        notes=(
            "A comparison is one pair of strategies at one data set, k and ε (of k = 7 the paper prints no values); up "
            "to 2 pooled standard deviations are not a difference, except in who is ahead. Holds: in all comparisons "
            "that were run; partly: in some. Core hours: of the runs compared. A cell of AG News is emulated where "
            "such runs are there; their command has dataset.emulate_size=120000, too.",
            "By construction, not by runs: Online's noise is 1 % larger than FixedThreshold's at the same ν, and it "
            "has k candidates where FixedThreshold has k². What its second query costs in time is in "
            "docs/performance.md.",
        ),
        grids=used,
    )


def _counts(score: Score) -> bool:
    """A cell of which something can be said; a divergence only if the whole grid was tried."""
    if score.verdict in OPEN or score.cell.status == "point" or score.grid is None:
        return False
    return score.mean is not None or score.grid.searched


def _row(claim: Claim, theirs: Mapping[Key, Value], ours: Mapping[str, Mapping[Key, Score]]) -> tuple[Row, list[Grid]]:
    row: dict[Column | str, object] = {
        "claim": f"{', '.join(map(names.dataset, claim.datasets))}: {claim.words}",
        "in the paper": claim.where,
        "its own tables": _share([held for held, _ in comparisons(claim, theirs)]),
    }
    scores: dict[tuple[str, Key], Score] = {}
    for name, cells in ours.items():
        found = list(comparisons(claim, cells))
        held = [one for one, _ in found]
        row[Column("comparisons", "number", name)] = _share(held)
        row[Column("claim", "verdict", name)] = verdict(held)
        scores |= {(name, key): cells[key] for _, keys in found for key in keys}
    runs = [run for score in scores.values() if score.point for run in score.point.runs]
    row[Column("core hours", "fraction")] = hours(runs) if runs else None
    row[Column("command", "code")] = _command(claim)
    return row, [score.grid for score in scores.values() if score.grid]


def _command(claim: Claim) -> str:
    words = [f"dataset={','.join(claim.datasets)}", f"strategy={','.join(claim.strategies)}", "grid.k=5,9"]
    words += [f"privacy.epsilon={','.join(map(names.epsilon, claim.epsilons))}"] if claim.epsilons else []
    return " ".join(["dp-bench run -m profile=verify", *words])


def _share(held: Sequence[bool]) -> str | None:
    return f"{sum(held)} of {len(held)}" if held else None

"""The scorecard as tables: a summary, every cell, and whether the paper's ranking of the strategies holds."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dp_bench.paper.published import ks_with_metrics
from dp_bench.report import names
from dp_bench.report.analysis import scorecard as sc
from dp_bench.report.analysis.scorecard import OPEN, REPRODUCED, VERDICTS, Order, Ranking, Score, Tally
from dp_bench.report.contents import shown
from dp_bench.report.table import EPSILON, Column, K, Marked, Row, Table, by_column, printed, printed_pair
from dp_bench.strategies import STRATEGIES

_PAPER, _HERE = "paper", "here"
_COLUMNS = (
    *("data set", "strategy", K, EPSILON),
    *(Column("hyperparameters", group=_PAPER), Column("metric", "mean and sd", _PAPER)),
    *(Column("hyperparameters", group=_HERE), Column("metric", "mean and sd", _HERE)),
    *(Column("seeds", group=_HERE), Column("points", "number", _HERE)),
    *(Column("gain", "metric"), Column("in sd", "deviations"), Column("verdict", "verdict"), "misprint"),
)


@shown("Scorecard", 10)
def summary(tallies: Sequence[Tally], budget: str) -> Table:
    """A line per data set and strategy."""
    used = [verdict for verdict in VERDICTS if any(tally.counts[verdict] for tally in tallies)]
    rows = []
    for tally in tallies:
        counts = [tally.counts[verdict] or None for verdict in used]
        place = (names.dataset(tally.dataset), names.strategy(tally.strategy))
        rows.append((*place, tally.counts.total(), *counts, tally.median_deviation))
    return Table(
        "scorecard_summary",
        "Published cells beside ours, counted by verdict; the last column is the median of ours less the paper's in "
        "pooled standard deviations, positive where ours is better.",
        ("data set", "strategy", *(Column(text, "count") for text in ("cells", *used)), Column("median", "deviations")),
        rows,
        notes=(budget,),
    )


def headline(scores: Sequence[Score]) -> str:
    """The scorecard in a sentence."""
    values = [s for s in scores if s.cell.status in ("value", "diverged") and s.cell.k in ks_with_metrics()]
    run = [s for s in values if s.verdict not in OPEN]
    shown = sum(s.verdict == sc.NOT_JUDGED for s in values)
    counts = Counter(s.verdict for s in run)
    if not run and shown:
        return f"{shown} of {len(values)} published results are shown beside reduced runs; none of these is judged."
    if not run:
        return f"None of the {len(values)} published results at k = 5 and 9 has been run yet."
    rest = "".join(f", {counts[v]} {v}" for v in (sc.PARTLY_DIVERGED, sc.NOT_SEARCHED) if counts[v])
    rest += f"; {shown} reduced ones are shown, not judged" if shown else ""
    words = (
        f"Of {len(values)} published results (values or divergences at k = 5 and 9), "
        f"{len(run)} {'has' if len(run) == 1 else 'have'} been run: "
        f"{counts[REPRODUCED]} reproduced, {counts[sc.BETTER]} better, {counts[sc.WORSE]} worse than published{rest}."
    )
    if tuned := [s for s in run if s.tuned]:
        good = sum(s.verdict == REPRODUCED for s in tuned)
        words += f" Used to choose between readings of the paper (tuned): {len(tuned)}, of which {good} reproduced."
    if published := sum(s.cell.status == "diverged" for s in values):
        diverged = [s for s in run if s.cell.status == "diverged"]
        same = sum(s.verdict == REPRODUCED for s in diverged)
        words += f" Published as diverged: {published}; run: {len(diverged)}; of these diverged here too: {same}."
    return words


@shown("Scorecard", 0)
def explanations(tallies: Sequence[Tally]) -> list[str]:
    """What the verdicts that were reached mean."""
    reached = [verdict for verdict in VERDICTS if any(tally.counts[verdict] for tally in tallies)]
    return [f"{verdict[0].upper()}{verdict[1:]}: {sc.EXPLANATIONS[verdict]}." for verdict in reached]


@shown("Scorecard", 40)
def full(scores: Sequence[Score]) -> Table:
    """Every published cell and ours."""
    return Table(
        "scorecard",
        "Every published cell beside ours: hyperparameters, mean ± standard deviation (accuracy in %, mse ×10²), ours "
        "less the paper's (positive where ours is better), the same in pooled standard deviations, verdict.",
        _COLUMNS,
        [_row(score) for score in scores],
        notes=(
            "Tuned: the cell was used to choose between readings of the paper (docs/fidelity.md), so its agreement is "
            "partly that choice's doing.",
        ),
        grids=[[score.grid] if score.grid else [] for score in scores],
    )


def _row(score: Score) -> tuple[Any, ...]:
    cell, grid = score.cell, score.grid
    theirs = names.point(cell.strategy, dict(cell.hyperparameters)) if cell.hyperparameters else ""
    ours = names.point(cell.strategy, score.point.hyperparameters) if score.point else ""
    value = "diverged" if grid and grid.all_diverged else printed_pair(cell.dataset, score.mean, score.sd)
    return (
        *(names.dataset(cell.dataset), names.strategy(cell.strategy), cell.k, cell.epsilon),
        theirs,
        "diverged" if cell.status == "diverged" else printed_pair(cell.dataset, cell.mean, cell.sd),
        ours,
        Marked(value, opens=str(grid.spec.grid_folder)) if grid else value,
        score.point.seeds_in_words if score.point else "",
        f"{len(grid.points)}/{grid.planned}" if grid else "",
        printed(cell.dataset, score.gain),
        score.deviations,
        score.shown_verdict,
        cell.note if STRATEGIES[cell.strategy].private and "starred" not in cell.note else "",
    )


def ranking_lines(rankings: Sequence[Ranking]) -> list[str]:
    """Whether the paper's ranking holds: one sentence per data set."""
    lines = []
    for dataset in dict.fromkeys(r.dataset for r in rankings):
        run = [r for r in rankings if r.dataset == dataset and r.verdict != sc.NOT_RUN]
        if not run:
            continue
        held = sum(r.verdict.startswith("holds") for r in run)
        settings = names.plural(len(run), "setting")
        lines.append(
            f"{names.dataset(dataset)}: the paper's ranking of strategies holds in {held} of {settings} of k and ε in "
            f"which two strategies or more were run. Clear claims of the paper there: {sum(r.claims for r in run)}; "
            f"holding: {sum(r.holding for r in run)}; overturned: {sum(len(r.overturned) for r in run)}."
        )
    return lines


@shown("Scorecard", 30)
def ranking(rankings: Sequence[Ranking]) -> Table | None:
    """Per data set, k and epsilon with something to compare: the paper's order, ours, and whether they agree."""
    run = [r for r in rankings if r.verdict != sc.NOT_RUN]
    if not run:
        return None
    return Table(
        "ranking",
        "Does the paper's ranking hold? Best strategy first; = where the means are equal.",
        *by_column([_ranking_row(r) for r in run]),
        notes=(
            "A claim of the paper is a pair that it puts more than 2 pooled standard deviations apart; it is "
            "overturned where ours are as far apart the other way. Holds: the same order. Holds but for ties: every "
            "claim holds, and only strategies that the paper puts nearer to each other have changed places. Partly: "
            "some claims hold, not all, and none is overturned.",
            f"Of the paper's {names.plural(len(rankings), 'setting')} of k and ε (it prints no values for k = 7), "
            f"{len(run)} with two strategies or more that were run.",
        ),
        grids=[r.grids for r in run],
    )


def _ranking_row(r: Ranking) -> Row:
    return {
        **{"data set": names.dataset(r.dataset), K: r.k, EPSILON: r.epsilon},
        **{"in the paper": _order(r.theirs), "here": _order(r.ours)},
        Column("claims held", "number"): f"{r.holding} of {r.claims}",
        Column("ranking", "verdict"): r.verdict,
        "overturned": "; ".join(f"{names.strategy(b)} beats {names.strategy(a)}" for a, b in r.overturned),
    }


def _order(order: Order) -> str:
    return " > ".join(" = ".join(names.strategy(name) for name in equals) for equals in order)

"""The scorecard as tables: a summary, whether rankings hold, and every cell."""

from collections.abc import Sequence

from dp_bench.report import names
from dp_bench.report.guarantee import guarantees
from dp_bench.report.scorecard import (
    BETTER,
    EXPLANATIONS,
    NOT_RUN,
    NOT_SEARCHED,
    PARTLY_DIVERGED,
    REPRODUCED,
    VERDICTS,
    WORSE,
    Order,
    Ranking,
    Score,
    Tally,
)
from dp_bench.report.table import Table
from dp_bench.strategies import STRATEGIES


def summary(tallies: Sequence[Tally], budget: str) -> Table:
    """A line per data set and strategy."""
    used = [verdict for verdict in VERDICTS if any(tally.counts[verdict] for tally in tallies)]
    rows = []
    for tally in tallies:
        middle = "" if tally.median_deviation is None else names.deviations(tally.median_deviation)
        counts = [str(tally.counts[verdict] or "") for verdict in used]
        rows.append((names.dataset(tally.dataset), names.strategy(tally.strategy), str(tally.total), *counts, middle))
    return Table(
        "scorecard_summary",
        "Published cells beside ours, counted by verdict; the last column is the median of ours less the paper's in "
        "pooled standard deviations, positive where ours is better.",
        ("data set", "strategy", "cells", *used, "median"),
        tuple(rows),
        notes=(budget,),
        text_columns=frozenset({0, 1}),
    )


def headline(scores: Sequence[Score]) -> str:
    """The scorecard in a sentence."""
    values = [s for s in scores if s.cell.status in ("value", "diverged") and s.cell.k != 7]
    run = [s for s in values if s.verdict != NOT_RUN]
    counts = {verdict: sum(s.verdict == verdict for s in run) for verdict in VERDICTS}
    if not run:
        return f"None of the {len(values)} published results at k = 5 and 9 has been run yet."
    rest = "".join(f", {counts[v]} {v}" for v in (PARTLY_DIVERGED, NOT_SEARCHED) if counts[v])
    return (
        f"Of {len(values)} published results (values or divergences at k = 5 and 9), {_have_been_run(len(run))}: "
        f"{counts[REPRODUCED]} reproduced, {counts[BETTER]} better, {counts[WORSE]} worse than published{rest}"
        f"{_of_them_tuned(run)}. {_divergences(values)}"
    ).rstrip()


def _have_been_run(count: int) -> str:
    return f"{count} {'has' if count == 1 else 'have'} been run"


def _of_them_tuned(run: Sequence[Score]) -> str:
    tuned = [score for score in run if score.tuned]
    if not tuned:
        return ""
    good = sum(score.verdict == REPRODUCED for score in tuned)
    were = "was" if len(tuned) == 1 else "were"
    return f" ({len(tuned)} of them, {good} reproduced, {were} used to choose between readings of the paper: tuned)"


def _divergences(values: Sequence[Score]) -> str:
    published = [score for score in values if score.cell.status == "diverged"]
    if not published:
        return ""
    run = [score for score in published if score.verdict != NOT_RUN]
    if not run:
        return f"None of the {len(published)} published divergences among them has been run."
    same = sum(score.verdict == REPRODUCED for score in run)
    diverge = "diverges" if same == 1 else "diverge"
    return (
        f"Of {len(published)} published divergences among them, {_have_been_run(len(run))} and {same} {diverge} here "
        "too."
    )


def explanations(tallies: Sequence[Tally]) -> list[str]:
    """What the verdicts that were reached mean."""
    reached = [verdict for verdict in VERDICTS if any(tally.counts[verdict] for tally in tallies)]
    return [f"{verdict[0].upper()}{verdict[1:]}: {EXPLANATIONS[verdict]}." for verdict in reached]


def ranking_lines(rankings: Sequence[Ranking]) -> list[str]:
    """Whether the paper's ranking holds, a sentence a data set."""
    lines = []
    for dataset in dict.fromkeys(r.dataset for r in rankings):
        run = [r for r in rankings if r.dataset == dataset and r.verdict != NOT_RUN]
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


def ranking(rankings: Sequence[Ranking], budget: str) -> Table:
    """Per data set, k and epsilon with something to compare: the paper's order, ours, and whether they agree."""
    run = [r for r in rankings if r.verdict != NOT_RUN]
    rows = []
    for r in run:
        overturned = "; ".join(f"{names.strategy(b)} beats {names.strategy(a)}" for a, b in r.overturned)
        place = (names.dataset(r.dataset), str(r.k), names.epsilon(r.epsilon))
        claims = f"{r.holding} of {r.claims}"
        rows.append((*place, _order(r.theirs), _order(r.ours), claims, r.verdict, overturned))
    return Table(
        "ranking",
        "Does the paper's ranking hold? Best strategy first; = where the means are equal.",
        ("data set", "k", "ε", "in the paper", "here", "claims held", "ranking", "overturned"),
        tuple(rows),
        notes=(
            "A claim of the paper is a pair that it puts more than 2 pooled standard deviations apart; it is "
            "overturned where ours are as far apart the other way. Holds: the same order. Holds but for ties: every "
            "claim holds, and only strategies that the paper puts nearer to each other have changed places. Partly: "
            "some claims hold, not all, and none is overturned.",
            f"Of the paper's {names.plural(len(rankings), 'setting')} of k and ε (it prints no values for k = 7), "
            f"{len(run)} with two strategies or more that were run.",
            budget,
        ),
        text_columns=frozenset({0, 3, 4, 6, 7}),
        guarantees=guarantees(r.grids for r in run),
    )


def _order(order: Order) -> str:
    return " > ".join(" = ".join(names.strategy(name) for name in equals) for equals in order)


def full(scores: Sequence[Score], budget: str) -> Table:
    """Every published cell beside ours; `budget` says what its epsilons mean."""
    return Table(
        "scorecard",
        "Every published cell beside ours: hyperparameters, mean ± standard deviation (accuracy in %, mse ×10²), ours "
        "less the paper's (positive where ours is better), the same in pooled standard deviations, verdict.",
        (
            *("data set", "strategy", "k", "ε"),
            *("hyperparameters", "metric", "hyperparameters", "metric", "seeds", "points"),
            *("gain", "in sd", "verdict", "misprint"),
        ),
        tuple(_row(score) for score in scores),
        (("", 4), ("paper", 2), ("here", 4), ("", 4)),
        notes=(
            "Tuned: the cell was used to choose between readings of the paper (docs/fidelity.md), so its agreement is "
            "partly that choice's doing.",
            budget,
        ),
        text_columns=frozenset({0, 1, 4, 6, 8, 12, 13}),
        guarantees=guarantees([score.grid] if score.grid else [] for score in scores),
    )


def _row(score: Score) -> tuple[str, ...]:
    cell, grid = score.cell, score.grid
    theirs = names.point(cell.strategy, dict(cell.hyperparameters)) if cell.hyperparameters else ""
    ours = names.point(cell.strategy, score.point.hyperparameters) if score.point else ""
    diverged = grid is not None and grid.all_diverged
    note = cell.note if STRATEGIES[cell.strategy].private and "starred" not in cell.note else ""
    return (
        *(names.dataset(cell.dataset), names.strategy(cell.strategy), str(cell.k), names.epsilon(cell.epsilon)),
        theirs,
        "diverged" if cell.status == "diverged" else _value(cell.mean, cell.sd),
        ours,
        "diverged" if diverged else _value(score.mean, score.sd),
        score.point.seeds_in_words if score.point else "",
        f"{len(grid.points)}/{grid.planned}" if grid else "",
        names.metric(score.gain),
        "" if score.deviations is None else names.deviations(score.deviations),
        score.verdict + " (tuned)" * (score.tuned and score.verdict != NOT_RUN),
        note,
    )


def _value(mean: float | None, sd: float | None) -> str:
    if mean is None:
        return ""
    return names.metric(mean) + (f" ± {names.metric(sd)}" if sd is not None else "")

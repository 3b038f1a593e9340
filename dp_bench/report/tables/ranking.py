"""Whether the paper's ranking of the strategies holds."""

from collections.abc import Sequence

from dp_bench.report import names
from dp_bench.report.analysis.scorecard import NOT_RUN, Order, Ranking
from dp_bench.report.contents import shown
from dp_bench.report.table import EPSILON, Column, K, Row, Table, by_column


def ranking_lines(rankings: Sequence[Ranking]) -> list[str]:
    """Whether the paper's ranking holds: one sentence per data set."""
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


@shown("Scorecard", 30)
def ranking(rankings: Sequence[Ranking]) -> Table | None:
    """Per data set, k and epsilon with something to compare: the paper's order, ours, and whether they agree."""
    run = [r for r in rankings if r.verdict != NOT_RUN]
    if not run:
        return None
    return Table(
        "ranking",
        "Does the paper's ranking hold? Best strategy first; = where the means are equal.",
        *by_column([_row(r) for r in run]),
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


def _row(r: Ranking) -> Row:
    return {
        **{"data set": names.dataset(r.dataset), K: r.k, EPSILON: r.epsilon},
        **{"in the paper": _order(r.theirs), "here": _order(r.ours)},
        Column("claims held", "number"): f"{r.holding} of {r.claims}",
        Column("ranking", "verdict"): r.verdict,
        "overturned": "; ".join(f"{names.strategy(b)} beats {names.strategy(a)}" for a, b in r.overturned),
    }


def _order(order: Order) -> str:
    return " > ".join(" = ".join(names.strategy(name) for name in equals) for equals in order)

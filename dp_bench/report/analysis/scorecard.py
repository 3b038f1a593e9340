"""The paper's published cells against ours, one by one, and whether its ranking of the strategies holds."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dp_bench.paper import published
from dp_bench.paper.readings import TUNED
from dp_bench.report.analysis.statistics import pooled_sd
from dp_bench.report.load.results import Grid, Key, Point, Results, number
from dp_bench.report.load.sections import Section
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

# As many pooled standard deviations apart still count as the same.
NEAR = 2.0

REPRODUCED, BETTER, WORSE, NOT_RUN = "reproduced", "better", "worse", "not run"
PARTLY_DIVERGED = "partly diverged"
NOT_JUDGED = "not judged"
# Of the cells that publish hyperparameters and no value:
SAME_POINT, AS_GOOD, OTHER_POINT, NOT_SEARCHED = "same point", "as good", "other point", "not searched"
VERDICTS = (
    REPRODUCED,
    BETTER,
    WORSE,
    PARTLY_DIVERGED,
    SAME_POINT,
    AS_GOOD,
    OTHER_POINT,
    NOT_SEARCHED,
    NOT_JUDGED,
    NOT_RUN,
)
OPEN = (NOT_JUDGED, NOT_RUN)  # nothing is said about the paper

EXPLANATIONS = {
    REPRODUCED: "within 2 pooled standard deviations of the published mean, or diverged where the paper's grid did",
    BETTER: "more than 2 pooled standard deviations better, or converged where the paper's grid diverged",
    WORSE: "more than 2 pooled standard deviations worse, or diverged where the paper's grid did not",
    PARTLY_DIVERGED: "reproduced or better by its mean, but seeds of our best point diverged, so it is neither",
    SAME_POINT: "no value is published; our search found the same hyperparameters best",
    AS_GOOD: "no value is published; the published hyperparameters do as well as our best, within 2 pooled sd",
    OTHER_POINT: "no value is published; other hyperparameters do better here, by more than 2 pooled sd",
    NOT_SEARCHED: "no value is published, and our grid lacks points, so its best point means nothing yet",
    NOT_JUDGED: "a reduced protocol or synthetic data: shown beside the published value, comparable with it in no way",
    NOT_RUN: "no run of this grid is done",
}


@dataclass(frozen=True)
class Score:
    """A published cell and ours; metrics in the units of a run, differences positive where ours is better."""

    cell: published.Cell
    grid: Grid | None
    point: Point | None  # the one compared: our best
    mean: float | None
    sd: float | None
    gain: float | None  # ours less the published mean, the sign turned where lower is better
    deviations: float | None  # the same in pooled standard deviations
    verdict: str

    @property
    def tuned(self) -> bool:
        """Whether this cell had a say in how the paper is read here."""
        return key_of_cell(self.cell) in TUNED

    @property
    def shown_verdict(self) -> str:
        """As tables print it: where something is said about the paper, with whether the cell had a say."""
        return self.verdict + " (tuned)" * (self.tuned and self.verdict not in OPEN)


def scorecard(results: Results) -> list[Score]:
    """One score per published cell, in the paper's order."""
    return [_score(cell, results.get(key_of_cell(cell))) for cell in published.cells()]


def section_scores(section: Section) -> list[Score]:
    """The main protocol says what was never run; another one speaks of the data sets it was tried on."""
    scores = scorecard(section.results)
    if not section.slug:
        return scores
    tried = {key.dataset for key in section.results}
    return [score for score in scores if score.cell.dataset in tried]


def key_of_cell(cell: published.Cell) -> Key:
    return Key(cell.dataset, cell.strategy, cell.k, cell.epsilon)


def _score(cell: published.Cell, grid: Grid | None) -> Score:
    if grid is None or not grid.points:
        return Score(cell, grid, None, None, None, None, None, NOT_RUN)
    best = grid.best
    mean, sd = (best.mean(), best.sd()) if best else (None, None)
    if not grid.full_protocol:
        return Score(cell, grid, best, mean, sd, None, None, NOT_JUDGED)
    gain = deviations = None
    if cell.status == "value" and mean is not None and cell.mean is not None:
        gain = _gain(cell.dataset, mean, cell.mean)
        deviations = _in_deviations(gain, pooled_sd(cell.sd, sd))
    verdicts = {"value": _verdict_of_value, "diverged": _verdict_of_divergence, "point": _verdict_of_point}
    verdict = verdicts[cell.status](cell, grid, deviations)
    if best and best.diverged and verdict in (REPRODUCED, BETTER):
        verdict = PARTLY_DIVERGED
    return Score(cell, grid, best, mean, sd, gain, deviations, verdict)


def _verdict_of_value(cell: published.Cell, grid: Grid, deviations: float | None) -> str:
    if deviations is None:
        return WORSE  # every run diverged
    if abs(deviations) <= NEAR:
        return REPRODUCED
    return BETTER if deviations > 0 else WORSE


def _verdict_of_divergence(cell: published.Cell, grid: Grid, deviations: float | None) -> str:
    if not grid.all_diverged:
        return BETTER
    return REPRODUCED if grid.searched else NOT_SEARCHED


def _verdict_of_point(cell: published.Cell, grid: Grid, deviations: float | None) -> str:
    theirs, best = grid.at(dict(cell.hyperparameters)), grid.best
    if not grid.searched or theirs is None:
        return NOT_SEARCHED
    if best is None or not theirs.converged:
        return OTHER_POINT
    if theirs is best:
        return SAME_POINT
    behind = _gain(cell.dataset, number(best.mean()), number(theirs.mean()))
    deviations = _in_deviations(behind, pooled_sd(best.sd(), theirs.sd()))
    return AS_GOOD if deviations is not None and deviations <= NEAR else OTHER_POINT


@dataclass(frozen=True)
class Tally:
    """The scores of a data set and strategy."""

    dataset: str
    strategy: str
    counts: Counter[str]
    median_deviation: float | None
    values: int  # cells with a published value that ours can be compared with

    @property
    def total(self) -> int:
        return self.counts.total()


def tallies(scores: Iterable[Score]) -> list[Tally]:
    """A summary per data set and strategy, in the paper's order."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.cell.dataset, score.cell.strategy), []).append(score)
    order = {name: i for i, name in enumerate([*TASKS, *STRATEGIES])}
    found = []
    for dataset, strategy in sorted(groups, key=lambda pair: (order[pair[0]], order[pair[1]])):
        mine = groups[dataset, strategy]
        deviations = [score.deviations for score in mine if score.deviations is not None]
        middle = statistics.median(deviations) if deviations else None
        found.append(Tally(dataset, strategy, Counter(score.verdict for score in mine), middle, len(deviations)))
    return found


# Strategies, best first; those whose means are equal stand together.
Order = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Ranking:
    """The strategies of one table row of the paper in its order and in ours.

    The paper claims that one strategy is better than another where it puts them more than 2 pooled sd apart. A claim is
    overturned where ours are as far apart the other way, open where they are the other way round but near.
    """

    dataset: str
    k: int
    epsilon: float
    theirs: Order
    ours: Order  # only those that were run
    grids: tuple[Grid, ...]  # of ours
    claims: int  # among the strategies that were run
    holding: int
    overturned: tuple[tuple[str, str], ...]  # (paper's winner, paper's loser)

    @property
    def verdict(self) -> str:
        theirs, ours = _places(self.theirs), _places(self.ours)
        if len(ours) < 2:
            return NOT_RUN
        of_those = "" if ours.keys() == theirs.keys() else " (of those run)"
        if all(ours[a] < ours[b] for a, b in itertools.permutations(ours, 2) if theirs[a] < theirs[b]):
            return f"holds{of_those}"
        if self.holding == self.claims:
            return f"holds but for ties{of_those}"
        return f"{'partly' if self.holding and not self.overturned else 'does not hold'}{of_those}"


def _places(order: Order) -> dict[str, int]:
    return {name: place for place, equals in enumerate(order) for name in equals}


def rankings(scores: Sequence[Score]) -> list[Ranking]:
    """One per data set, k and epsilon for which the paper prints values."""
    rows: dict[tuple[str, int, float], list[Score]] = {}
    for score in scores:
        if score.cell.k in published.ks_with_metrics() and STRATEGIES[score.cell.strategy].private:
            rows.setdefault((score.cell.dataset, score.cell.k, score.cell.epsilon), []).append(score)
    return [_ranking(*place, members) for place, members in rows.items()]


def _ranking(dataset: str, k: int, epsilon: float, members: list[Score]) -> Ranking:
    # (mean, sd) by strategy; a grid that diverged is worse than any that did not.
    worst = -math.inf if TASKS[dataset].higher_is_better else math.inf
    theirs = {s.cell.strategy: (worst if s.cell.mean is None else s.cell.mean, s.cell.sd) for s in members}
    ours = {s.cell.strategy: (worst if s.mean is None else s.mean, s.sd) for s in members if s.verdict not in OPEN}

    def best_first(found: dict[str, tuple[float, float | None]]) -> Order:
        def mean(name: str) -> float:
            return found[name][0]

        ordered = sorted(found, key=mean, reverse=TASKS[dataset].higher_is_better)
        return tuple(tuple(equals) for _, equals in itertools.groupby(ordered, key=mean))

    def apart(found: dict[str, tuple[float, float | None]], winner: str, loser: str) -> float:
        (mean, sd), (other_mean, other_sd) = found[winner], found[loser]
        if mean == other_mean:
            return 0.0
        gain = _gain(dataset, mean, other_mean)
        if math.isinf(gain):  # one of them diverged
            return gain
        deviations = _in_deviations(gain, pooled_sd(sd, other_sd))
        return 0.0 if deviations is None else deviations

    claims = [
        (winner, loser)
        for winner, loser in itertools.combinations(itertools.chain(*best_first(theirs)), 2)
        if winner in ours and loser in ours and apart(theirs, winner, loser) > NEAR
    ]
    return Ranking(
        dataset,
        k,
        epsilon,
        theirs=best_first(theirs),
        ours=best_first(ours),
        grids=tuple(s.grid for s in members if s.grid and s.verdict not in OPEN),
        claims=len(claims),
        holding=sum(_gain(dataset, ours[winner][0], ours[loser][0]) > 0 for winner, loser in claims),
        overturned=tuple((winner, loser) for winner, loser in claims if apart(ours, winner, loser) < -NEAR),
    )


def _gain(dataset: str, value: float, reference: float) -> float:
    """How much better `value` is."""
    return value - reference if TASKS[dataset].higher_is_better else reference - value


def _in_deviations(difference: float, sd: float | None) -> float | None:
    if sd is None:
        return None
    if sd == 0:
        return 0.0 if difference == 0 else math.copysign(math.inf, difference)
    return difference / sd

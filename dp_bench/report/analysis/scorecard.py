"""The paper's published cells against ours, one by one, and whether its ranking of the strategies holds."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dp_bench.paper import published
from dp_bench.paper.readings import TUNED
from dp_bench.report.analysis.statistics import pooled_sd
from dp_bench.report.load.results import Grid, Key, Point, Results, worth
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
VERDICTS = tuple(EXPLANATIONS)  # in the order of tables


@dataclass(frozen=True)
class Score:
    """A published cell and ours; metrics in the units of a run, differences positive where ours is better."""

    cell: published.Cell
    grid: Grid | None
    verdict: str = NOT_RUN
    gain: float | None = None  # ours less the published mean, the sign turned where lower is better
    deviations: float | None = None  # the same in pooled standard deviations

    @property
    def point(self) -> Point | None:
        """The one compared: our best."""
        return self.grid.best if self.grid else None

    @property
    def mean(self) -> float | None:
        return self.point.mean() if self.point else None

    @property
    def sd(self) -> float | None:
        return self.point.sd() if self.point else None

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
        return Score(cell, grid)
    if not grid.full_protocol:
        return Score(cell, grid, NOT_JUDGED)
    best, gain, deviations = grid.best, None, None
    if cell.status == "value" and best:
        gain = worth(cell.dataset, best.mean()) - worth(cell.dataset, cell.mean)
        deviations = _in_deviations(gain, pooled_sd(cell.sd, best.sd()))
    verdict = _verdict(cell, grid, deviations)
    if best and best.diverged and verdict in (REPRODUCED, BETTER):
        verdict = PARTLY_DIVERGED
    return Score(cell, grid, verdict, gain, deviations)


def _verdict(cell: published.Cell, grid: Grid, deviations: float | None) -> str:
    if cell.status == "point":
        return _verdict_of_point(cell, grid)
    if cell.status == "diverged":
        return BETTER if not grid.all_diverged else REPRODUCED if grid.searched else NOT_SEARCHED
    if deviations is None:
        return WORSE  # every run diverged
    return REPRODUCED if abs(deviations) <= NEAR else BETTER if deviations > 0 else WORSE


def _verdict_of_point(cell: published.Cell, grid: Grid) -> str:
    theirs, best = grid.at(dict(cell.hyperparameters)), grid.best
    if not grid.searched or theirs is None:
        return NOT_SEARCHED
    if best is None or not theirs.converged:
        return OTHER_POINT
    if theirs is best:
        return SAME_POINT
    behind = worth(cell.dataset, best.mean()) - worth(cell.dataset, theirs.mean())
    deviations = _in_deviations(behind, pooled_sd(best.sd(), theirs.sd()))
    return AS_GOOD if deviations is not None and deviations <= NEAR else OTHER_POINT


@dataclass(frozen=True)
class Tally:
    """The scores of a data set and strategy."""

    dataset: str
    strategy: str
    counts: Counter[str]
    median_deviation: float | None  # of the cells with a published value that ours can be compared with


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
        found.append(Tally(dataset, strategy, Counter(score.verdict for score in mine), middle))
    return found


# Strategies, best first; those whose means are equal stand together.
Order = tuple[tuple[str, ...], ...]
_Worth = tuple[float, float | None]  # with its standard deviation


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
    return [_ranking(place, members) for place, members in rows.items()]


def _ranking(place: tuple[str, int, float], members: list[Score]) -> Ranking:
    dataset = place[0]
    run = [s for s in members if s.verdict not in OPEN]
    theirs = {s.cell.strategy: (worth(dataset, s.cell.mean), s.cell.sd) for s in members}
    ours = {s.cell.strategy: (worth(dataset, s.mean), s.sd) for s in run}
    claims = [
        (winner, loser)
        for winner, loser in itertools.combinations(itertools.chain(*_best_first(theirs)), 2)
        if winner in ours and loser in ours and _apart(theirs[winner], theirs[loser]) > NEAR
    ]
    return Ranking(
        *place,
        theirs=_best_first(theirs),
        ours=_best_first(ours),
        grids=tuple(s.grid for s in run if s.grid),
        claims=len(claims),
        holding=sum(ours[winner][0] > ours[loser][0] for winner, loser in claims),
        overturned=tuple((winner, loser) for winner, loser in claims if _apart(ours[winner], ours[loser]) < -NEAR),
    )


def _best_first(found: Mapping[str, _Worth]) -> Order:
    ordered = sorted(found, key=lambda name: found[name][0], reverse=True)
    return tuple(tuple(equals) for _, equals in itertools.groupby(ordered, key=lambda name: found[name][0]))


def _apart(first: _Worth, second: _Worth) -> float:
    """How much better the first is, in pooled standard deviations; infinitely so if only the other diverged."""
    gain = first[0] - second[0] if first[0] != second[0] else 0.0
    return gain if math.isinf(gain) else _in_deviations(gain, pooled_sd(first[1], second[1])) or 0.0


def _in_deviations(difference: float, sd: float | None) -> float | None:
    if sd is None:
        return None
    if sd == 0:
        return 0.0 if difference == 0 else math.copysign(math.inf, difference)
    return difference / sd

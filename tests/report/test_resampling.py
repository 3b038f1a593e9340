"""The expected winner of a pool, against simulated searches, and the table that shows it."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from running import a_result, smoke

from dp_bench.experiment.selected import SelectedGrid
from dp_bench.experiment.store import RunFolder
from dp_bench.privacy.selection import DISTRIBUTIONS, Trials
from dp_bench.report.analysis.resampling import PoolRun, resampled, winning
from dp_bench.report.build import build
from dp_bench.report.load.collect import collect
from dp_bench.report.load.sections import sections
from dp_bench.report.tables.store_totals import total_table

SEARCHES = 10_000


def a_pool(higher_is_better: bool) -> list[PoolRun]:
    """Six candidates of one to three seeds, with ties, divergence and a run without a value."""
    values = [[0.3, 0.5], [0.5, 0.6, 0.7], [0.9], [0.2, math.nan], [0.8, 0.65], [0.55]]
    sign = 1 if higher_is_better else -1
    return [
        PoolRun(f"p{i}", sign * value, value == 0.8 or math.isnan(value), 1 / (6 * len(seeds)))
        for i, seeds in enumerate(values)
        for value in seeds
    ]


def simulated(pool: list[PoolRun], trials: Trials, higher: bool, dice: np.random.Generator) -> list[PoolRun | None]:
    numbers, chances = zip(*((k, float(p)) for k, p in itertools.islice(trials.probabilities(), 2000)), strict=True)
    drawn = dice.choice(numbers, size=SEARCHES, p=np.array(chances) / sum(chances))
    weights = np.array([run.weight for run in pool])
    good = [
        (not run.diverged, (run.value if higher else -run.value) if math.isfinite(run.value) else -math.inf)
        for run in pool
    ]
    order = {value: place for place, value in enumerate(sorted(set(good)))}
    scores = np.array([order[value] for value in good])
    found: list[PoolRun | None] = []
    for k in drawn:
        tried = dice.choice(len(pool), size=k, p=weights / weights.sum())
        found.append(pool[tried[np.argmax(scores[tried])]] if k else None)
    return found


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_exact_winner_is_that_of_simulated_searches(distribution: str, higher: bool) -> None:
    pool, trials = a_pool(higher), Trials(distribution, 3)
    exact = resampled(pool, trials, "p2", higher)
    found = simulated(pool, trials, higher, np.random.default_rng(7))
    values = [run.value for run in found if run is not None and math.isfinite(run.value)]
    assert exact.mean == pytest.approx(np.mean(values), abs=4 * np.std(values) / math.sqrt(len(values)))
    share = sum(run is not None and run.point == "p2" for run in found) / SEARCHES
    assert exact.best_wins == pytest.approx(share, abs=4 * math.sqrt(share / SEARCHES))
    nothing = 1 - len(values) / SEARCHES
    assert exact.nothing == pytest.approx(nothing, abs=4 * math.sqrt((nothing + 1e-4) / SEARCHES))
    for end, probability in zip(exact.interval, (0.025, 0.975), strict=True):
        error = 4 * math.sqrt(probability * (1 - probability) / len(values))
        assert np.mean(np.array(values) < end) - error <= probability <= np.mean(np.array(values) <= end) + error


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_chances_add_up_and_the_best_of_all_wins_as_often_as_it_is_tried(distribution: str) -> None:
    pool = [PoolRun(f"p{i}", i / 10, False, 1 / 9) for i in range(9)]
    trials = Trials(distribution, 9)
    chances = winning(pool, trials, True)
    assert math.fsum(chances) == pytest.approx(1 - trials.generating(0.0))
    assert chances[8] == pytest.approx(trials.chance_of(9))
    assert all(low < high for low, high in itertools.pairwise(chances))


POOL = ["grid.k=3", "privacy.allocator=selection", "privacy.selection.pool=true", "seeds=[0,1]"]


@pytest.mark.usefixtures("without_data")
@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_report_shows_the_expected_winner_of_a_pool(tmp_path: Path) -> None:
    first = smoke("fixed_threshold", *POOL, "strategy.lr=0.316", "strategy.clip=1")[0]
    allocation = first.allocation
    assert allocation is not None
    assert allocation.pool
    assert "privacy.selection.pool=True" in first.variant
    alone = smoke("fixed_threshold", *POOL[:2], "seed=secure", "seeds=[0]", "strategy.lr=0.316", "strategy.clip=1")[0]
    assert alone.allocation is not None
    assert allocation.noise_multiplier == alone.allocation.noise_multiplier
    for place, spec in enumerate(SelectedGrid(tmp_path, first).candidates):
        for seed in (0, 1):
            folder = RunFolder(tmp_path, replace(spec, seed=seed))
            folder.write_spec()
            value = 0.1 + place / 20 + seed / 100
            folder.finish(a_result(spec, "finished", value))
    collection = collect(tmp_path, "smoke")
    (section,) = sections(collection.runs)
    assert not section.composed
    (chapter,) = build(collection, None, ()).chapters
    (table,) = (table for table in chapter.tables() if table.name == "pool_ag_news")
    (row,) = table.rows
    cells = dict(zip(table.headings, row, strict=True))
    assert cells["E[K]"] == "9"
    assert cells["best is tried"] == pytest.approx(Trials("logarithmic", 9).chance_of(9))
    assert 10 < row[6] < 51
    assert cells["best wins"] == pytest.approx(cells["best is tried"])
    assert "never released together" in table.notes[0]
    assert "NOT PRIVATE" in table.guarantees[0]
    assert total_table(collection) is None  # no grid here is private

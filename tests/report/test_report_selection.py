"""The winner of a selection has a chapter of its own, labelled with what may be released, and is never judged."""

from dataclasses import replace
from pathlib import Path

import pytest
from running import keep, smoke

from dp_bench.privacy.selection import Trials
from dp_bench.report.build import build
from dp_bench.report.load.collect import collect
from dp_bench.report.load.sections import sections

pytestmark = pytest.mark.usefixtures("without_data")

GRID = ["grid.k=3", "strategy.lr=0.316", "strategy.clip=1"]
SELECTION = [*GRID, "privacy.allocator=selection", "seed=secure", "seeds=[0]"]


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_winner_is_shown_and_not_judged(tmp_path: Path) -> None:
    keep(tmp_path, smoke("fixed_threshold", *GRID)[0], 0.5)
    keep(tmp_path, smoke("fixed_threshold", *SELECTION)[0], 0.6)
    collection = collect(tmp_path, "smoke")
    main, other = sections(collection.runs)
    assert (main.composed, other.composed) == (True, False)
    (grid,) = other.results.values()
    assert grid.searched  # the winner is all there is to find
    chapters = build(collection, None, ()).chapters
    assert "Scorecard" not in {part.title for part in chapters[1].parts}
    (headline,) = chapters[1].headline
    assert "Searched by selection" in headline
    assert "the winner is all that may be released" in headline
    (table,) = (table for table in chapters[1].tables() if table.name == "selection_ag_news")
    (row,) = table.rows
    assert "the winner only" in row
    assert any("logarithmic" in str(cell) for cell in row)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_another_number_of_trials_is_not_believed(tmp_path: Path) -> None:
    """It would ask for less noise."""
    spec = smoke("fixed_threshold", *SELECTION)[0]
    assert spec.allocation is not None
    keep(tmp_path, spec, 0.5)
    keep(tmp_path, replace(spec, seed=1, allocation=replace(spec.allocation, trials=Trials("logarithmic", 2))), 0.5)
    found = collect(tmp_path, "smoke")
    assert [run.spec.seed for run in found.runs] == [0]
    assert "allocation.trials" in found.skipped[0].reason

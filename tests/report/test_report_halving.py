"""Halved grids have a chapter of their own, with their schedule, and are never judged by the paper's values."""

from dataclasses import replace
from pathlib import Path

import pytest
from report_helpers import synthetic_spec, write_run
from running import keep, smoke

from dp_bench.experiment.halving import HalvedGrid
from dp_bench.report.build import build
from dp_bench.report.load.collect import collect
from dp_bench.report.load.sections import sections

pytestmark = pytest.mark.usefixtures("without_data")

GRID = ["grid.k=3", "strategy.lr=0.316", "strategy.clip=1"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A point of a grid by composition, and a whole one by halving, whose best is better."""
    keep(tmp_path, smoke("fixed_threshold", *GRID)[0], 0.5)
    halved = HalvedGrid(tmp_path, smoke("fixed_threshold", *GRID, "privacy.allocator=halving")[0])
    for place, folders in enumerate(halved.folders.values()):
        for folder in folders:
            continues = place >= 6
            keep(
                tmp_path, folder.spec, 0.1 + place / 100, "finished" if continues else "stopped", 0 if continues else 2
            )
    return tmp_path


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_halved_grids_are_never_mixed_with_composed_ones(store: Path) -> None:
    main, other = sections(collect(store, "smoke").runs)
    assert (main.slug, main.composed, other.composed) == ("", True, False)
    assert "privacy.allocator=halving" in other.slug
    assert {run.spec.privacy.allocator for run in main.runs if run.spec.privacy} == {"composition"}
    assert {run.spec.privacy.allocator for run in other.runs if run.spec.privacy} == {"halving"}
    (grid,) = other.results.values()
    assert grid.best is not None
    assert grid.best.mean() == pytest.approx(0.18)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_store_of_halved_grids_alone_is_not_judged_either(store: Path) -> None:
    halved = [run for run in collect(store, "smoke").runs if run.spec.ranked_seeds]
    (only,) = sections(halved)
    assert (only.slug, only.composed) == ("", False)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_synthetic_halved_grids_stand_beside_real_composed_ones(store: Path) -> None:
    halved = [run for run in collect(store, "smoke").runs if run.spec.ranked_seeds]
    assert all(run.spec.source.synthetic for run in halved)
    write_run(store / "real", synthetic_spec(profile="smoke", lr=0.316), [0.1, 0.9])
    (real,) = collect(store / "real", "smoke").runs
    main, other = sections([*halved, real])
    assert (main.variants, main.runs, other.composed) == ({"mnist": "default"}, (real,), False)


@pytest.mark.slow(reason="calibrates every allocator for the figure")
def test_the_report_lists_their_schedule(store: Path) -> None:
    main, other = build(collect(store, "smoke"), None, ()).chapters
    assert {part.title for part in main.parts} - {part.title for part in other.parts} == {"Scorecard"}
    assert "never compared with the published values" in other.headline[0]
    (privacy,) = (part for part in other.parts if part.title == "Privacy")
    items = {item.name: item for item in privacy.items}
    (row,) = items["halving_ag_news"].rows
    assert "9 to 2, 3 to 6" in row
    assert "12 of 18" in row
    (figure,) = (item for part in main.parts for item in part.items if item.name == "allocators_ag_news")
    (panel,) = figure.panels
    prices = {series.label: series.y for series in panel.series}
    assert all(halved < composed for halved, composed in zip(prices["halving"], prices["composition"], strict=True))
    assert prices.keys() > {"selection, logarithmic", "selection, geometric", "selection, poisson"}
    assert "allocators_ag_news" not in items


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_schedule_of_fewer_steps_is_not_believed(tmp_path: Path) -> None:
    """It would ask for less noise than what was trained."""
    spec = smoke("fixed_threshold", *GRID, "privacy.allocator=halving")[0]
    assert spec.allocation is not None
    assert spec.privacy is not None
    keep(tmp_path, replace(spec, seed=1), 0.5)
    claimed = replace(spec, privacy=replace(spec.privacy, allocator="composition"), ranked_seeds=())
    keep(tmp_path, claimed, 0.5)
    found = collect(tmp_path, "smoke")
    assert [run.spec.seed for run in found.runs] == [1]
    assert [skipped.reason for skipped in found.skipped if "allocation.rungs" in skipped.reason]

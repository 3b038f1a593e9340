"""The sound protocol and the paper's probable one, and Online's ablations, on synthetic results."""

from pathlib import Path

import pytest
from report_helpers import synthetic_spec, write_run

from dp_bench.paper.readings import FROZEN, FROZEN_RATE, PROBABLE, SOUND
from dp_bench.report import names
from dp_bench.report.analysis.scorecard import BETTER, NOT_RUN, REPRODUCED
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import Key
from dp_bench.report.load.sections import reading, results_of
from dp_bench.report.tables.ablations import CONTENDERS, ablations_table
from dp_bench.report.tables.protocols import pairs, protocols_table

WOR = "privacy.accountant=rdp_wor"


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("default", SOUND),
        ("data=subset", SOUND),
        (f"dataset.emulate_size=120000,{WOR},data=subset", PROBABLE),
        ("strategy.clip_lr=0,strategy.lr_lr=0", FROZEN),
        ("dataset.words=15,data=subset", {"dataset.words=15"}),
    ],
)
def test_a_reading_is_a_variant_without_its_data(variant: str, expected: frozenset[str]) -> None:
    assert reading(variant) == expected


def test_a_heading_names_a_protocol_in_words() -> None:
    variant = f"dataset.emulate_size=120000,{WOR},strategy.count_noise=0.02,data=subset"
    expected = "emulated at 120,000 examples, accountant rdp_wor, count noise 0.02, a subset of the data"
    assert names.protocol(variant) == expected
    assert names.protocol("default") == "default"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Published: 91.19 +- 0.51. The sound protocol is far better, the probable one within 2 sd."""
    for seed, shift in enumerate((-0.003, 0.003)):
        write_run(tmp_path, synthetic_spec(seed=seed, lr=0.3162), [0.1, 0.95 + shift])
        spec = synthetic_spec(seed=seed, lr=0.3162, variant=WOR, accountant="rdp_wor")
        write_run(tmp_path, spec, [0.1, 0.913 + shift])
    return tmp_path


def test_both_protocols_stand_side_by_side(store: Path) -> None:
    found = pairs(collect(store, "paper"))
    assert len(found) == 94
    verdicts = {(s.cell.dataset, s.cell.strategy, s.cell.k, s.cell.epsilon): (s.verdict, p.verdict) for s, p in found}
    assert verdicts.pop(("mnist", "online", 5, 3.0)) == (BETTER, REPRODUCED)
    assert set(verdicts.values()) == {(NOT_RUN, NOT_RUN)}


def test_the_table_says_which_is_not_private(store: Path) -> None:
    table = protocols_table(collect(store, "paper"))
    assert table is not None
    row = [cell for cell in table.cells if cell[0:4] == ("MNIST", "Online", "5", "3")]
    assert [cell[4:6] for cell in row] == [("91.19 ± 0.51", "95.00 ± 0.42")]
    assert "not private" in dict.fromkeys(text for text, _ in table.groups if "probable" in text).popitem()[0]
    (mine,) = [g for cells, g in zip(table.cells, table.guarantees, strict=True) if cells in row]
    assert "NOT PRIVATE, rdp_wor" in mine
    assert any("1 of 32 values run under both: sound 0 reproduced, 1 better" in note for note in table.notes)


def test_without_the_probable_protocol_there_is_no_table(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    assert protocols_table(collect(tmp_path, "paper")) is None


def test_emulated_runs_are_preferred_where_only_a_part_of_the_data_is_here(tmp_path: Path) -> None:
    emulated = "dataset.emulate_size=120000,data=subset"
    for variant, value in (("data=subset", 0.8), (emulated, 0.85)):
        spec = synthetic_spec("ag_news", "online", 5, 3.0, variant=variant, kind="subset", lr=0.03162)
        write_run(tmp_path, spec, [0.25, value])
    grid = results_of(collect(tmp_path, "paper").runs, SOUND)[Key("ag_news", "online", 5, 3.0)]
    assert grid.spec.variant == emulated


def test_ablations_stand_beside_online(tmp_path: Path) -> None:
    for variant, value in (("default", 0.9), ("strategy.lr_lr=0", 0.88), ("strategy.clip_lr=0,strategy.lr_lr=0", 0.87)):
        write_run(tmp_path, synthetic_spec(variant=variant, lr=0.3162), [0.1, value])
    write_run(tmp_path, synthetic_spec("mnist", "auto_s", lr=0.3162), [0.1, 0.91])
    write_run(tmp_path, synthetic_spec("mnist", "online", epsilon=5.0, lr=0.3162), [0.1, 0.92])
    table = ablations_table(collect(tmp_path, "paper"))
    assert table is not None
    headings = [contender.heading for contender in CONTENDERS]
    (row,) = [dict(zip(headings, cells[3:], strict=True)) for cells in table.cells]  # epsilon 5 has no ablation
    assert row == {
        "Online": "90.00",
        "threshold frozen": "",
        "rate frozen": "88.00",
        "both frozen": "87.00",
        "FixedLine": "",
        "AUTO-S": "91.00",
        "FixedThreshold": "",
    }
    assert FROZEN_RATE < FROZEN

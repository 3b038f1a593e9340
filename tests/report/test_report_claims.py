"""The paper's conclusions against its own tables and against runs."""

import itertools
from pathlib import Path
from typing import NamedTuple

import pytest
from report_helpers import synthetic_spec, write_run

from dp_bench.paper import published
from dp_bench.paper.claims import RELATIONS, claims
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import Key
from dp_bench.report.tables.claims import (
    FAILS,
    HOLDS,
    NOT_RUN,
    PARTLY,
    claim_holds,
    claims_table,
    comparisons,
    verdict,
)


class Value(NamedTuple):
    """All that a comparison reads of a cell."""

    mean: float | None
    sd: float | None


DIVERGED = Value(None, None)
ONLINE, ADAM = {"lr": 0.3162}, {"clip": 10.0}


@pytest.mark.parametrize(
    ("relation", "dataset", "first", "second", "expected"),
    [
        ("not worse", "mnist", Value(0.90, 0.01), Value(0.91, 0.01), True),  # 1 sd behind
        ("not worse", "mnist", Value(0.90, 0.01), Value(0.93, 0.01), False),  # 3 sd behind
        ("not worse", "mnist", Value(0.93, 0.01), Value(0.90, 0.01), True),
        ("not worse", "fashion_mnist", Value(0.93, 0.01), Value(0.90, 0.01), False),  # an error: less is better
        ("not worse", "mnist", Value(0.90, None), Value(0.9001, None), False),  # one seed each: nothing is near
        ("alike", "mnist", Value(0.93, 0.01), Value(0.90, 0.01), False),
        ("alike", "mnist", Value(0.91, 0.01), Value(0.90, None), True),
        ("ahead", "mnist", Value(0.9001, 0.01), Value(0.90, 0.01), True),
        ("ahead", "mnist", Value(0.90, 0.01), Value(0.90, 0.01), False),
        ("ahead", "fashion_mnist", Value(0.02, 0.01), DIVERGED, True),
        ("ahead", "mnist", DIVERGED, DIVERGED, False),
        ("not worse", "mnist", DIVERGED, DIVERGED, True),
        ("alike", "mnist", DIVERGED, Value(0.1, 0.01), False),
        ("diverges", "mnist", DIVERGED, DIVERGED, True),
        ("diverges", "mnist", Value(0.1, None), Value(0.1, None), False),
    ],
)
def test_a_relation(relation: str, dataset: str, first: Value, second: Value, expected: bool) -> None:
    assert claim_holds(relation, dataset, first, second) is expected


def test_verdicts() -> None:
    assert [verdict(held) for held in ([], [True], [True, False], [False])] == [NOT_RUN, HOLDS, PARTLY, FAILS]


def test_every_claim_is_about_published_cells() -> None:
    published_at: dict[tuple[str, str], set[float]] = {}
    for cell in published.cells():
        published_at.setdefault((cell.dataset, cell.strategy), set()).add(cell.epsilon)
    for claim in claims():
        assert claim.relation in RELATIONS
        for place in itertools.product(claim.datasets, claim.strategies):
            assert published_at[place] >= set(claim.epsilons)


def test_the_papers_tables_bear_its_conclusions_out_but_for_four_comparisons() -> None:
    theirs = {
        Key(cell.dataset, cell.strategy, cell.k, cell.epsilon): cell
        for cell in published.cells()
        if cell.status != "point"
    }
    counts = {}
    for claim in claims():
        held = [one for one, _ in comparisons(claim, theirs)]
        counts[claim.words] = (sum(held), len(held))
    assert counts.pop("Online does as well as the others or better, at equal privacy") == (70, 72)
    assert counts.pop("FixedQuantile comes second from ε = 2 on") == (17, 18)
    assert counts.pop("Online and AdamWOSM cannot be told apart") == (6, 8)
    assert all(held == number > 0 for held, number in counts.values())


def test_a_claim_is_counted_in_the_runs_that_are_there(tmp_path: Path) -> None:
    for seed, shift in enumerate((-0.001, 0.001)):
        write_run(tmp_path, synthetic_spec(seed=seed, **ONLINE), [0.1, 0.91 + shift])
        write_run(tmp_path, synthetic_spec(strategy="adam_wosm", seed=seed, **ADAM), [0.1, 0.92 + shift])
        write_run(tmp_path, synthetic_spec(epsilon=9.0, seed=seed, **ONLINE), [0.1, 0.94 + shift])
        write_run(tmp_path, synthetic_spec(strategy="adam_wosm", epsilon=9.0, seed=seed, **ADAM), [0.1, 0.93 + shift])
    table = claims_table(collect(tmp_path, "paper"))
    assert table is not None
    rows = {cells[0]: cells for cells in table.cells}
    everywhere = "MNIST, Fashion MNIST, AG News: Online does as well as the others or better, at equal privacy"
    assert rows[everywhere][2:7] == ("70 of 72", "1 of 2", PARTLY, "", NOT_RUN)
    assert rows["MNIST: Online and AdamWOSM do about equally well"][3:5] == ("0 of 2", FAILS)
    relaxed = rows["MNIST: Online is ahead of AdamWOSM at large ε"]
    assert relaxed[3:5] == ("1 of 1", HOLDS)
    assert relaxed[-1].endswith("dataset=mnist strategy=online,adam_wosm grid.k=5,9 privacy.epsilon=7,9")
    assert rows["Fashion MNIST: no point of FixedQuantile converges at ε = 1"][3:5] == ("", NOT_RUN)


def test_a_divergence_counts_only_where_the_whole_grid_was_tried(tmp_path: Path) -> None:
    point = {"lr": 0.3162, "quantile": 0.3}
    spec = synthetic_spec("fashion_mnist", "fixed_quantile", 5, 1.0, **point)
    write_run(tmp_path, spec, [0.1, float("nan")], diverged="the test metric is not finite")
    write_run(tmp_path, synthetic_spec(**ONLINE), [0.1, 0.9])
    table = claims_table(collect(tmp_path, "paper"))
    assert table is not None
    (row,) = [cells for cells in table.cells if "converges" in cells[0]]
    assert row[3:5] == ("", NOT_RUN)


def test_without_a_judged_run_there_is_no_table(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec(strategy="no_dp", epsilon=float("inf"), lr=0.003162), [0.1, 0.9])
    assert claims_table(collect(tmp_path, "paper")) is None

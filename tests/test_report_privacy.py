"""The privacy page: what it says of a grid is what the accountants say, and nothing passes for private that is not."""

import csv
import io
import math
from pathlib import Path

import pytest
from report_helpers import made_up_spec, write_run

from dp_bench.accounting import Sampling, epsilon
from dp_bench.budget import seeds_charged, under
from dp_bench.report import privacy
from dp_bench.report.build import build
from dp_bench.report.collect import collect
from dp_bench.report.command import make_report
from dp_bench.report.results import Results, sections
from dp_bench.report.table import comma_separated


def results_of(root: Path) -> Results:
    return sections(collect(root, "paper").runs)[0].results


def test_the_ledger_says_what_the_accountants_say(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path, made_up_spec(seed=seed, lr=0.3162, calibrated=True), [0.1, 0.9])
    results = results_of(tmp_path)
    (account,) = privacy.accounts(results)
    allocation = account.allocation
    assert allocation.epsilon_grid == pytest.approx(3, abs=1e-3)
    assert epsilon("rdp", allocation.noise_multiplier, Sampling(512, 60_000), 5 * 1172, 1e-5) == allocation.epsilon_grid
    assert account.seeds == seeds_charged(allocation, 2)
    assert account.split["direction"] == pytest.approx(7.124 * allocation.noise_multiplier, rel=1e-4)
    assert account.opinions["pld"] is None  # takes long, not asked for
    table = privacy.ledger([account], "mnist")
    assert "--accountants pld,prv" in table.notes[0]
    assert table.groups == (("", 8), ("RDP", 2), ("", 2))
    assert table.rows == (
        (
            *("Online", "5", "3", "5", "1,172", "1.2070", "gradient 1.219, direction 8.599", "rdp"),
            *("1.311", "3.000", f"{account.seeds:.3f} for 2", "1 of 5"),
        ),
    )


def test_slow_accountants_are_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, made_up_spec(lr=0.3162), [0.1, 0.9])
    results = results_of(tmp_path)
    calls = []

    def counted(allocation: privacy.Allocation, accountant: str) -> privacy.Spent:
        calls.append(accountant)
        return under(allocation, "rdp")

    monkeypatch.setattr(privacy, "under", counted)
    (account,) = privacy.accounts(results, ["pld"])
    assert account.opinions["pld"] is not None
    (again,) = privacy.accounts(results)
    assert again.opinions["pld"] == account.opinions["pld"]
    assert again.opinions["prv"] is None
    assert calls == ["pld"]


def test_what_to_be_wary_of(tmp_path: Path) -> None:
    write_run(tmp_path, made_up_spec("ag_news", lr=0.3162), [0.25, 0.8])
    results = results_of(tmp_path)
    warnings = privacy.warnings(results, privacy.accounts(results))
    assert any("1/N" in text for text in warnings)
    assert any("seed=secure" in text for text in warnings)
    assert any("1 of 1 grid lacks runs, 1 of them whole points" in text for text in warnings)


def test_not_private_is_said_everywhere(tmp_path: Path) -> None:
    for strategy, point in (("online", {"lr": 0.3162}), ("adam_wosm", {"clip": 1.0})):
        for seed in range(2):
            spec = made_up_spec(
                strategy=strategy, seed=seed, accountant="rdp_wor", variant="privacy.accountant=rdp_wor", **point
            )
            write_run(tmp_path, spec, [0.1, 0.9])
    report = build(collect(tmp_path, "paper"), None, [])
    (chapter,) = report.chapters
    assert any("NOT PRIVATE" in text for text in chapter.banners)
    with_epsilon = [table for table in chapter.tables() if "ε" in str((table.columns, table.rows))]
    assert {"best_mnist_k5", "scorecard", "ranking", "commands", "completeness"} <= {t.name for t in with_epsilon}
    for table in with_epsilon:
        assert "not private" in " ".join([table.caption, *table.notes, *map(str, table.groups)]).lower(), table.name
        # A CSV may be passed on alone: each of its rows says it.
        for row in csv.DictReader(io.StringIO(comma_separated(table))):
            assert row["guarantee"] == "not run" or "NOT PRIVATE: counted by rdp_wor" in row["guarantee"], table.name
    (best,) = (table for table in with_epsilon if table.name.startswith("best_"))
    assert all("NOT PRIVATE" in words for words in best.guarantees)
    for chart in chapter.charts():
        assert "not private" in chart.caption.lower(), chart.name
        assert all("not private" in panel.title for panel in chart.panels), chart.name


def test_a_file_of_runs_says_what_their_epsilons_mean(tmp_path: Path) -> None:
    write_run(tmp_path, made_up_spec(lr=0.3162), [0.1, 0.9])
    write_run(tmp_path, made_up_spec(lr=0.3162, accountant="rdp_wor", variant="privacy.accountant=rdp_wor"), [0.1, 0.9])
    write_run(tmp_path, made_up_spec("mnist", "no_dp", 5, math.inf, lr=0.003162), [0.1, 0.98])
    make_report(tmp_path, "paper", tmp_path / "out")
    with (tmp_path / "out/paper/data/runs.csv").open(newline="", encoding="ascii") as file:
        said = {(row["variant"], row["strategy"]): row["guarantee"] for row in csv.DictReader(file)}
    held = "epsilon is spent by the whole grid, at delta = 1e-05; seeds are not charged."
    assert said == {
        ("default", "online"): held,
        ("privacy.accountant=rdp_wor", "online"): f"{held} NOT PRIVATE: counted by rdp_wor, which proves no guarantee; "
        "for comparison with the paper only.",
        ("default", "no_dp"): "Nothing here is private.",
    }


def test_no_epsilon_without_its_meaning(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path, made_up_spec(seed=seed, lr=0.3162), [0.1, 0.9])
    (chapter,) = build(collect(tmp_path, "paper"), None, []).chapters
    for item in [*chapter.tables(), *chapter.charts()]:
        columns = item.columns if hasattr(item, "rows") else ("ε",)
        words = " ".join([item.caption, *getattr(item, "notes", ())])
        if any("ε" in column for column in columns):
            assert "grid" in words, item.name
            assert "seeds are" in words, item.name

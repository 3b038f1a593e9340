"""The privacy page: what it says of a grid is what the accountants say, and nothing passes for private that is not."""

import csv
import hashlib
import io
import json
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_helpers import PROVENANCE, synthetic_spec, write_run

from dp_bench.experiment.spec import comparable
from dp_bench.files.checksummed import json_digest, read_checksummed, write_checksummed
from dp_bench.privacy import calibration
from dp_bench.privacy.accountants import ACCOUNTANTS, Sampling
from dp_bench.privacy.accounting import epsilon, rounded_up
from dp_bench.privacy.calibration import seeds_charged, total
from dp_bench.report.analysis.accounts import accounts
from dp_bench.report.build import build
from dp_bench.report.commands.report import make_report
from dp_bench.report.epsilon_notes import budget_words, float32_excess
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import Results
from dp_bench.report.load.sections import sections
from dp_bench.report.render.markdown import comma_separated
from dp_bench.report.tables import privacy
from dp_bench.report.tables.commands import commands_table

MNIST = Sampling(512, 60_000)


def results_of(root: Path) -> Results:
    return sections(collect(root, "paper").runs)[0].results


def test_the_ledger_says_what_the_accountants_say(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path, synthetic_spec(seed=seed, lr=0.3162), [0.1, 0.9])
    results = results_of(tmp_path)
    (account,) = accounts(results)
    allocation = account.allocation
    assert allocation.epsilon_grid == pytest.approx(3, abs=1e-3)
    assert epsilon("rdp", allocation.noise_multiplier, Sampling(512, 60_000), 5 * 1172, 1e-5) == allocation.epsilon_grid
    assert account.seeds == seeds_charged(allocation, 2)
    assert account.split["direction"] == pytest.approx(7.124 * allocation.noise_multiplier, rel=1e-4)
    assert account.opinions["pld"] is None  # takes long, not asked for
    table = privacy.ledger([account], "mnist")
    assert "--accountants pld,prv" in table.notes[0]
    assert table.groups == (("", 8), ("RDP", 2), ("", 2))
    assert table.cells == (
        (
            *("Online", "5", "3", "5", "1,172", "1.2070", "gradient 1.219, direction 8.599", "rdp"),
            *("1.312", "3.000", f"{rounded_up(account.seeds)} for 2", "1 of 5"),
        ),
    )


def test_slow_accountants_are_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    results = results_of(tmp_path)
    calls = counted_as_rdp(monkeypatch)
    (account,) = accounts(results, ["pld"])
    assert account.opinions["pld"] is not None
    (again,) = accounts(results)
    assert again.opinions["pld"] == account.opinions["pld"]
    assert again.opinions["prv"] is None
    assert calls == ["pld"] * 2  # of the grid, of one run


def counted_as_rdp(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The slow accountants that were asked; RDP, which takes milliseconds, answers for them."""
    calls = []

    def counted(accountant: str, *question: Any) -> float:
        if not ACCOUNTANTS[accountant].quick:
            calls.append(accountant)
        return epsilon("rdp", *question)

    monkeypatch.setattr(calibration, "epsilon", counted)
    return calls


def test_what_to_be_wary_of(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec("ag_news", lr=0.3162), [0.25, 0.8])
    results = results_of(tmp_path)
    warnings = privacy.warnings(results, accounts(results))
    assert any("1/N" in text for text in warnings)
    assert any("seed=secure" in text for text in warnings)
    assert any("1 of 1 grid lacks runs, 1 of them whole points" in text for text in warnings)


def test_not_private_is_said_everywhere(tmp_path: Path) -> None:
    for strategy, point in (("online", {"lr": 0.3162}), ("adam_wosm", {"clip": 1.0})):
        for seed in range(2):
            spec = synthetic_spec(
                strategy=strategy, seed=seed, accountant="rdp_wor", variant="privacy.accountant=rdp_wor", **point
            )
            write_run(tmp_path, spec, [0.1, 0.9])
    report = build(collect(tmp_path, "paper"), None, [])
    (chapter,) = report.chapters
    assert any("NOT PRIVATE" in text for text in chapter.banners)
    with_epsilon = [table for table in chapter.tables() if "ε" in str((table.headings, table.cells))]
    assert {"best_mnist_k5", "scorecard", "ranking", "commands", "completeness"} <= {t.name for t in with_epsilon}
    for table in with_epsilon:
        assert "not private" in " ".join([table.caption, *table.footnotes, *map(str, table.groups)]).lower(), table.name
        # A CSV may be passed on alone: each of its rows says it.
        for row in csv.DictReader(io.StringIO(comma_separated(table))):
            assert (
                row["guarantee"] == "not run" or "NOT PRIVATE, rdp_wor: epsilon is not a guarantee" in row["guarantee"]
            ), table.name
    (best,) = (table for table in with_epsilon if table.name.startswith("best_"))
    assert all("NOT PRIVATE" in words for words in best.guarantees)
    for chart in chapter.charts():
        assert "not private" in chart.text.lower(), chart.name
        assert all("not private" in panel.title for panel in chart.panels), chart.name


@pytest.mark.slow(reason="writes a whole report")
def test_a_file_of_runs_says_what_their_epsilons_mean(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    write_run(
        tmp_path, synthetic_spec(lr=0.3162, accountant="rdp_wor", variant="privacy.accountant=rdp_wor"), [0.1, 0.9]
    )
    write_run(tmp_path, synthetic_spec("mnist", "no_dp", 5, math.inf, lr=0.003162), [0.1, 0.98])
    make_report(tmp_path, "paper", tmp_path / "out")
    with (tmp_path / "out/paper/data/runs.csv").open(newline="", encoding="ascii") as file:
        said = {(row["variant"], row["strategy"]): row["guarantee"] for row in csv.DictReader(file)}
    held = "epsilon is spent by the whole grid, at delta = 1e-05; seeds are not charged."
    assert said == {
        ("default", "online"): held,
        ("privacy.accountant=rdp_wor", "online"): f"{held} NOT PRIVATE, rdp_wor: epsilon is not a guarantee; "
        "for comparison with the paper only.",
        ("default", "no_dp"): "Nothing here is private.",
    }


def test_no_epsilon_without_its_meaning(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path, synthetic_spec(seed=seed, lr=0.3162), [0.1, 0.9])
    (chapter,) = build(collect(tmp_path, "paper"), None, []).chapters
    for item in [*chapter.tables(), *chapter.charts()]:
        columns = item.headings if hasattr(item, "rows") else ("ε",)
        words = " ".join([item.caption, *item.footnotes]) if hasattr(item, "rows") else item.text
        if any("ε" in column for column in columns):
            assert "grid" in words, item.name
            assert "seeds are" in words, item.name


# What a stored run claims


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A file of a run as somebody would leave it who knows about its checksum."""
    content = read_checksummed(path)
    change(content)
    write_checksummed(path, content)


def forged(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A spec, and a result that belongs to it."""
    edited(folder / "spec.json", lambda content: change(content["protocol"]))
    protocol = comparable(read_checksummed(folder / "spec.json")["protocol"])
    digest = hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()
    edited(folder / "result.json", lambda content: content.update(digest=digest))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda p: p["allocation"].update(noise_multiplier=0.3), "got 0.3, which spends"),
        (lambda p: p["allocation"].update(noise_multiplier=0.01), "got 0.01, which spends inf"),
        (lambda p: p["allocation"].update(noise_multiplier=0.0), "expected a positive number, got 0.0"),
        (lambda p: p["allocation"].update(epsilon_run=0.5), "spends epsilon 0.5 per run"),
        (lambda p: p["allocation"].update(epsilon_grid=2.5), "spends epsilon 2.5 per grid"),
        (lambda p: p["allocation"].update(candidates=1), "candidates: expected the 5 of its grid, got 1"),
        (lambda p: p.update(steps=2344), "steps_charged: expected the 2344 of its spec, got 1172"),
        (lambda p: p["privacy"].update(delta=1e-3), "allocation.budget: expected the run's own, Budget("),
    ],
)
def test_a_run_that_claims_less_than_its_noise_spends_is_named_and_skipped(
    change: Callable[[dict[str, Any]], None], named: str, tmp_path: Path
) -> None:
    write_run(tmp_path, synthetic_spec(seed=0, lr=0.3162), [0.1, 0.9])
    forged(write_run(tmp_path, synthetic_spec(seed=1, lr=0.3162), [0.1, 0.99]), change)
    collection = collect(tmp_path, "paper")
    assert [run.spec.seed for run in collection.runs] == [0]
    (skipped,) = collection.skipped
    assert skipped.folder.endswith("seed1")
    assert named in skipped.reason
    assert skipped.reason.endswith("delete its folder to run it again")


@pytest.mark.parametrize("claimed", [1.0, None])
def test_a_result_that_claims_less_than_its_noise_spends_is_named_and_skipped(
    claimed: float | None, tmp_path: Path
) -> None:
    write_run(tmp_path, synthetic_spec(seed=0, lr=0.3162), [0.1, 0.9])
    folder = write_run(tmp_path, synthetic_spec(seed=1, lr=0.3162), [0.1, 0.99])
    edited(folder / "result.json", lambda content: content.update(epsilon_run=claimed))
    (skipped,) = collect(tmp_path, "paper").skipped
    assert skipped.reason.startswith(
        f"result: epsilon_run: expected at least 1.312, which its noise multiplier spends, got {claimed}; delete"
    )


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_slow_accountants_run_is_counted_anew(tmp_path: Path) -> None:
    spec = synthetic_spec(accountant="pld", variant="privacy.accountant=pld", lr=0.3162)
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    folder = write_run(tmp_path, spec, [0.1, 0.9])
    assert not collect(tmp_path, "paper").skipped
    forged(folder, lambda p: p["allocation"].update(noise_multiplier=0.9 * p["allocation"]["noise_multiplier"]))
    (skipped,) = collect(tmp_path, "paper").skipped
    assert "per grid by pld, got " in skipped.reason


def test_the_report_computes_rdp_and_does_not_copy_it(tmp_path: Path) -> None:
    """What is stored may be larger, by older code; what is shown is what the noise multiplier spends."""
    folder = write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    forged(folder, lambda p: p["allocation"].update(epsilon_run=1.5, epsilon_grid=3.0))
    (account,) = accounts(results_of(tmp_path))
    assert account.allocation.epsilon_run == epsilon("rdp", account.allocation.noise_multiplier, MNIST, 1172, 1e-5)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_an_edited_opinion_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
    counted_as_rdp(monkeypatch)
    write_run(tmp_path / "runs", synthetic_spec(lr=0.3162), [0.1, 0.9])
    results = results_of(tmp_path / "runs")
    (account,) = accounts(results, ["pld"])
    opinions = {path: json.loads(path.read_bytes()) for path in (tmp_path / "cache" / "calibration").iterdir()}
    path, entry = next((p, e) for p, e in opinions.items() if e["result"] == {"epsilon": account.opinions["pld"].grid})
    entry["result"]["epsilon"] = 0.1
    del entry["sha256"]
    path.write_text(json.dumps({**entry, "sha256": json_digest(entry)}))
    (again,) = accounts(results)
    assert again.opinions["pld"] is None
    (asked,) = accounts(results, ["pld"])
    assert asked.opinions["pld"] == account.opinions["pld"]


# All grids of the store


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_report_adds_up_all_grids_of_a_data_set(tmp_path: Path) -> None:
    for strategy, point in (("online", {"lr": 0.3162}), ("adam_wosm", {"clip": 0.1})):
        for seed in range(2):
            write_run(tmp_path, synthetic_spec(strategy=strategy, seed=seed, **point), [0.1, 0.9])
    variant = "strategy.momentum=0"
    write_run(tmp_path, synthetic_spec(variant=variant, lr=0.3162), [0.1, 0.9])
    write_run(
        tmp_path, synthetic_spec(accountant="rdp_wor", variant="privacy.accountant=rdp_wor", lr=0.3162), [0.1, 0.9]
    )
    write_run(tmp_path, synthetic_spec("mnist", "no_dp", 5, math.inf, lr=0.003162), [0.1, 0.98])
    report = build(collect(tmp_path, "paper"), None, [])
    (table,) = (table for chapter in report.chapters for table in chapter.tables() if table.name == "privacy_total")
    grid = synthetic_spec(lr=0.3162).allocation
    assert grid is not None
    ((dataset, count, delta, together, with_seeds, others),) = table.cells
    assert (dataset, count, delta) == ("MNIST", "3", "1e-05")
    assert together == rounded_up(total([grid] * 3))
    assert with_seeds == rounded_up(total([grid] * 3, [2, 2, 1]))
    assert others == (
        "paper/default, NoDP, k = 5, ε = ∞ (not private), paper/privacy.accountant=rdp_wor, Online, k = 5, ε = 3 "
        "(rdp_wor: not private)"
    )
    assert "spends up to the total" in " ".join(table.notes)
    names = [table.name for table in report.chapters[0].tables()]
    assert names.index("privacy_total") + 1 == names.index("privacy_mnist")


# Noise that cannot be drawn again


@pytest.mark.parametrize("seeding", ["named", "secure"])
def test_running_a_secure_run_again_is_said_to_spend_again(seeding: str, tmp_path: Path) -> None:
    variant = "seed=secure" if seeding == "secure" else "default"
    for seed in range(2):
        folder = write_run(tmp_path, synthetic_spec(variant=variant, seeding=seeding, seed=seed, lr=0.3162), [0.1, 0.9])
    (folder / "metrics.csv").write_text("damaged")
    collection = collect(tmp_path, "paper")
    (section,) = sections(collection.runs)
    table = commands_table(section.results)
    assert table is not None
    secure = seeding == "secure"
    ((*_, command),) = table.rows
    assert command.endswith("  # spends the budget again") == secure
    assert shlex.split(command, comments=True)[-1] == "seeds=[0]"
    assert ("spends the budget again" in " ".join(table.notes)) == secure
    (skipped,) = collection.skipped
    assert ("spends the budget again" in skipped.reason) == secure


# Sums in float32


def test_what_rounding_may_add_to_a_float32_sum() -> None:
    assert float32_excess(512, 1) == pytest.approx(0.0315, abs=1e-4)
    assert float32_excess(512, 2) == pytest.approx(0.0945, abs=1e-4)


OLD = {**PROVENANCE, "machine": {**PROVENANCE["machine"], "arithmetic": 9}}


@pytest.mark.parametrize("provenance", [OLD, {**PROVENANCE, "machine": {}}, {}])
def test_runs_with_float32_sums_say_what_rounding_may_add(provenance: dict[str, Any], tmp_path: Path) -> None:
    for strategy, point in (("online", {"lr": 0.3162}), ("adam_wosm", {"clip": 0.1})):
        for seed in range(2):
            spec = synthetic_spec(strategy=strategy, seed=seed, **point)
            write_run(
                tmp_path, spec, [0.1, 0.9], provenance=provenance if strategy == "online" and seed else PROVENANCE
            )
    results = results_of(tmp_path)
    online, other = (results[key] for key in sorted(results, key=lambda key: key.strategy != "online"))
    assert other.key.strategy == "adam_wosm"
    assert "rounding" not in budget_words([other])
    nu = online.allocation.noise_multiplier
    most = epsilon("rdp", nu / (1 + float32_excess(512, 2)), MNIST, 5 * 1172, 1e-5)
    assert 3.3 < most < 3.6
    expected = (
        "Arithmetic 9 or older: sums in float32; ε is proven only up to rounding, which at batch size 512 may raise it "
        f"from 3.000 to at most {rounded_up(most)}."
    )
    assert budget_words([online]).endswith(expected)
    (chapter,) = build(collect(tmp_path, "paper"), None, []).chapters
    assert expected in chapter.banners
    (ledger,) = (table for table in chapter.tables() if table.name == "privacy_mnist")
    assert [expected in words for words in ledger.guarantees] == [True, False]
    for table in chapter.tables():
        if any("ε" in column for column in table.headings):
            assert expected in " ".join([table.caption, *table.footnotes, *table.guarantees]), table.name


def test_runs_with_charged_rounding_carry_no_label(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    (chapter,) = build(collect(tmp_path, "paper"), None, []).chapters
    assert "rounding" not in str(chapter)

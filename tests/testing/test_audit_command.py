"""`dp-bench audit` from its words to its file, and what the report makes of that file."""

import html
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from report_helpers import synthetic_spec, write_run

from dp_bench import cli
from dp_bench.files.checksummed import read_checksummed, write_checksummed
from dp_bench.report.commands.report import make_report
from dp_bench.report.contents import Part
from dp_bench.report.tables.audit import audited
from dp_bench.testing import audit as whole
from dp_bench.testing.command import DEFAULT, lines
from dp_bench.testing.results import PARTS, Audit, Caught, Finding

FINDINGS = (
    Finding("canary", "online", "mu >= 1.900", 1.9, "mu <= 2.000", holds=True, seconds=1.5),
    Finding("replay", "online, CNN", "moves inf, control flow equal", None, "moves <= 1.01", holds=True),
)
CAUGHT = (
    Caught("noise_times_0_7", "online", "canary", "mu >= 2.7", "Too little <noise>."),
    Caught("noise_times_0_7", "adam_wosm", "identity", "0.83", "Too little <noise>."),
)
PASSED = Audit(FINDINGS, CAUGHT, false_alarm=1e-4, seconds=12.3)
REFUTED = replace(PASSED, findings=(replace(FINDINGS[0], measured="mu >= 2.345", holds=False),))
MISSED = replace(PASSED, caught=(*CAUGHT, Caught("doubled_release", "online", None, "mu >= 1.9", "Released twice.")))


@pytest.mark.slow(reason="a quick audit of one strategy")
def test_one_strategy_is_audited_for_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "audit.json"
    assert cli.main(["audit", "--quick", "--strategy", "adam_wosm", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    content = read_checksummed(out)
    found = Audit.from_json(content)
    assert found.holds
    assert {finding.part for finding in found.findings} == set(PARTS)
    assert {bug.bug for bug in found.caught} >= {"noise_times_0_7", "single_precision_sums", "key_without_the_data"}
    assert {bug.subject for bug in found.caught} == {"adam_wosm", "odd widths", "convolution", "batches and noise"}
    assert (content["quick"], content["strategy"], content["arithmetic"]) == (True, "adam_wosm", 10)
    assert len(content["key"]) == 16
    assert shown.out.splitlines()[-1] == f"kept in {out}"
    assert f"0 of {len(found.findings)} claims refuted" in shown.out
    for finding in found.findings:
        assert finding.measured in shown.out
        assert finding.measured in shown.err  # progress


@pytest.mark.parametrize(("found", "code"), [(PASSED, 0), (REFUTED, 1), (MISSED, 1)])
def test_exit_code(found: Audit, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "run", lambda key, **options: found)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["audit", "--key", "again"]) == code
    assert Audit.from_json(read_checksummed(tmp_path / DEFAULT)) == found


def test_a_key_repeats_an_audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []
    monkeypatch.setattr(whole, "run", lambda key, **options: seen.append(key) or PASSED)
    for words in (["--key", "mine"], [], []):
        assert cli.main(["audit", "--out", str(tmp_path / "a.json"), *words]) == 0
        assert read_checksummed(tmp_path / "a.json")["key"] == seen[-1]
    assert seen[0] == "mine"
    assert len(set(seen)) == 3


def test_claims_are_audited_without_planting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(whole, "_strategy_checks", lambda *arguments: [lambda: FINDINGS[0]])
    monkeypatch.setattr(whole, "_engine_checks", lambda *arguments: [])
    monkeypatch.setattr(whole, "look_for_planted", lambda *arguments: iter(MISSED.caught))
    command = ["audit", "--strategy", "online", "--out", str(tmp_path / "audit.json")]
    assert cli.main(command) == 1
    assert "planted bug " in capsys.readouterr().out
    assert cli.main([*command, "--claims"]) == 0
    shown = capsys.readouterr().out
    assert "claims refuted; no bugs planted" in shown
    assert "planted bug " not in shown


@pytest.mark.parametrize("name", ["no_dp", "onlin"])
def test_an_unknown_strategy_is_one_line(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "run", lambda key, **options: pytest.fail("nothing must be run"))
    assert cli.main(["audit", "--strategy", name]) == 2
    remedy = {"no_dp": "leave it out for all", "onlin": "did you mean `online`?"}[name]
    assert capsys.readouterr().err == (
        "dp-bench: --strategy: expected one of online, fixed_threshold, fixed_quantile, adam_wosm, fixed_line, auto_s, "
        "psac, ada_sig, sla_clip, sla_clip_q, dp_adam_bc, dc_sgd_e, dc_sgd_p, "
        f"got {name}; {remedy}\n"
    )


def test_the_table_names_what_is_wrong() -> None:
    assert any(line.startswith("canary") and "REFUTED" in line for line in lines(REFUTED))
    assert any(line.startswith("doubled release") and "MISSED: online: mu >= 1.9" in line for line in lines(MISSED))
    assert "1 of 1 claims refuted; 1 of 1 planted bugs found; 12 s." in lines(REFUTED)[-1]
    assert "0 of 2 claims refuted; 1 of 2 planted bugs found" in lines(MISSED)[-1]


def test_results_survive_json() -> None:
    for found in (PASSED, REFUTED, MISSED):
        assert Audit.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found
    with pytest.raises(ValueError, match="format"):
        Audit.from_json({**PASSED.to_json(), "format": 2})


def test_neither_help_nor_results_load_torch() -> None:
    code = (
        "import sys\nimport dp_bench.testing.results\nfrom dp_bench.cli import main\n"
        "try: main(['audit', '--help'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    assert "--quick" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


FACTS = {
    "key": "k",
    "quick": True,
    "strategy": None,
    "dp_bench": "0.1.0",
    "commit": "0123456789abcdef",
    "arithmetic": 10,
    "packages": {"torch": "2.13.0"},
    "python": "3.11.7",
    "processor": "x86_64",
    "finished": "2026-01-31T12:00:00Z",
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs", synthetic_spec(lr=0.3162), [0.1, 0.9])
    return tmp_path / "runs"


def shown(runs: Path) -> str:
    return html.unescape(make_report(runs, "paper", runs.parent / "reports").read_text())


@pytest.mark.slow(reason="writes a whole report")
def test_the_report_shows_an_audit(runs: Path) -> None:
    write_checksummed(runs / "audit.json", {**PASSED.to_json(), **FACTS})
    page = shown(runs)
    for words in (
        ">Audit</h2>",
        "Quick audit, finished 2026-01-31T12:00:00Z at commit 0123456, arithmetic 10",
        "0 of 2 claims refuted; 1 of 1 planted bugs found",
        "mu >= 1.900",
        "noise times 0 7",
        "Too little <noise>.",
        "canary, identity",
    ):
        assert words in page
    assert "REFUTED" not in page
    assert (runs.parent / "reports" / "paper" / "tables" / "audit_planted.csv").exists()


def test_what_an_audit_refuted_or_missed_is_a_warning(tmp_path: Path) -> None:
    write_checksummed(
        tmp_path / "audit.json", {**replace(REFUTED, caught=MISSED.caught).to_json(), **FACTS, "quick": False}
    )
    found = audited(tmp_path)
    assert found is not None
    assert found.paragraphs[0].startswith("Full audit, finished")
    assert found.warnings == [
        "REFUTED: canary, online: mu >= 2.345, claimed mu <= 2.000.",
        "MISSED, a planted bug: doubled release, online: mu >= 1.9.",
    ]


@pytest.mark.parametrize("damage", ["flipped", "half", "foreign", "folder"])
def test_a_damaged_audit_is_named_and_skipped(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "audit.json"
    assert audited(tmp_path) is None
    write_checksummed(path, {**PASSED.to_json(), **FACTS})
    content = path.read_text()
    if damage == "flipped":
        path.write_text(content.replace("1.900", "0.900"))
    elif damage == "half":
        path.write_text(content[:100])
    elif damage == "foreign":
        write_checksummed(path, {"format": 1, "findings": [{"part": "canary"}]})
    else:
        path.unlink()
        path.mkdir()
    assert audited(tmp_path) == Part("Audit", warnings=[DAMAGED])


DAMAGED = "audit.json is damaged or of another version, and was skipped: run dp-bench audit again."


@pytest.mark.slow(reason="writes two whole reports")
def test_the_report_is_built_without_an_audit_and_with_a_damaged_one(runs: Path) -> None:
    assert ">Audit</h2>" not in shown(runs)
    (runs / "audit.json").write_text("{")
    assert DAMAGED in shown(runs)

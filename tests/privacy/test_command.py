"""`dp-bench budget`: the numbers, the advice, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dp_bench import Budget, Sampling, allocate
from dp_bench.cli import main
from dp_bench.files.checksummed import json_digest
from dp_bench.privacy.allocators import rungs_of
from dp_bench.privacy.selection import Trials

SEARCH = ["budget", "--rows", "60000", "--batch-size", "512", "--epochs", "10", "--accountants", "rdp"]
MNIST, T = Sampling(512, 60_000), 1172


def asked(capsys: pytest.CaptureFixture[str], *options: str) -> dict:
    assert main([*SEARCH, *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_noise_for_a_budget(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--candidates", "25", "--epsilon", "3")
    rows = {row["allocator"]: row for row in found["allocators"]}
    budget = Budget(3, 1e-5, "rdp")
    expected = {
        "composition": allocate(budget, MNIST, 25, T),
        "halving": allocate(budget, MNIST, 25, T, rungs_of(25, T, 50)),
        "selection, geometric": allocate(budget, MNIST, 25, T, trials=Trials("geometric", 25)),
    }
    single = allocate(budget, MNIST, 1, T).noise_multiplier
    for name, allocation in expected.items():
        assert rows[name]["noise_multiplier"] == allocation.noise_multiplier
        assert rows[name]["epsilon_run"] == pytest.approx(allocation.epsilon_run)
        assert rows[name]["over_single"] == pytest.approx(allocation.noise_multiplier / single)
    assert [round(rows[name]["runs_worth"], 1) for name in expected] == [25, 6.9, 25]
    assert [round(rows[name]["chance"], 2) for name in expected] == [1, 1, 0.51]
    assert rows["halving"]["released"] == "everything"
    assert rows["selection, geometric"]["released"] == "the winner only"
    assert found["recommendation"].startswith("Take halving, counted by rdp: 1.61 times the noise of a single run")


@pytest.mark.slow(reason="calibrates noise")
def test_the_cost_of_noise(capsys: pytest.CaptureFixture[str]) -> None:
    """The way back: noise that was found for a budget costs that budget."""
    by_budget = asked(capsys, "--candidates", "25", "--epsilon", "3")["allocators"]
    for i, row in enumerate(by_budget):
        back = asked(capsys, "--candidates", "25", "--noise-multiplier", str(row["noise_multiplier"]))["allocators"][i]
        assert back["allocator"] == row["allocator"]
        assert back["epsilon"] == pytest.approx(3, rel=1e-3)
        assert back["epsilon"] <= 3


@pytest.mark.parametrize(
    ("candidates", "advice"), [("1", "one candidate is not a search"), ("3", "leave nothing to halve")]
)
@pytest.mark.slow(reason="calibrates noise")
def test_advice_where_there_is_little_to_search(
    capsys: pytest.CaptureFixture[str], candidates: str, advice: str
) -> None:
    assert advice in asked(capsys, "--candidates", candidates, "--epsilon", "3")["recommendation"]


@pytest.mark.slow(reason="calibrates noise")
def test_what_cannot_be_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    (row, *_) = asked(capsys, "--candidates", "2", "--noise-multiplier", "0.001")["allocators"]
    assert row["epsilon"] is None


@pytest.mark.parametrize(("noise", "advice"), [("1e8", "nothing to choose"), ("0.05", "No epsilon can be")])
@pytest.mark.slow(reason="calibrates noise")
def test_noise_at_the_ends(noise: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--candidates", "5", "--noise-multiplier", noise)
    assert advice in found["recommendation"]
    assert found["allocators"][0]["epsilon"] == (0.0 if noise == "1e8" else None)


@pytest.mark.slow(reason="calibrates noise")
def test_a_schedule_without_rungs_between_names_the_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--candidates", "5", "--epsilon", "3", "--evaluate-every", "2000")
    assert "evaluated every 2000, leave nothing to halve" in found["recommendation"]
    assert "If only the winner has to leave, selection" in found["recommendation"]


def test_an_accountant_is_asked_once_and_warnings_are_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--candidates", "1", "--epsilon", "3", "--accountants", "rdp,rdp", "--delta", "1e-4")
    assert [row["accountant"] for row in found["allocators"]] == ["rdp"]
    assert found["warnings"][0].startswith("delta = 0.0001 is not below 1/N")


MISTAKES = {
    "trials not a number": (["--candidates", "1", "--epsilon", "3", "--mean", "nan"], "--mean: expected"),
    "epsilon too large for pld": (
        ["--candidates", "5", "--epsilon", "60", "--accountants", "pld"],
        "use --accountants rdp",
    ),
    "no budget": (["--candidates", "5"], "--epsilon"),
    "two budgets": (["--candidates", "5", "--epsilon", "3", "--noise-multiplier", "1"], "--noise-multiplier"),
    "negative epsilon": (["--candidates", "5", "--epsilon", "-1"], "--epsilon: expected a positive number, got -1"),
    "epsilon not a number": (["--candidates", "5", "--epsilon", "nan"], "--epsilon"),
    "epsilon a word": (["--candidates", "5", "--epsilon", "three"], "three"),
    "no candidates": (["--candidates", "0", "--epsilon", "3"], "--candidates: expected a positive number"),
    "delta of one": (["--candidates", "5", "--epsilon", "3", "--delta", "1"], "--delta"),
    "delta below the noise's tail": (
        ["--candidates", "5", "--epsilon", "3", "--delta", "1e-20"],
        "--delta: expected at",
    ),
    "steps and epochs": (["--candidates", "5", "--epsilon", "3", "--steps", "3"], "--steps"),
    "too few trials": (["--candidates", "5", "--epsilon", "3", "--mean", "1"], "--mean"),
    "batch above the rows": (
        ["--candidates", "5", "--epsilon", "3", "--batch-size", "70000"],
        "--batch-size: expected",
    ),
    "no noise to speak of": (["--candidates", "5", "--noise-multiplier", "1e-300"], "at least 0.001"),
    "an accountant with torch": (["--candidates", "5", "--epsilon", "3", "--accountants", "prv"], "rdp, pld, got prv"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    options, told = MISTAKES[mistake]
    assert main([*SEARCH, *options]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.count("\n") == 1
    assert told in printed.err


@pytest.mark.parametrize(
    "change",
    [
        {"composition rdp nu": 0.01},
        {"composition rdp run": 0.001},
        {"halving rdp nu": 0.6},
        {"selection, geometric rdp run": 0.01},
        {"composition rdp nu": None},
    ],
)
@pytest.mark.slow(reason="calibrates noise")
def test_an_edited_answer_is_not_believed(
    change: dict[str, float | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path))
    first = asked(capsys, "--candidates", "25", "--epsilon", "3")
    (path,) = (tmp_path / "budget").iterdir()
    entry = json.loads(path.read_bytes())
    assert change.keys() <= entry["result"].keys()
    entry["result"] = {name: value for name, value in (entry["result"] | change).items() if value is not None}
    del entry["sha256"]
    path.write_text(json.dumps({**entry, "sha256": json_digest(entry)}))
    assert asked(capsys, "--candidates", "25", "--epsilon", "3") == first


@pytest.mark.slow(reason="calibrates noise")
def test_a_warm_answer_takes_neither_torch_nor_an_accountant(capsys: pytest.CaptureFixture[str]) -> None:
    options = [*SEARCH, "--candidates", "25", "--epsilon", "3"]
    assert main(options) == 0
    expected = capsys.readouterr().out
    modules = "assert not {'torch', 'dp_accounting'} & {*sys.modules}"
    code = f"import sys; from dp_bench.cli import main; main(sys.argv[1:]); {modules}"
    answer = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True, check=True)
    assert answer.stdout == expected

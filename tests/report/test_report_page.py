"""The command from runs to page, and the page in a browser where there is one."""

import hashlib
import html
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from report_helpers import small_store, synthetic_spec, synthetic_trade_off, write_run

from dp_bench import cli
from dp_bench.errors import UserError
from dp_bench.experiment.store import RunFolder
from dp_bench.report.commands.report import main, make_report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on a store that has a bit of everything."""
    runs = small_store(tmp_path_factory.mktemp("runs"))
    for seed in range(2):
        write_run(runs, synthetic_spec("ag_news", "adam_wosm", 9, 9.0, seed, clip=0.0316, kind="subset"), [0.25, 0.86])
    other = synthetic_spec(accountant="rdp_wor", variant="privacy.accountant=rdp_wor", lr=0.3162)
    write_run(runs, other, [0.1, 0.9])
    (runs / "paper" / "<b>foreign").mkdir()
    synthetic_trade_off(runs / "paper" / "trade_off" / "mnist")
    out = tmp_path_factory.mktemp("reports")
    (out / "paper" / "figures").mkdir(parents=True)
    (out / "paper" / "files.txt").write_text(f"{hashlib.sha256().hexdigest()}  figures/stale.png\n")
    (out / "paper" / "figures" / "stale.png").touch()
    (out / "paper" / "mine.txt").touch()
    assert main(["--runs", str(runs), "--out", str(out)]) == 0
    return out / "paper"


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_files(report: Path) -> None:
    for name in ("best_mnist_k5", "scorecard", "ranking", "privacy_mnist", "completeness", "sources", "skipped"):
        for suffix in ("md", "csv"):
            assert (report / "tables" / f"{name}.{suffix}").stat().st_size > 0
    latex = {path.stem for path in (report / "tables").glob("*.tex")}
    assert {"best_mnist_k5", "datasets", "model_cnn"} <= latex
    assert not {"scorecard", "privacy_mnist", "sources"} & latex
    for name in ("metric_mnist_k5", "grid_mnist_k5", "learning_mnist_k5", "frontier_mnist", "candidates", "trade_off"):
        for suffix in ("png", "pdf"):
            assert (report / "figures" / f"{name}.{suffix}").stat().st_size > 0
    assert (report / "privacy.accountant=rdp_wor" / "tables" / "best_mnist_k5.md").exists()
    assert len((report / "data" / "runs.csv").read_text().splitlines()) == 1 + 102 + 3
    assert not (report / "figures" / "stale.png").exists()
    assert (report / "mine.txt").exists()


def test_the_page_needs_nothing_else(report: Path) -> None:
    page = (report / "index.html").read_text()
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []
    assert "http" not in page
    assert len(re.findall(r"<script[ >]", page)) == 3  # its data, its charts, its behavior
    shown = len(list(report.rglob("*.png"))) - 1  # how another protocol's runs learn is left out
    assert page.count("<img") == shown
    targets = set(re.findall(r'<(?:section|tr) id="([^"]*)"', page))
    assert set(re.findall(r'<a href="#([^"]*)"', page)) == targets


def test_the_page_says_what_one_must_know(report: Path) -> None:
    page = html.unescape((report / "index.html").read_text())
    assert "<b>foreign" in page  # as text
    assert "<b>" not in (report / "index.html").read_text()
    for words in (
        "AG News here is not the paper's data: synthetic subset.",
        "lack points",
        "At most 3 seeds per point; the paper has 5.",
        "NOT PRIVATE",
        "folders skipped",
        "Poisson sample",
        "adding or removing one example",
        "0123456789abcdef",
        "AG News, k = 5: none of the paper's 17 grids was begun.",
    ):
        assert words in page, words


def test_no_line_shows_an_epsilon_that_is_not_a_guarantee_as_if_it_were(report: Path) -> None:
    page = html.unescape((report / "index.html").read_text())
    lines = re.findall(r'<tr id="cell-.*', page)
    said = {"rdp_wor: not private" in line for line in lines if "accountant rdp_wor" in line}
    assert said == {True}
    assert any('<td>3</td><td class="text">yes</td>' in line for line in lines)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_nothing_finished_yet(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs", synthetic_spec(lr=0.3162))
    folder.path.mkdir(parents=True)
    folder.write_spec()
    page = make_report(tmp_path / "runs", "paper", tmp_path / "out").read_text()
    assert "None of the 96 published results" in page


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_only_no_dp(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", synthetic_spec("mnist", "no_dp", 5, math.inf, lr=0.003162), [0.1, 0.98])
    page = make_report(tmp_path / "runs", "paper", tmp_path / "out").read_text()
    assert "Nothing here is private." in page


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--runs", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("dp-bench: ")
    assert error.count("\n") == 1
    with pytest.raises(UserError, match=r"--accountants: expected one of pld, prv, .*, got moments"):
        main(["--accountants", "moments"])
    write_run(tmp_path / "runs", synthetic_spec(lr=0.3162), [0.1, 0.9])
    with pytest.raises(UserError, match=r"--variant: expected one of default.*, got mine"):
        main(["--runs", str(tmp_path / "runs"), "--out", str(tmp_path), "--variant", "mine"])


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_help_has_examples_and_starts_light(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "dp-bench report --profile smoke" in capsys.readouterr().out
    for module, heavy in (
        ("dp_bench.report.commands.report", {"torch", "matplotlib", "pandas"}),
        ("dp_bench.report.build", {"torch", "matplotlib", "opacus"}),
        ("dp_bench.report.page.page", {"torch", "matplotlib", "opacus"}),
    ):
        code = f"import sys, {module}; print(sorted({heavy!r} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


@pytest.mark.slow(reason="writes two whole reports")
def test_only_what_an_earlier_report_wrote_is_removed(tmp_path: Path) -> None:
    runs, out = small_store(tmp_path / "runs"), tmp_path / "out"
    make_report(runs, "paper", out)
    mine = [out / "paper" / name for name in ("figures/mine.pdf", "data/mine.csv", "deep/tables/mine.md")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    for folder in (runs / "paper/default/mnist").glob("*"):
        if folder.name != "online":
            shutil.rmtree(folder)
    shutil.rmtree(runs / "paper/default/fashion_mnist")
    assert (out / "paper/tables/best_fashion_mnist_k5.md").exists()
    make_report(runs, "paper", out)
    assert not (out / "paper/tables/best_fashion_mnist_k5.md").exists()
    assert all(path.read_text() == "mine" for path in mine)


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_place_that_cannot_be_written_is_found_before_any_work(tmp_path: Path) -> None:
    runs = small_store(tmp_path / "runs")
    for options in ({"readme": tmp_path / "none.md"},):
        with pytest.raises(UserError):
            make_report(runs, "paper", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()

"""The command from runs to page, and the page in a browser where there is one."""

import html
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from report_helpers import made_up_spec, made_up_trade_off, small_store, write_run

from dp_bench import cli
from dp_bench.errors import UserError
from dp_bench.report.command import main, make_report
from dp_bench.store import RunFolder

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on a store that has a bit of everything."""
    runs = small_store(tmp_path_factory.mktemp("runs"))
    for seed in range(2):
        write_run(runs, made_up_spec("ag_news", "adam_wosm", 9, 9.0, seed, clip=0.0316, kind="subset"), [0.25, 0.86])
    other = made_up_spec(accountant="rdp_wor", variant="privacy.accountant=rdp_wor", lr=0.3162)
    write_run(runs, other, [0.1, 0.9])
    (runs / "paper" / "<b>foreign").mkdir()
    made_up_trade_off(runs / "paper" / "trade_off" / "mnist")
    out = tmp_path_factory.mktemp("reports")
    (out / "paper" / "figures").mkdir(parents=True)
    (out / "paper" / "files.txt").write_text("figures/stale.png\n")
    (out / "paper" / "figures" / "stale.png").touch()
    (out / "paper" / "mine.txt").touch()
    assert main(["--runs", str(runs), "--out", str(out)]) == 0
    return out / "paper"


def test_files(report: Path) -> None:
    for name in ("best_mnist_k5", "scorecard", "ranking", "privacy_mnist", "completeness", "sources", "skipped"):
        for suffix in ("md", "csv", "tex"):
            assert (report / "tables" / f"{name}.{suffix}").stat().st_size > 0
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
    assert "<script" not in page
    shown = len(list(report.rglob("*.png"))) - 2  # how another protocol's runs learn is left out
    assert page.count("<img") == shown
    assert set(re.findall(r'<a href="#([^"]*)"', page)) == set(re.findall(r'<section id="([^"]*)"', page))


def test_the_page_says_what_one_must_know(report: Path) -> None:
    page = html.unescape((report / "index.html").read_text())
    assert "<b>foreign" in page  # as text
    assert "<b>" not in (report / "index.html").read_text()
    for words in (
        "AG News here is not the paper's data: made-up subset.",
        "lack points",
        "At most 3 seeds a point; the paper has 5.",
        "NOT PRIVATE",
        "folders skipped",
        "Poisson sample",
        "adding or removing one example",
        "0123456789abcdef",
        "AG News, k = 5: none of the paper's 17 grids was begun.",
    ):
        assert words in page, words


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(report: Path, tmp_path: Path, width: int) -> None:
    """The page in a frame as wide as the screen, since a headless window cannot be as narrow as a phone."""
    probe = """<script>addEventListener("load", () => parent.postMessage(JSON.stringify({
        wide: document.documentElement.scrollWidth, room: document.documentElement.clientWidth,
        images: document.images.length, broken: [...document.images].filter(i => !i.naturalWidth).length,
        sections: document.querySelectorAll("section").length}), "*"))</script>"""
    (tmp_path / "page.html").write_text((report / "index.html").read_text().replace("</body>", f"{probe}</body>"))
    (tmp_path / "frame.html").write_text(
        f'<iframe src="page.html" style="width:{width}px;height:844px;border:0"></iframe>'
        '<pre id="found"></pre><script>onmessage = e => found.textContent = e.data</script>'
    )
    command = [
        str(CHROMIUM),
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"),
        *("--disable-component-update", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--enable-logging=stderr", "--window-size=1400,900", "--virtual-time-budget=20000", "--dump-dom"),
        (tmp_path / "frame.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL).group(1)))
    assert found["images"] > 10
    assert found["broken"] == 0
    assert found["sections"] >= 9
    assert found["wide"] <= found["room"] <= width
    assert "CONSOLE" not in done.stderr, done.stderr


def test_nothing_finished_yet(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs", made_up_spec(lr=0.3162))
    folder.path.mkdir(parents=True)
    folder.write_spec()
    page = make_report(tmp_path / "runs", "paper", tmp_path / "out").read_text()
    assert "None of the 96 published results" in page


def test_only_no_dp(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", made_up_spec("mnist", "no_dp", 5, math.inf, lr=0.003162), [0.1, 0.98])
    page = make_report(tmp_path / "runs", "paper", tmp_path / "out").read_text()
    assert "Nothing here is private." in page


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--runs", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("dp-bench: ")
    assert error.count("\n") == 1
    with pytest.raises(UserError, match="--accountants: found 'moments', expected any of pld, prv, rdp_wor"):
        main(["--accountants", "moments"])
    write_run(tmp_path / "runs", made_up_spec(lr=0.3162), [0.1, 0.9])
    with pytest.raises(UserError, match="--variant: found 'mine', expected one of default"):
        main(["--runs", str(tmp_path / "runs"), "--out", str(tmp_path), "--variant", "mine"])


def test_help_has_examples_and_starts_light(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "dp-bench report --profile smoke" in capsys.readouterr().out
    for module, heavy in (
        ("dp_bench.report.command", {"torch", "matplotlib", "pandas"}),
        ("dp_bench.report.build", {"torch", "matplotlib", "opacus"}),
        ("dp_bench.report.html", {"torch", "matplotlib", "opacus"}),
    ):
        code = f"import sys, {module}; print(sorted({heavy!r} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


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


def test_a_place_that_cannot_be_written_is_found_before_any_work(tmp_path: Path) -> None:
    runs = small_store(tmp_path / "runs")
    for options in ({"readme": tmp_path / "none.md"}, {"keep": runs}):
        with pytest.raises(UserError):
            make_report(runs, "paper", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()

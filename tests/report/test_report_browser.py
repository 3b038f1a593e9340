"""The page in headless Chromium: filters, sorting, the runs behind a cell, downloads, keyboard, print, no script."""

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER, MISSING, Browser, browser
from report_helpers import small_store, synthetic_spec, write_run

from dp_bench.report.build import Report, build
from dp_bench.report.load.collect import collect
from dp_bench.report.page import embed, page

pytestmark = [
    pytest.mark.slow(reason="starts a browser"),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING),
]
PIXEL = bytes.fromhex(  # a picture of one pixel in place of every figure: drawing is tested elsewhere
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
HOSTILE = "strategy.momentum=0,</script><script>alert(1)</script>"


def report_on(runs: Path, folder: Path) -> Report:
    made = build(collect(runs, "paper"), None, [])
    for chapter in made.chapters:
        for chart in chapter.charts():
            picture = folder / chapter.folder / "figures" / f"{chart.name}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(PIXEL)
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = small_store(tmp_path_factory.mktemp("runs"))
    hostile = synthetic_spec(variant="strategy.momentum=0", lr=0.3162)
    write_run(runs, hostile, [0.1, 0.9], provenance={"commit": HOSTILE, "machine": {"arithmetic": 10}})
    return runs


@pytest.fixture(scope="module")
def shown(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text(page.page(report_on(store, folder), folder))
    return folder / "index.html"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def opened(chromium: Browser, shown: Path) -> Iterator[Browser]:
    chromium.media()
    chromium.size(1280)
    chromium.open(shown)
    yield chromium
    assert chromium.complaints() == []


VISIBLE = "[...document.querySelectorAll('#cells tbody tr')].filter(row => !row.hidden)"


def choose(opened: Browser, name: str, value: str) -> None:
    script = """const s = document.querySelector(`#filters select[name="${arguments[0]}"]`);
        s.value = arguments[1]; s.dispatchEvent(new Event("change")); return s.value"""
    assert opened.run(script, name, value) == value


def test_filters_and_what_is_downloaded(opened: Browser, shown: Path, tmp_path: Path) -> None:
    everything = opened.run(f"return {VISIBLE}.length")
    choose(opened, "strategy", "Online")
    choose(opened, "ε", "3")
    rows = opened.run(f"return {VISIBLE}.map(row => row.innerText)")
    assert 0 < len(rows) < everything
    assert all("Online" in row for row in rows)
    assert (
        opened.run("return document.getElementById('shown').textContent") == f"{len(rows)} of {everything} grids shown"
    )
    opened.tool("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.run("document.getElementById('as-csv').click(); document.getElementById('as-json').click()")
    for _ in range(100):
        if (tmp_path / "dp_bench.csv").exists() and (tmp_path / "dp_bench.json").exists():
            break
        time.sleep(0.05)
    table = list(csv.DictReader((tmp_path / "dp_bench.csv").read_text().splitlines()))
    assert [dict(row) for row in table] == json.loads((tmp_path / "dp_bench.json").read_text())
    assert len(table) == len(rows)
    assert all("epsilon is spent by the whole grid" in row["guarantee"] for row in table)
    opened.run("document.querySelector('#filters button[type=reset]').click()")
    opened.wait(f"{VISIBLE}.length === {everything}")


def test_tables_are_sorted_by_value(opened: Browser) -> None:
    click = """const th = [...document.querySelectorAll("#cells th")].find(t => t.textContent === "ε");
        th.querySelector("button").click();
        const column = [...th.parentElement.children].indexOf(th);
        return [th.getAttribute("aria-sort"),
                [...document.querySelectorAll("#cells tbody tr")].map(row => row.cells[column].textContent)]"""
    for direction in ("ascending", "descending"):
        found, texts = opened.run(click)
        numbers = [float(text.replace("∞", "inf")) for text in texts]
        assert found == direction
        assert numbers == sorted(numbers, reverse=direction == "descending")
        assert len(set(numbers)) > 2


def test_a_cell_opens_its_runs(opened: Browser) -> None:
    opened.run("document.querySelector('a[data-cell]').focus()")
    opened.run("document.activeElement.click()")
    opened.wait("document.getElementById('runs').open && document.querySelector('#runs polyline')")
    text = opened.run("return document.getElementById('runs').innerText")
    for words in (
        "Ledger: ",
        "ν = ",
        "dp-bench run profile=paper",
        "git checkout 0123456789abcdef",
        "spec ",
        "metrics ",
    ):
        assert words in text, words
    panels = opened.run("return [...document.querySelectorAll('#runs .plot')].map(p => p.getAttribute('aria-label'))")
    assert panels[0].startswith("test accuracy (%)")
    copied = """Object.defineProperty(navigator, "clipboard", {value: {writeText: async t => { window.copied = t }}});
        document.querySelector("#runs .copy").click()"""
    opened.run(copied)
    opened.wait("window.copied && document.querySelector('#runs .copy').textContent === 'copied'")
    assert "'seeds=[" in opened.run("return window.copied")
    assert opened.run("return location.hash") == "#cell-0"
    opened.run("document.getElementById('runs-close').click()")
    assert opened.run("return document.getElementById('runs').open") is False
    opened.wait("location.hash === ''")


def test_an_address_opens_its_cell(chromium: Browser, shown: Path) -> None:
    chromium.open(shown, "#cell-1")
    chromium.wait("document.getElementById('runs').open && document.querySelector('#runs polyline')")


def test_names_are_never_markup(opened: Browser, shown: Path) -> None:
    assert HOSTILE not in shown.read_text()
    number = opened.run(f"return {VISIBLE}.find(row => row.innerText.includes('momentum')).dataset.cell")
    opened.run("document.querySelector(`tr[data-cell='${arguments[0]}'] a`).click()", number)
    opened.wait("document.querySelector('#runs .run')")
    assert HOSTILE in opened.run("return document.getElementById('runs').innerText")
    assert opened.run("return document.scripts.length") == 3


def test_figures_tell_values_to_pointer_and_keyboard(opened: Browser) -> None:
    opened.run("document.querySelector('figure[data-chart]').scrollIntoView()")
    opened.wait("document.querySelector('figure.drawn .plot')")
    opened.run("document.querySelector('figure.drawn .plot').focus()")
    opened.key("ArrowRight")
    tip = "document.querySelector('figure.drawn .tip')"
    first = opened.run(f"return {tip}.hidden ? null : {tip}.textContent")
    assert first
    opened.key("ArrowRight")
    assert opened.run(f"return {tip}.textContent") != first
    opened.key("Escape")
    assert opened.run(f"return {tip}.hidden")
    for _ in range(100):  # other figures that are drawn meanwhile move this one
        where = opened.run("""const b = document.querySelector("figure.drawn .series circle").getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2]""")
        opened.tool("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])
        if opened.run(f"return !{tip}.hidden && /\\d/.test({tip}.textContent)"):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the pointer is told nothing")


def test_narrow_dark_and_print(opened: Browser) -> None:
    opened.size(390, 844)
    opened.wait("document.documentElement.scrollWidth <= 390")
    ink = "getComputedStyle(document.body).backgroundColor"
    light = opened.run(f"return {ink}")
    opened.media(prefers_color_scheme="dark")
    assert opened.run(f"return {ink}") != light
    opened.size(1280)
    opened.run("document.querySelector('figure[data-chart]').scrollIntoView()")
    opened.wait("document.querySelector('figure.drawn')")
    seen = """const shows = e => getComputedStyle(e).display !== "none";
        const f = document.querySelector("figure.drawn");
        return [shows(f.querySelector("img")), shows(f.querySelector(".live")), shows(document.querySelector("nav"))]"""
    assert opened.run(seen) == [False, True, True]
    opened.media("print")
    assert opened.run(seen) == [True, False, False]


def test_what_is_long_is_folded_but_printed(opened: Browser, shown: Path) -> None:
    closed = "return [...document.querySelectorAll('details.folded')].map(part => !part.open)"
    assert set(opened.run(closed)) == {True}
    assert shown.read_text().count('<details class="folded" open>') == len(opened.run(closed)) > 1  # without a script
    opened.run("document.querySelector('details.folded summary').click()")
    before = opened.run(closed)
    opened.run("""window.printed = [];
        addEventListener("beforeprint", () => printed.push(document.querySelectorAll("details:not([open])").length))""")
    opened.tool("Page.printToPDF")
    assert opened.run("return printed") == [0]
    assert opened.run(closed) == before


def test_no_word_of_a_button_is_broken_on_a_telephone(opened: Browser) -> None:
    opened.size(390, 844)
    opened.run("document.querySelector('#cells a').click()")
    opened.wait("document.querySelector('#runs .copy')")
    heights = opened.run("return ['#runs-close', '#runs .copy'].map(b => document.querySelector(b).offsetHeight)")
    assert max(heights) < 40


def test_every_line_says_whether_its_epsilon_holds(opened: Browser) -> None:
    choose(opened, "ε holds", "yes")
    assert opened.run(f"return {VISIBLE}.length") > 0
    column = """const at = [...document.querySelectorAll("#cells th")].findIndex(t => t.textContent === "ε holds");
        return [...document.querySelectorAll("#cells tbody tr")].map(row => row.cells[at].textContent)"""
    assert set(opened.run(column)) <= {"yes", "no ε", "up to rounding"}


def test_without_script_everything_static_shows(shown: Path, tmp_path: Path) -> None:
    # WebDriver's own questions are scripts: the page's source without its scripts is what such a browser has.
    text = shown.read_text()
    assert text.count("<img") > 5
    assert '<table id="cells">' in text
    assert 'id="tools" hidden' in text
    for cell in ("MNIST", "91.19 ± 0.51", "reproduced (tuned)"):
        assert cell in text.partition('<script type="application/json"')[0]


def test_runs_of_a_large_store_are_files_beside_the_page(
    chromium: Browser, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MOST_RUNS_INSIDE", 10)
    report = report_on(store, tmp_path)
    files = page.files_beside(report)
    assert len(files) == len(report.cells)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "index.html").write_text(page.page(report, tmp_path))
    inside = (tmp_path / "index.html").read_text().partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(inside).keys() == {"cells", "charts"}
    chromium.open(tmp_path / "index.html")
    chromium.run("document.querySelector('#cells a').click()")
    chromium.wait("document.querySelector('#runs polyline')")
    (tmp_path / "data/grids/1.js").unlink()
    chromium.run(
        "document.getElementById('runs-close').click(); document.querySelector('tr[data-cell=\"1\"] a').click()"
    )
    chromium.wait("document.getElementById('runs').innerText.includes('keep the report')")
    chromium.complaints()  # the missing file


def test_no_text_ends_the_script_it_stands_in() -> None:
    content = {"name": HOSTILE + "<!--\u2028&"}
    text = embed.as_script(content)
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == content

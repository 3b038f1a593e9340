"""The documents name only what exists: links, paths, functions, make targets, the cited version."""

import ast
import doctest
import re
from pathlib import Path

import pytest
import yaml
from test_architecture import LAW

from dp_bench import __version__
from dp_bench.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w/.])(?:dp_bench|tests|conf|benchmarks|examples|hydra_plugins|docs)/[\w./-]*\w/?")
WHERE = re.compile(r"^\| .* \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def heading_anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, punctuation dropped, spaces to hyphens."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def defined_names(path: Path) -> set[str]:
    """Functions, methods, classes and module-level names of a source file."""
    tree = ast.parse(path.read_text())
    names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), link
        assert not anchor or anchor in heading_anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_exist(page: Path) -> None:
    # `conf/hydra/launcher/ours.yaml` is the user's own.
    missing = {path for path in PATH.findall(page.read_text()) if not (ROOT / path).exists()}
    assert missing <= {"conf/hydra/launcher/ours.yaml"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_named_without_their_folder_exist(page: Path) -> None:
    ours = {
        path.name for room in ("dp_bench", "tests", "benchmarks", "examples") for path in (ROOT / room).rglob("*.py")
    }
    # The reader's own, in docs/own-task.md and docs/own-strategy.md.
    assert set(re.findall(r"`(\w+\.py)`", page.read_text())) <= ours | {"rings.py", "halving_clip.py"}


def test_where_things_are() -> None:
    rows = WHERE.findall((ROOT / "docs/architecture.md").read_text())
    assert len(rows) > 20
    wrong = [(file, name) for file, name in rows if name not in defined_names(ROOT / file)]
    assert not wrong


def test_the_law_is_the_one_that_is_enforced() -> None:
    assert f"\n    {LAW}\n" in (ROOT / "docs/architecture.md").read_text()


def test_format_numbers_are_where_contributing_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(rows) > 4
    wrong = [(name, file) for name, file in rows if name not in defined_names(ROOT / file)]
    assert not wrong


@pytest.mark.slow(reason="calibrates noise under two accountants")
def test_the_page_on_budgets_prints_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/budget.md").read_text()
    blocks = re.findall(r"^```console\n\$ dp-bench (.*)\n((?:.*\n)*?)```$", page, re.MULTILINE)
    assert len(blocks) == page.count("```console") > 3
    for command, printed in blocks:
        assert main(command.split()) == 0
        assert capsys.readouterr().out == printed
    assert page.count("```python") == 1
    assert doctest.testfile(str(ROOT / "docs/budget.md"), module_relative=False).failed == 0


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"^(?:\s*)make ([a-z]+)|`make ([a-z]+)`", page.read_text(), re.MULTILINE)
        assert {a or b for a, b in named} <= targets, page
    assert {"check", "test", "lint"} <= targets


def test_the_citation_names_this_version_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what the format requires
    assert citation["version"] == __version__
    assert citation["license"] == "MIT"
    (paper,) = citation["references"]
    assert paper["title"] == "Online Sensitivity Optimization in Differentially Private Learning"
    assert [author["family-names"] for author in paper["authors"]] == ["Galli", "Palamidessi", "Cucinotta"]


def test_hooks_are_local() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert {repo["repo"] for repo in hooks["repos"]} == {"local"}
    assert {hook["language"] for repo in hooks["repos"] for hook in repo["hooks"]} == {"system"}


# Words of ours that no reader would search for (docs and code use the field's: checksummed, cached, chunk, background).
# A space stands for a hyphen and an underscore too. `stand-in` and `stand_in` name stored synthetic data.
DIALECT = (
    r"seal(?:ed|s)?|memoi[sz]ed|remembered|whoever|nobody(?:'s)?|given up|mend(?:ed|s)?|made up|who goes on|goes on"
    r"|at once|at work|is at it|process is at|None where|beside training|imitation|doubt of"
    r"|an? (?:row|line|panel|task|file|table|sentence|score|account|checksum|dot) an? \w+"
    r"|one an? (?:run|seed|evaluation|grid|cell|point|line)|(?:minute|second|seeds?) a (?:point|grid|cell)"
    r"|(?:is|are) no (?:guarantee|proven|search|part|text|folder|value|yaml|step|number)|stand ins"
)
PRIVATE_WORD = re.compile(rf"(?<![a-z])(?:{DIALECT})(?![a-z])".replace(" ", "[-_ ]"), re.IGNORECASE)
SOURCES = sorted(
    path
    for room in ("dp_bench", "conf", "benchmarks", "hydra_plugins", "examples", "docs", "tests", "*.md")
    for path in ([*ROOT.glob(room)] if "*" in room else (ROOT / room).rglob("*"))
    if path.suffix in {".py", ".yaml", ".md", ".j2", ".js"} and path != Path(__file__)
)


@pytest.mark.parametrize("text", ["Made-up runs", "def test_is_mended(", "at_once", "one a seed", "a row a run"])
def test_private_words_are_found_however_they_are_written(text: str) -> None:
    assert PRIVATE_WORD.search(text)


def test_no_private_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := PRIVATE_WORD.search(line))
    ]
    assert not found

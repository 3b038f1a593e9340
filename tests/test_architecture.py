"""The law: every room imports only rooms to its left, and what plans or reports starts without torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from dp_bench.privacy.accountants import ACCOUNTANTS
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

PACKAGE = Path(__file__).parent.parent / "dp_bench"

LAW = (
    "errors < arguments < files < registry < paper < privacy < strategies < mechanism < data < tasks < experiment"
    " < training < testing < sweep < report < cli"
)
# Within the largest room the same holds for its parts: from stored runs to tables and charts, to what is written.
LAW_OF_REPORTS = (
    "names < load < epsilon_notes < chart < table < analysis < contents < cells < figures < tables < build"
    " < render < page < outputs < commands"
)
ROOMS, REPORTS = LAW.split(" < "), LAW_OF_REPORTS.split(" < ")
STARTS_WITHOUT_TORCH = [
    *("files.cached", "paper.published", "privacy.calibration", "privacy.query", "strategies", "data", "tasks"),
    *("experiment.config", "experiment.plan", "experiment.store", "training.job", "training.progress"),
    *("sweep.launch", "sweep.ledger", "sweep.live", "report.build", "cli"),
]


def room_of(path: Path, package: Path = PACKAGE) -> str:
    return path.relative_to(package).parts[0].removesuffix(".py")


def imported_rooms(path: Path, package: str = "dp_bench") -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return {name.removeprefix(f"{package}.").split(".")[0] for name in modules if name.startswith(f"{package}.")}


SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")
SOURCES_OF_REPORTS = [p for p in SOURCES if room_of(p) == "report" and p.parent.name + p.name != "report__init__.py"]


def to_the_right(room: str, imported: set[str], law: list[str]) -> set[str]:
    assert room in law, f"{room} has no place in the law"
    return {other for other in imported & set(law) if law.index(other) > law.index(room)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_what_is_to_the_left(path: Path) -> None:
    assert not to_the_right(room_of(path), imported_rooms(path), ROOMS)


@pytest.mark.parametrize("path", SOURCES_OF_REPORTS, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_part_of_the_report_imports_only_what_is_to_its_left(path: Path) -> None:
    room = room_of(path, PACKAGE / "report")
    assert not to_the_right(room, imported_rooms(path, "dp_bench.report"), REPORTS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_file_is_too_long_to_be_read_at_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


def test_every_room_exists() -> None:
    assert {room_of(path) for path in SOURCES} == set(ROOMS)
    assert {room_of(path, PACKAGE / "report") for path in SOURCES_OF_REPORTS} == set(REPORTS)


NAMES = {*STRATEGIES.built_in, *TASKS.built_in, *ACCOUNTANTS}
# The files (or folders) that may name a built-in strategy, data set or accountant, and why.
NAMING = {
    "strategies/__init__.py": "lists them",
    "tasks/__init__.py": "lists them",
    "privacy/accountants.py": "lists them",
    **{f"tasks/{name}.py": "its own name" for name in TASKS.built_in},
    "paper/readings.py": "the paper's cells by which one reading was chosen",
    "report/tables/ablations.py": "a table of the paper's own method, of its parts and of what replaces them",
    "report/epsilon_notes.py": "strategies as they were when sums were float32; RDP, by which their excess is counted",
    "testing/": "the audit: cases of its own, and splits of the budget that it can tell apart",
}


def names_in(tree: ast.AST) -> set[str]:
    """The built-in names that code has as text."""
    return NAMES & {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in NAMES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_code_asks_for_a_strategy_a_data_set_or_an_accountant_by_name(path: Path) -> None:
    if not str(path.relative_to(PACKAGE)).startswith(tuple(NAMING)):
        assert not names_in(ast.parse(path.read_text()))


@pytest.mark.parametrize("place", NAMING)
def test_what_may_name_them_does(place: str) -> None:
    found = [path for path in SOURCES if str(path.relative_to(PACKAGE)).startswith(place)]
    assert any(names_in(ast.parse(path.read_text())) for path in found), "it needs no exception"


@pytest.mark.parametrize(
    "code", ['name == "ag_news"', 'who in ("rdp", "pld")', 'FULL = "ag_news"', 'f(accountant="rdp")', '{"no_dp": 1}']
)
def test_what_asks_for_a_name_is_found(code: str) -> None:
    assert names_in(ast.parse(code))


@pytest.mark.parametrize("module", STARTS_WITHOUT_TORCH)
@pytest.mark.slow(reason="starts a process per module")
def test_starts_without_torch_or_matplotlib(module: str) -> None:
    code = f"import sys, dp_bench.{module}; print(sorted({{'torch', 'matplotlib', 'opacus'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

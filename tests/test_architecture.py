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
ROOMS = LAW.split(" < ")
STARTS_WITHOUT_TORCH = [
    *("files.cached", "paper.published", "privacy.calibration", "privacy.query", "strategies", "data", "tasks"),
    *("experiment.config", "experiment.plan", "experiment.store", "training.job", "training.progress"),
    *("sweep.launch", "sweep.ledger", "sweep.live", "report.build", "cli"),
]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "dp_bench":
            rooms |= {alias.name for alias in node.names if alias.name in ROOMS}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dp_bench."):
            rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("dp_bench.")}
    return rooms


SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_what_is_to_the_left(path: Path) -> None:
    room = room_of(path)
    assert room in ROOMS, f"{room} has no place in the law"
    to_the_right = {other for other in imported_rooms(path) if ROOMS.index(other) > ROOMS.index(room)}
    assert not to_the_right


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_file_is_too_long_to_be_read_at_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


def test_every_room_exists() -> None:
    assert {room_of(path) for path in SOURCES} == set(ROOMS)


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

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
    "errors < arguments < registry < files < paper < privacy < strategies < mechanism < data < tasks < experiment"
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


NAMES = {"strategy": set(STRATEGIES.built_in), "data set": set(TASKS.built_in), "accountant": set(ACCOUNTANTS)}
# Where they are listed; and the audit, which chooses splits of the budget that it can tell apart.
LISTED = {"strategies/__init__.py", "tasks/__init__.py", "privacy/accountants.py", "testing/subjects.py"}


def names_asked_for(tree: ast.AST) -> list[str]:
    """Built-in names that a comparison asks for, and lists of three or more of them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            least, parts = (
                1,
                [part for side in (node.left, *node.comparators) for part in getattr(side, "elts", [side])],
            )
        else:
            least, parts = 3, [*getattr(node, "elts", []), *(node.keys if isinstance(node, ast.Dict) else [])]
        words = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        found += [name for names in NAMES.values() if len(words & names) >= least for name in words & names]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_code_asks_for_a_strategy_a_data_set_or_an_accountant_by_name(path: Path) -> None:
    if str(path.relative_to(PACKAGE)) not in LISTED:
        assert not names_asked_for(ast.parse(path.read_text()))


@pytest.mark.parametrize(
    "code",
    ['name == "ag_news"', 'who in ("rdp", "pld")', 'A = ["online", "no_dp", "psac"]', '{"rdp": 1, "pld": 2, "prv": 3}'],
)
def test_what_asks_for_a_name_is_found(code: str) -> None:
    assert names_asked_for(ast.parse(code))


@pytest.mark.parametrize("module", STARTS_WITHOUT_TORCH)
@pytest.mark.slow(reason="starts a process per module")
def test_starts_without_torch_or_matplotlib(module: str) -> None:
    code = f"import sys, dp_bench.{module}; print(sorted({{'torch', 'matplotlib', 'opacus'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

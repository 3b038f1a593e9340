"""The published values: complete, faithful to the paper's source, and members of the paper's grids."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dp_bench.experiment import grid
from dp_bench.experiment.config import GridConfig
from dp_bench.experiment.resolve import axes_of
from dp_bench.paper.published import PRINTED_SCALE, Cell, best_point, cells
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "paper.tex"

# Where a strategy's numbers are in a row of a table, epsilon being column 0.
COLUMNS_WITH_VALUES = {"online": (1, 4), "fixed_threshold": (4, 8), "fixed_quantile": (8, 12), "adam_wosm": (12, 15)}
COLUMNS_OF_POINTS = {"online": (1, 2), "fixed_threshold": (2, 4), "fixed_quantile": (4, 6), "adam_wosm": (6, 7)}


def private(cell: Cell) -> bool:
    return STRATEGIES[cell.strategy].private


def test_counts() -> None:
    counts = Counter((cell.k == 7, cell.status) for cell in cells() if private(cell))
    assert counts == {(False, "value"): 94, (False, "diverged"): 2, (True, "point"): 47, (True, "diverged"): 1}
    assert sum(not private(cell) for cell in cells()) == 9
    assert len({(c.dataset, c.strategy, c.k, c.epsilon) for c in cells()}) == len(cells()) == 153


def test_every_budget_of_every_task_is_there() -> None:
    for name, task in TASKS.items():
        for strategy in {cell.strategy for cell in cells()}:
            for k in (5, 7, 9):
                found = {c.epsilon for c in cells() if (c.dataset, c.strategy, c.k) == (name, strategy, k)}
                assert found == (set(task.epsilons) if STRATEGIES[strategy].private else {float("inf")})


@pytest.mark.parametrize("cell", cells(), ids=lambda c: f"{c.dataset}-{c.strategy}-k{c.k}-{c.epsilon:g}")
def test_hyperparameters_are_grid_members(cell: Cell) -> None:
    if cell.status == "diverged":
        assert not cell.hyperparameters
        return
    axes = axes_of(cell.strategy, GridConfig(k=cell.k))
    assert set(cell.hyperparameters) == set(axes)
    for name, value in cell.hyperparameters.items():
        grid.snap(value, axes[name], name)


def tables() -> dict[str, str]:
    """The source of each table of the paper by its label."""
    bodies = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", PAPER.read_text(), re.DOTALL)
    return {re.search(r"\\label\{(.*?)\}", body).group(1): body for body in bodies}


@pytest.mark.skipif(not PAPER.exists(), reason=f"{PAPER} is not here")
def test_every_printed_number_is_in_the_paper() -> None:
    sources = tables()
    for cell in cells():
        source = sources[cell.table]
        if not private(cell):
            assert rf"$\rho = {cell.printed}$" in source
            continue
        rows = [[text.strip() for text in line.split("&")] for line in source.replace(r"\\", "\n").splitlines()]
        epsilon, *printed = cell.printed.split(" & ")
        (row,) = (row for row in rows if row[0] == epsilon)
        first, end = (COLUMNS_OF_POINTS if cell.k == 7 else COLUMNS_WITH_VALUES)[cell.strategy]
        assert row[first:end] == printed


def test_values_are_what_is_printed() -> None:
    """The columns that are used say what the printed text says, but for what the note explains."""
    for cell in cells():
        printed = cell.printed.split(" & ")
        if cell.mean is not None and cell.sd is not None:
            assert [round(cell.mean * PRINTED_SCALE, 6), round(cell.sd * PRINTED_SCALE, 6)] == [
                float(text) for text in printed[-2:]
            ]
        if not private(cell):
            assert cell.hyperparameters == {"lr": float(cell.printed)}
            continue
        assert float(printed[0]) == cell.epsilon or "epsilon printed as" in cell.note
        swept = STRATEGIES[cell.strategy].swept
        for name, text in zip(swept, printed[1:], strict=False):
            if cell.status == "diverged":
                assert text == "-"
            elif name == "lr" and "x 10^3" in cell.note:
                assert float(text) / 1000 == pytest.approx(cell.hyperparameters["lr"], rel=1e-9)
            elif name == "lr" and "not in the grid" in cell.note:
                assert (text, cell.hyperparameters["lr"]) == ("0.03162", 0.3162)
            else:
                assert float(text) == cell.hyperparameters[name]


def test_best_point() -> None:
    assert best_point("mnist", "fixed_threshold", 9, 3) == {"lr": 0.1, "clip": 0.1}  # printed 100, its star missing
    assert best_point("ag_news", "fixed_quantile", 5, 9) == {"lr": 0.003162, "quantile": 0.7}  # likewise
    assert best_point("ag_news", "fixed_threshold", 7, 9) == {"lr": 0.3162, "clip": 0.0464}
    assert best_point("fashion_mnist", "no_dp", 7, 3.0) == {"lr": 0.01467}
    assert best_point("fashion_mnist", "fixed_quantile", 5, 1) is None
    assert best_point("mnist", "online", 6, 3) is None


def test_starts_light() -> None:
    code = "import sys, dp_bench.paper.published; print(sorted({'torch', 'pandas', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

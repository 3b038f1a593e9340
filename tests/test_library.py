"""dp_bench as a library: what it gives, when it is imported, and the examples in its docstrings."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dp_bench
import dp_bench.testing

PROJECT = Path(__file__).parents[1]
FUNCTIONS = ["allocate", "clipped_sums", "epsilon", "load_results", "load_trajectories", "poisson", "release", "rng"]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_everything_that_is_listed_is_there() -> None:
    assert dir(dp_bench) == sorted(dp_bench.__all__)
    for name in dp_bench.__all__:
        assert getattr(dp_bench, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dp_bench.nothing
    assert {kind.__name__ for kind in dp_bench.STRATEGIES.values()} <= set(dp_bench.__all__)


def test_tools_for_authors_are_imported_by_name() -> None:
    assert dir(dp_bench.testing) == sorted(dp_bench.testing.__all__)
    assert all(callable(getattr(dp_bench.testing, name)) for name in dp_bench.testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dp_bench.testing.nothing


@pytest.mark.slow(reason="starts a process")
def test_nothing_is_imported_before_it_is_used() -> None:
    loaded = "sorted({'torch', 'pandas', 'hydra', 'dp_bench.strategies'} & set(sys.modules))"
    assert python(f"import sys, dp_bench; print({loaded})") == "[]"
    assert (
        python(f"import sys, dp_bench; dp_bench.Online, dp_bench.Query; print({loaded})") == "['dp_bench.strategies']"
    )
    assert "torch" in python(f"import sys; from dp_bench import clipped_sums; print({loaded})")
    assert python(f"import sys, dp_bench.testing; print({loaded})") == "[]"


def test_types_are_told_of_what_is_imported_late() -> None:
    """What mypy reads is what a user gets."""
    block = next(node for node in ast.parse(inspect.getsource(dp_bench)).body if isinstance(node, ast.If))
    told = {alias.name: node.module for node in block.body for alias in node.names}
    assert set(told) == set(dp_bench.__all__) - {"__version__"}
    for name, module in told.items():
        assert getattr(importlib.import_module(module), name) is getattr(dp_bench, name)
    assert (PROJECT / "dp_bench" / "py.typed").exists()


@pytest.mark.parametrize("name", [*FUNCTIONS, "FlatModel", "Query", "check_strategy"])
def test_the_example_in_the_docstring_holds(name: str) -> None:
    found = dp_bench if name in dp_bench.__all__ else importlib.import_module("dp_bench.testing.contract")
    documented = getattr(found, name)
    examples = doctest.DocTestFinder(recurse=False).find(documented, name, globs=vars(inspect.getmodule(documented)))
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed = sum(runner.run(example).failed for example in examples)
    assert failed == 0
    assert sum(len(example.examples) for example in examples) > 1


@pytest.mark.slow(reason="trains three small models")
def test_a_model_of_ones_own() -> None:
    example = PROJECT / "examples" / "own_model.py"
    assert len(example.read_text().splitlines()) < 40
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True)
    first, *rates = done.stdout.splitlines()
    assert first.startswith("epsilon 3.000 for 3 rates: noise multiplier 1.5")
    assert len(rates) == 3
    assert max(float(line.split("accuracy ")[1].split(",")[0]) for line in rates) > 0.75, done.stdout

"""Errors that the user can fix have one shape, and come from one place."""

import ast
import doctest
from pathlib import Path

import dp_bench
import dp_bench.errors
from dp_bench.errors import UserError, did_you_mean, invalid, nearest, unknown

PACKAGE = Path(dp_bench.__file__).parent
# The helpers themselves, and what passes on the text of argparse, Hydra or OmegaConf where it has no key.
MAKE_THEIR_OWN = {"errors.py", "experiment/hydra_errors.py"}


def test_the_shape_is_key_expectation_value_remedy() -> None:
    error = invalid("privacy.epsilon", "a positive number", -1, "set it, for example, to 3")
    assert isinstance(error, UserError)
    assert str(error) == "privacy.epsilon: expected a positive number, got -1; set it, for example, to 3"
    assert doctest.testmod(dp_bench.errors).failed == 0


def test_the_nearest_name_is_offered_only_if_it_is_near() -> None:
    names = ["online", "no_dp", "fixed_threshold"]
    assert str(unknown("strategy", "onlin", names)).endswith("got onlin; did you mean `online`?")
    assert str(unknown("strategy", "sgd", names)).endswith("got sgd; choose one of them")
    assert str(unknown("strategy", "", names, "see --help")).endswith("got nothing; see --help")
    assert (nearest("fixed_treshold", names), nearest("sgd", names)) == ("fixed_threshold", None)
    assert did_you_mean("x", []) == ""


def test_no_other_code_words_an_error_itself() -> None:
    """A UserError made elsewhere may only pass on a text that it was given."""
    worded = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UserError":
                text = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
                if isinstance(text, ast.Constant):
                    worded.append(str(path.relative_to(PACKAGE)))
    assert set(worded) <= MAKE_THEIR_OWN

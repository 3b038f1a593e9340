"""`dp-bench budget`: what a search costs, before anything is trained."""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from dp_bench.arguments import command_parser
from dp_bench.errors import UserError, invalid, unknown
from dp_bench.privacy.accountants import RDP, Sampling
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.calculator import ASKED, Question, lines, recommendation, table
from dp_bench.privacy.calibration import warnings_for
from dp_bench.privacy.selection import GEOMETRIC, Trials

_EXAMPLES = """\
examples:
  dp-bench budget --rows 60000 --batch-size 512 --epochs 10 --candidates 25 --epsilon 3
  dp-bench budget --rows 60000 --batch-size 512 --steps 1172 --candidates 81 --epsilon 3 --json
  dp-bench budget --rows 60000 --batch-size 512 --epochs 10 --candidates 25 --noise-multiplier 1.2

Batches are Poisson samples; neighbours add or remove one training example; the test set is public. More:
docs/budget.md.
"""
_MOST = 10**9
_LEAST_NOISE = 1e-3
# How the keys that accounting names are called here.
_OPTIONS = {
    "privacy.epsilon": "--epsilon",
    "privacy.delta": "--delta",
    "train.batch_size": "--batch-size",
    "privacy.selection.mean": "--mean",
    "privacy.accountant": "--accountants",
    "train.epochs": "--steps",
}


def main(argv: Sequence[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        question = _question(options)
        rows = table(question)
    except UserError as error:
        key, _, rest = str(error).partition(": ")
        rest = rest.replace("privacy.accountant=", "--accountants ")
        raise UserError(f"{_OPTIONS.get(key, key)}: {rest}") from None
    warnings = warnings_for(Budget(1.0, question.delta, RDP), question.sampling)
    if options.json:
        found = {
            "question": asdict(question),
            "allocators": [asdict(row) for row in rows],
            "recommendation": recommendation(question, rows),
            "warnings": warnings,
        }
        print(json.dumps(_finite(found), indent=1))
        return 0
    print("\n".join(lines(question, rows)))
    for text in warnings:
        print(f"warning: {text}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "budget",
        "What a search for hyperparameters costs under each allocator, and which one to take. Nothing is trained.",
        _EXAMPLES,
    )
    parser.add_argument("--rows", type=int, required=True, help="training examples")
    parser.add_argument("--batch-size", type=int, required=True, help="examples in a batch, on average")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--steps", type=int, help="of one run")
    length.add_argument("--epochs", type=float, help="of one run")
    parser.add_argument("--candidates", type=int, required=True, help="configurations to be tried")
    price = parser.add_mutually_exclusive_group(required=True)
    price.add_argument("--epsilon", type=float, help="of the whole search")
    price.add_argument("--noise-multiplier", type=float, metavar="NU", help="instead: what does this noise cost?")
    parser.add_argument("--delta", type=float, default=1e-5, help="default: 1e-5")
    parser.add_argument("--evaluate-every", type=int, default=50, metavar="STEPS", help="where halving may stop runs")
    parser.add_argument("--mean", type=float, help="expected trials of selection (default: as many as candidates)")
    parser.add_argument("--accountants", default=",".join(ASKED), help="comma-separated (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _question(options: argparse.Namespace) -> Question:
    for name in ("rows", "batch_size", "steps", "epochs", "candidates", "noise_multiplier", "evaluate_every"):
        value = getattr(options, name)
        if value is not None and not 0 < value <= _MOST:
            key = f"--{name.replace('_', '-')}"
            raise invalid(key, f"a positive number of at most {_MOST:.0e}", value, "correct it")
    if options.noise_multiplier is not None and options.noise_multiplier < _LEAST_NOISE:
        expected = f"at least {_LEAST_NOISE:g}, below which no accountant counts"
        raise invalid("--noise-multiplier", expected, options.noise_multiplier, "raise it")
    if options.epsilon is not None and not 0 < options.epsilon < math.inf:
        raise invalid("--epsilon", "a positive number", options.epsilon, "set it, for example, to 3")
    if not 0 < options.delta < 1:
        raise invalid("--delta", "a number between 0 and 1", options.delta, "set it, for example, to 1e-5")
    accountants = tuple(dict.fromkeys(options.accountants.split(",")))
    for name in accountants:
        if name not in ASKED:
            raise unknown("--accountants", name, ASKED)
    if options.mean is not None:
        Trials(GEOMETRIC, options.mean)  # refuses what cannot be expected
    sampling = Sampling(options.batch_size, options.rows)
    steps = options.steps or round(options.epochs * options.rows / options.batch_size)
    if steps < 1:
        raise invalid("--epochs", "enough for at least one step", options.epochs, "train for longer")
    return Question(
        sampling,
        steps,
        options.candidates,
        options.delta,
        options.epsilon,
        options.noise_multiplier,
        options.evaluate_every,
        options.mean,
        accountants,
    )


def _finite(content: object) -> object:
    """JSON knows no infinity: null."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content

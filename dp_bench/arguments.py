"""The parsers of the commands' arguments: argparse, with errors in the one shape of `dp_bench.errors`."""

import argparse
import textwrap
from typing import NoReturn

from dp_bench.errors import UserError, did_you_mean, invalid


def usage_errors_in_one_line() -> None:
    """For every parser from now on, including Hydra's: argparse itself prints its usage and exits."""
    argparse.ArgumentParser.error = _usage_error  # type: ignore[method-assign, assignment]


def command_parser(name: str, description: str, examples: str = "") -> argparse.ArgumentParser:
    """Of `dp-bench NAME`. An option that is cut short is refused: `--clear` might mean another one tomorrow."""
    return argparse.ArgumentParser(
        prog=f"dp-bench {name}",
        allow_abbrev=False,
        description=textwrap.fill(description, 100),
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _usage_error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    expected = f"what {parser.prog} --help lists"
    unrecognized = message.removeprefix("unrecognized arguments: ")
    if unrecognized != message:
        options = [option for option in parser._option_string_actions if option.startswith("--")]
        option = unrecognized.split()[0].partition("=")[0]
        near = did_you_mean(option, options) if option.startswith("-") else ""
        raise invalid("arguments", expected, unrecognized, near or "leave it out")
    raise UserError(f"{message}; see {parser.prog} --help")

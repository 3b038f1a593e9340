"""The one exception that is the user's to mend; the command line prints it as one line and exits with 2."""

import argparse
from collections.abc import Callable
from typing import NoReturn


class UserError(Exception):
    """Say what is wrong, the value found, what was expected and what to do, in one line."""


class JobsFailed(Exception):
    """Some configurations of a sweep could not be done; the others are. The command line exits with 1."""


def failure_of(work: Callable[[], None]) -> str | None:
    """Why it could not be done, in one line, or None. Hydra would dress up an exception and print more than one."""
    try:
        work()
    except UserError as error:
        return str(error)
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, a folder that may not be written
        return f"{error}; choose another runs=FOLDER, or mend this one"
    return None


def usage_errors_in_one_line() -> None:
    """Every parser's from now on, Hydra's among them: by itself, argparse prints its usage and exits."""
    argparse.ArgumentParser.error = _usage_error  # type: ignore[method-assign, assignment]


def _usage_error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    unknown = message.removeprefix("unrecognized arguments: ")
    if unknown == message:
        raise UserError(f"{message}; see {parser.prog} --help")
    raise UserError(f"arguments: found {unknown}, expected what {parser.prog} --help lists; leave it out")

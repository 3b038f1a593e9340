"""Errors that the user can fix. The command line prints each as one line and exits with its
`exit_code`: 2, or 3 for a damaged file and 4 for a run that another process holds.

Every one has the same shape, `key: expected X, got Y; remedy`, and is made by `invalid` or `unknown`:

>>> print(invalid("privacy.epsilon", "a positive number", -1, "set it, for example, to 3"))
privacy.epsilon: expected a positive number, got -1; set it, for example, to 3
>>> print(unknown("strategy", "onlin", ["online", "no_dp"]))
strategy: expected one of online, no_dp, got onlin; did you mean `online`?
"""

import difflib
from collections.abc import Callable, Iterable


class UserError(Exception):
    """One line that names the key, what was expected, what was found and the remedy."""

    exit_code = 2


class DamagedFile(UserError):
    """A stored file that is not what was written: it is never believed, and no command repairs it by itself."""

    exit_code = 3


class HeldElsewhere(UserError):
    """Another process is running the same run; it was left alone."""

    exit_code = 4


class JobsFailed(Exception):
    """Some configurations of a sweep failed; the others are done. The command line exits with code 1."""


def invalid(key: str, expected: str, got: object, remedy: str, kind: type[UserError] | None = None) -> UserError:
    """The error for a value that cannot be used. `key` is what the user wrote: a config key, an option or a file."""
    return (kind or UserError)(f"{key}: expected {expected}, got {got}; {remedy}")


def unknown(key: str, got: str, choices: Iterable[str], remedy: str = "choose one of them") -> UserError:
    """The error for a name that is not among `choices`; the nearest one, if any is near, replaces the remedy."""
    names = list(choices)
    return invalid(key, f"one of {', '.join(names)}", got or "nothing", did_you_mean(got, names) or remedy)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The nearest of `names` as a question; empty if none is near."""
    near = nearest(name, names)
    return f"did you mean `{near}`?" if near else ""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like it, if any is near."""
    return next(iter(difflib.get_close_matches(name, list(names), 1)), None)


def failure_of(work: Callable[[], None]) -> UserError | None:
    """Why the work failed, in one line, or None. Hydra would wrap an exception and print several lines."""
    try:
        work()
    except UserError as error:
        return error.with_traceback(None)
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, a folder that is not writable
        return UserError(f"{error}; choose another runs=FOLDER, or fix this one")
    return None

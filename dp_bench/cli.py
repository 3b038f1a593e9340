"""The command `dp-bench`. Every failure that the user can fix is one line, with an exit code that tells which:

0 done; 1 some configurations of a sweep failed; 2 invalid command or folder, nothing was written; 3 a stored file is
damaged; 4 another process holds the run; 130 interrupted; 143 terminated.
"""

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from dp_bench import __version__
from dp_bench.arguments import usage_errors_in_one_line
from dp_bench.errors import JobsFailed, UserError, unknown
from dp_bench.files.names import one_line

_NOTHING = "nothing was written"


class Command(NamedTuple):
    """A command is imported when it is run: help must not wait for Hydra, nor data for torch."""

    what: str
    module: str
    function: str = "main"  # of the arguments; returns the exit code
    left: str = "the same command resumes from the last checkpoint"  # what is there after an interrupt


COMMANDS = {
    "run": Command("train a configuration, or with -m whole grids", "sweep.command", "run"),
    "plan": Command("what a sweep would run, spend and take", "sweep.command", "plan", left=_NOTHING),
    "budget": Command("what any search costs, and how to pay for it", "privacy.command", left=_NOTHING),
    "data": Command(
        "find, verify and fetch the data sets", "tasks.command", left="the same command fetches what is missing"
    ),
    "status": Command("how far the runs of a sweep are", "report.commands.status", left=_NOTHING),
    "show": Command("explain one run", "report.commands.show", left=_NOTHING),
    "report": Command(
        "tables, figures and a page from the runs",
        "report.commands.report",
        left="the report that was there is unchanged",
    ),
    "reproduce": Command("a part of the paper in a quarter of an hour", "report.commands.reproduce"),
    "repeat": Command("does this machine give the same bits?", "report.commands.repeat"),
    "archive": Command(
        "keep finished runs as a few text files", "experiment.archive", left="the same command adds what is missing"
    ),
    "trade-off": Command("clipping bias against noise; not private", "sweep.command", "trade_off", left=_NOTHING),
    "audit": Command("try to refute the privacy claims of this code", "testing.command", left=_NOTHING),
}

_LISTED = "\n".join(f"  {name:<10} {each.what:<46} dp-bench {name} --help" for name, each in COMMANDS.items())
HELP = f"""dp-bench {__version__}: private hyperparameter searches at their whole privacy cost

usage: dp-bench COMMAND [...]

{_LISTED}

examples:
  dp-bench data
  dp-bench run dataset=mnist strategy=online strategy.lr=0.316 grid.k=5 privacy.epsilon=3
  dp-bench plan experiment=mnist_k5
  dp-bench budget --rows 60000 --batch-size 512 --epochs 10 --candidates 25 --epsilon 3
  dp-bench run -m experiment=mnist_k5
  dp-bench run -m dataset=mnist,ag_news strategy=online,fixed_threshold grid.k=5,7 privacy.epsilon=3,9
  dp-bench report --profile paper
  dp-bench trade-off dataset=mnist strategy=online strategy.lr=0.316 grid.k=5 privacy.epsilon=3

Results are kept under runs/; a finished run is never repeated, a killed one resumes.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    with stop_signals() as received:
        try:
            return _main(words[0], words[1:])
        except BaseException as error:
            # An interrupt in the middle of an import may come out as any other exception.
            if not received and not isinstance(error, KeyboardInterrupt):
                raise
            return _interrupted(words[0], received[0] if received else signal.SIGINT)


def _interrupted(name: str, number: int) -> int:
    command = COMMANDS.get(name)
    how = "terminated" if number == signal.SIGTERM else "interrupted"
    print(f"\ndp-bench: {how}; {command.left if command else _NOTHING}", file=sys.stderr)
    return 128 + number


def _main(name: str, rest: Sequence[str]) -> int:
    try:
        usage_errors_in_one_line()
        if name in ("-h", "--help", "help"):
            print(HELP, end="")
        elif name == "--version":
            print(f"dp-bench {__version__}")
        elif name in COMMANDS:
            module = importlib.import_module(f"dp_bench.{COMMANDS[name].module}")
            return int(getattr(module, COMMANDS[name].function)(rest))
        else:
            raise unknown("command", name, COMMANDS, "see dp-bench --help")
    except UserError as error:
        print(f"dp-bench: {one_line(str(error))}", file=sys.stderr)
        return error.exit_code
    except JobsFailed as error:
        print(f"dp-bench: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"dp-bench: {one_line(str(error))}; choose another folder, or fix this one", file=sys.stderr)
        return 2
    return 0


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The signals to stop that were received, each of which raises KeyboardInterrupt; never a traceback."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    def unraisable(found: Any) -> None:
        if not received:  # else of an interrupt in a place that cannot raise
            hook(found)

    hook = sys.unraisablehook
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.unraisablehook = unraisable
    try:
        yield received
    finally:
        for number, handler in before.items():
            # Once interrupted, another one ends what is still shutting down, and says nothing.
            signal.signal(number, signal.SIG_DFL if received else handler)
        if not received:
            sys.unraisablehook = hook

"""The command `dp-bench`. Every failure that the user can fix is one line, with an exit code that tells which:

0 done; 1 some configurations of a sweep failed; 2 invalid command or folder, nothing was written; 3 a stored file is
damaged; 4 another process holds the run; 130 interrupted; 143 terminated.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dp_bench import __version__
from dp_bench.errors import (
    Failure,
    JobsFailed,
    UserError,
    command_parser,
    invalid,
    stop_signals,
    unknown,
    usage_errors_in_one_line,
)
from dp_bench.files.names import one_line

HELP = f"""dp-bench {__version__}: private hyperparameter searches at their whole privacy cost

usage: dp-bench COMMAND [...]

  run        train a configuration, or with -m whole grids  dp-bench run --help
  plan       what a sweep would run, spend and take         dp-bench plan --help
  budget     what any search costs, and how to pay for it   dp-bench budget --help
  data       find, verify and fetch the data sets           dp-bench data --help
  status     how far the runs of a sweep are                dp-bench status --help
  show       explain one run                                dp-bench show --help
  report     tables, figures and a page from the runs       dp-bench report --help
  reproduce  a part of the paper in a quarter of an hour    dp-bench reproduce --help
  repeat     does this machine give the same bits?          dp-bench repeat --help
  archive    keep finished runs as a few text files         dp-bench archive --help
  trade-off  clipping bias against noise; not private       dp-bench trade-off --help
  audit      try to refute the privacy claims of this code  dp-bench audit --help

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


RUN_HELP = """usage: dp-bench run [-m] [GROUP=NAME ...] [KEY=VALUE ...]

Train one configuration with all its seeds, or, with -m, every configuration of the chosen grids. This is a Hydra
application: --cfg job shows a configuration, --hydra-help explains the rest.

examples:
  dp-bench run dataset=mnist strategy=online strategy.lr=0.316 grid.k=5 privacy.epsilon=3
  dp-bench run dataset=ag_news strategy=adam_wosm strategy.clip=0.01 seeds=[0,1]
  dp-bench run dataset=fashion_mnist strategy=no_dp strategy.lr=0.00316 device=cuda
  dp-bench run -m experiment=mnist_k5
  dp-bench run -m dataset=mnist,ag_news strategy=online,fixed_threshold grid.k=5,7 privacy.epsilon=3,9
  dp-bench run -m experiment=ag_news_k9 hydra.launcher.n_jobs=4
  dp-bench run -m experiment=paper hydra/launcher=ray_cluster

groups:
{groups}

keys and their defaults:
{keys}
"""


TRADE_OFF_HELP = """usage: dp-bench trade-off [GROUP=NAME ...] [KEY=VALUE ...]

The paper's figure on the choice of the clipping threshold C: the cosine between the sanitised and the true gradient of
the next batch, for C from 0.01 to 100, before steps 100, 250, 500, 750 and 950, mean of 20 draws of noise.

NOT PRIVATE: it reads true gradients. Never publish it of data that need protection.

It takes the words of dp-bench run for one configuration, and trains its first seed as run would, as far as the last
of these steps. The run itself is neither read nor written; an interrupted trade-off starts over. Kept under
runs/PROFILE/trade_off/DATASET/ in place of an earlier one; dp-bench report then draws it.

examples:
  dp-bench trade-off dataset=mnist strategy=online strategy.lr=0.316 grid.k=5 privacy.epsilon=3
  dp-bench trade-off dataset=ag_news strategy=fixed_threshold strategy.lr=0.316 strategy.clip=0.1 seeds=[3]
  dp-bench trade-off profile=quick dataset=mnist strategy=online strategy.lr=0.316 train.epochs=3

groups and keys: dp-bench run --help
"""


# Commands with a command line of their own.
_MODULES = {
    "budget": "dp_bench.privacy.command",
    "status": "dp_bench.report.status",
    "show": "dp_bench.report.show",
    "report": "dp_bench.report.command",
    "reproduce": "dp_bench.report.reproduce",
    "repeat": "dp_bench.report.repeat",
    "archive": "dp_bench.experiment.archive",
    "audit": "dp_bench.testing.command",
}


# What an interrupt leaves; a run and a sweep resume.
_LEFT = {
    **dict.fromkeys(("plan", "budget", "status", "show", "trade-off", "audit"), "nothing was written"),
    "report": "the report that was there is unchanged",
    "archive": "the same command adds what is missing",
    "data": "the same command fetches what is missing",
}


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


def _interrupted(command: str, number: int) -> int:
    then = _LEFT.get(command, "the same command resumes from the last checkpoint")
    how = "terminated" if number == signal.SIGTERM else "interrupted"
    print(f"\ndp-bench: {how}; {then}", file=sys.stderr)
    return 128 + number


def _main(command: str, rest: Sequence[str]) -> int:
    try:
        usage_errors_in_one_line()
        # Each command imports what it needs: help must not wait for Hydra, nor data for torch.
        if command in ("-h", "--help", "help"):
            print(HELP, end="")
        elif command == "--version":
            print(f"dp-bench {__version__}")
        elif command == "run" and {"-h", "--help"} & set(rest):
            print(_run_help(), end="")
        elif command == "run":
            _hydra(rest)
        elif command == "plan":
            _plan(rest)
        elif command == "trade-off":
            _trade_off(rest)
        elif command == "data":
            from dp_bench.data.command import main as data
            from dp_bench.tasks import TASKS

            return data(rest, TASKS)
        elif command in _MODULES:
            return int(importlib.import_module(_MODULES[command]).main(rest))
        else:
            raise unknown("command", command, ["run", "plan", "data", "trade-off", *_MODULES], "see dp-bench --help")
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


def configuration_folder() -> Path:
    """conf/ of the source tree, or the copy that an installed package carries."""
    package = Path(__file__).parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def _run_help() -> str:
    """Hydra's own help takes it two seconds."""
    from dataclasses import asdict

    import yaml

    from dp_bench.experiment.config import defaults, strategy_schema
    from dp_bench.strategies import STRATEGIES
    from dp_bench.tasks import TASKS

    groups = ("dataset", "strategy", "grid", "profile", "experiment")
    found = {g: {f.stem for f in (configuration_folder() / g).glob("*.yaml")} for g in groups}
    found["strategy"] |= set(STRATEGIES)
    found["dataset"] |= set(TASKS)
    names = {group: ", ".join(sorted(each)) for group, each in found.items()}
    keys = defaults()
    keys["strategy"] = {name: asdict(strategy_schema(name)()) for name in STRATEGIES.loadable()}
    return RUN_HELP.format(
        groups="\n".join(f"  {group}={listed}" for group, listed in names.items()),
        keys="\n".join(f"  {line}" for line in yaml.safe_dump(keys, sort_keys=False).splitlines()),
    )


def _plan(arguments: Sequence[str]) -> None:
    """The same words as a multirun's, but nothing is run."""
    parser = command_parser(
        "plan",
        "Show every grid's privacy ledger, the number of runs and how long they take. Nothing is run.",
        "examples:\n  dp-bench plan experiment=mnist_k5\n  dp-bench plan experiment=paper\n"
        "  dp-bench plan --accountants pld,prv dataset=mnist strategy=online,adam_wosm grid.k=5 privacy.epsilon=3,9",
    )
    parser.add_argument("--accountants", default="", help="second opinions, comma-separated: pld, prv (seconds each)")
    parser.add_argument("overrides", nargs="*", help="what dp-bench run -m would take")
    chosen = parser.parse_args(arguments)
    from dp_bench.privacy.accountants import ACCOUNTANTS

    slow = [name for name, accountant in ACCOUNTANTS.items() if not accountant.quick]
    for name in filter(None, chosen.accountants.split(",")):
        if name not in slow:
            raise unknown("--accountants", name, slow)
    ours = ["hydra.sweeper.plan_only=true", f"hydra.sweeper.accountants=[{chosen.accountants}]"]
    _hydra(["-m", *chosen.overrides], ours=ours)


def _trade_off(arguments: Sequence[str]) -> None:
    if {"-h", "--help"} & set(arguments):
        print(TRADE_OFF_HELP, end="")
        return
    for argument in arguments:
        if argument == "-m" or argument.startswith(("--multi", "hydra.mode=")):
            raise invalid(argument, "one configuration", "a sweep", "leave it out")
    from dp_bench.training.trade_off import trade_off_job

    _hydra(arguments, trade_off_job)


def _hydra(
    arguments: Sequence[str], job: Callable[[Any], Failure | None] | None = None, ours: Sequence[str] = ()
) -> None:
    """Compose a configuration and give it to `job`, by default that of `dp-bench run`. `ours`: words of this file."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf import DictConfig
    from omegaconf.errors import OmegaConfBaseException

    from dp_bench.experiment import config, config_files, overrides
    from dp_bench.experiment.hydra_errors import explained
    from dp_bench.strategies import STRATEGIES
    from dp_bench.tasks import TASKS
    from dp_bench.training.job import run_job

    overrides.check_words(arguments, config.boolean_keys())
    config_files.check_files(arguments)
    config.register()
    arguments = [*(config.resolved(argument) for argument in arguments), *ours]
    for refused in STRATEGIES.refused() + TASKS.refused():
        print(f"warning: {refused}", file=sys.stderr)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra would print and exit by itself; errors are reported here
    sys.argv = ["dp-bench run", *arguments]
    carry_out = job or run_job
    failures: list[Failure] = []

    def task(composed: DictConfig) -> Failure | None:
        try:
            failure = carry_out(composed)
        except OmegaConfBaseException as error:  # which Hydra would print on a line of its own
            failure = Failure(explained(error, config.known_keys()))
        if failure is not None:  # of a single run; a sweep collects what its jobs return, wherever they ran
            failures.append(failure)
        return failure

    try:
        hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(task)()
    except (HydraException, OmegaConfBaseException) as error:
        raise explained(error, config.known_keys()) from None
    except Exception as error:
        if isinstance(error, UserError | JobsFailed | OSError) or not overrides.is_hydras(error):
            raise
        raise overrides.in_hydras_words(error) from None
    if failures:
        refusal = UserError(failures[0])
        refusal.exit_code = failures[0].exit_code
        raise refusal

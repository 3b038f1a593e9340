"""The command `dp-bench`. A user's mistake is one line and exit code 2; any other failure is ours."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dp_bench import __version__
from dp_bench.errors import JobsFailed, UserError, usage_errors_in_one_line

HELP = f"""dp-bench {__version__}: private hyperparameter searches at their whole privacy cost

usage: dp-bench COMMAND [...]

  run        train a configuration, or with -m whole grids  dp-bench run --help
  plan       what a sweep would run, spend and take         dp-bench plan --help
  data       find, verify and fetch the data sets           dp-bench data --help
  report     tables, figures and a page from the runs       dp-bench report --help
  trade-off  clipping bias against noise; not private       dp-bench trade-off --help

examples:
  dp-bench data
  dp-bench run dataset=mnist strategy=online strategy.lr=0.316 grid.k=5 privacy.epsilon=3
  dp-bench plan experiment=mnist_k5
  dp-bench run -m experiment=mnist_k5
  dp-bench run -m dataset=mnist,ag_news strategy=online,fixed_threshold grid.k=5,7 privacy.epsilon=3,9
  dp-bench report --profile paper
  dp-bench trade-off dataset=mnist strategy=online strategy.lr=0.316 grid.k=5 privacy.epsilon=3

Results are kept under runs/; a finished run is never repeated, a killed one goes on where it was.
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


def main(argv: Sequence[str] | None = None) -> int:
    command, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
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
        elif command == "data":
            from dp_bench.data.command import main as data

            return data(rest)
        elif command == "report":
            from dp_bench.report.command import main as report

            return report(rest)
        elif command == "trade-off":
            _trade_off(rest)
        else:
            known = "run, plan, data, report, trade-off"
            raise UserError(f"command: found {command!r}, expected one of {known}; see dp-bench --help")
    except UserError as error:
        print(f"dp-bench: {error}", file=sys.stderr)
        return 2
    except JobsFailed as error:
        print(f"dp-bench: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever was reading has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"dp-bench: {error}; choose another folder, or mend this one", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        then = "nothing was written" if command == "trade-off" else "the same command goes on from the last checkpoint"
        print(f"\ndp-bench: interrupted; {then}", file=sys.stderr)
        return 130
    return 0


def configuration_folder() -> Path:
    """conf/ of the source tree, or the copy that an installed package carries."""
    package = Path(__file__).parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def _run_help() -> str:
    """Hydra's own help takes it two seconds."""
    from dataclasses import asdict

    import yaml

    from dp_bench.config import Config, strategy_schema
    from dp_bench.strategies import STRATEGIES

    groups = ("dataset", "strategy", "profile", "experiment")
    names = {g: ", ".join(sorted(f.stem for f in (configuration_folder() / g).glob("*.yaml"))) for g in groups}
    keys = asdict(Config())
    keys["strategy"] = {name: asdict(strategy_schema(name)()) for name in STRATEGIES}
    return RUN_HELP.format(
        groups="\n".join(f"  {group}={listed}" for group, listed in names.items()),
        keys="\n".join(f"  {line}" for line in yaml.safe_dump(keys, sort_keys=False).splitlines()),
    )


def _plan(arguments: Sequence[str]) -> None:
    """The same words as a multirun's, but nothing is run."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="dp-bench plan",
        description="Show every grid's privacy ledger, the number of runs and how long they take. Nothing is run.",
        epilog="examples:\n  dp-bench plan experiment=mnist_k5\n  dp-bench plan experiment=paper\n"
        "  dp-bench plan --accountants pld,prv dataset=mnist strategy=online,adam_wosm grid.k=5 privacy.epsilon=3,9",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--accountants", default="", help="second opinions, comma-separated: pld, prv (seconds each)")
    parser.add_argument("overrides", nargs="*", help="what dp-bench run -m would take")
    chosen = parser.parse_args(arguments)
    _hydra(
        ["-m", *chosen.overrides, "hydra.sweeper.plan_only=true", f"hydra.sweeper.accountants=[{chosen.accountants}]"]
    )


def _trade_off(arguments: Sequence[str]) -> None:
    if {"-h", "--help"} & set(arguments):
        print(TRADE_OFF_HELP, end="")
        return
    for argument in arguments:
        if argument == "-m" or argument.startswith(("--multi", "hydra.mode=")):
            raise UserError(f"{argument}: found a sweep, expected one configuration; leave it out")
    from dp_bench.trade_off import trade_off_job

    _hydra(arguments, trade_off_job)


def _hydra(arguments: Sequence[str], job: Callable[[Any], str | None] | None = None) -> None:
    """Compose a configuration and give it to `job`, by default that of `dp-bench run`."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf import DictConfig
    from omegaconf.errors import OmegaConfBaseException

    from dp_bench import config
    from dp_bench.job import run_job

    for argument in arguments:
        if "hydra/sweeper" in argument and not argument.endswith("=grid"):
            raise UserError(
                f"{argument}: found another sweeper, expected hydra/sweeper=grid: no other divides a budget"
            )
    config.register()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra would print and exit by itself; errors are reported here
    sys.argv = ["dp-bench run", *arguments]
    carry_out = job or run_job
    failures: list[str] = []

    def task(composed: DictConfig) -> str | None:
        failure = carry_out(composed)
        if failure is not None:  # of a single run; a sweep collects what its jobs return, wherever they ran
            failures.append(failure)
        return failure

    try:
        hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(task)()
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_one_line(error)) from None
    if failures:
        raise UserError(failures[0])


def _one_line(error: Exception) -> str:
    """Hydra's messages take several lines and hide the reason in the exception's cause."""
    texts = [str(e) for e in (error, error.__cause__) if e is not None]
    return "; ".join(" ".join(text.split()) for text in dict.fromkeys(texts))

"""The command `dp-bench`. A user's mistake is one line and exit code 2; any other failure is ours."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dp_bench import __version__
from dp_bench.errors import UserError

HELP = f"""dp-bench {__version__}: private hyperparameter searches at their whole privacy cost

usage: dp-bench COMMAND [...]

  run     train a configuration with all its seeds      dp-bench run --help
  data    find, verify and fetch the data sets          dp-bench data --help

examples:
  dp-bench data
  dp-bench run dataset=mnist strategy=online strategy.lr=0.316 grid.k=5 privacy.epsilon=3
  dp-bench run profile=smoke dataset=ag_news strategy=adam_wosm strategy.clip=0.01

Results are kept under runs/; a finished run is never repeated, a killed one goes on where it was.
"""


def main(argv: Sequence[str] | None = None) -> int:
    command, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        # Each command imports what it needs: help must not wait for Hydra, nor data for torch.
        if command in ("-h", "--help", "help"):
            print(HELP, end="")
        elif command == "--version":
            print(f"dp-bench {__version__}")
        elif command == "run":
            _hydra(rest)
        elif command == "data":
            from dp_bench.data.command import main as data

            return data(rest)
        else:
            raise UserError(f"command: found {command!r}, expected one of run, data; see dp-bench --help")
    except UserError as error:
        print(f"dp-bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ndp-bench: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


def configuration_folder() -> Path:
    """conf/ of the source tree, or the copy that an installed package carries."""
    package = Path(__file__).parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def _hydra(arguments: Sequence[str]) -> None:
    import hydra
    from hydra.errors import HydraException
    from omegaconf import DictConfig
    from omegaconf.errors import OmegaConfBaseException

    from dp_bench import config
    from dp_bench.job import run_job

    config.register()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra would print and exit by itself; errors are reported here
    sys.argv = ["dp-bench run", *arguments]
    failures: list[str] = []

    def task(composed: DictConfig) -> None:
        failure = run_job(composed)
        if failure is not None:
            failures.append(failure)

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

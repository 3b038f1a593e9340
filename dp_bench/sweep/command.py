"""`dp-bench run`, `plan` and `trade-off`: commands that compose a configuration with Hydra.

Each imports what it needs: help must not wait for Hydra, nor a plan for torch.
"""

import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from dp_bench.arguments import command_parser
from dp_bench.errors import JobsFailed, UserError, failure_of, invalid, unknown

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
{keys}"""


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


def run(arguments: Sequence[str]) -> int:
    if not {"-h", "--help"} & set(arguments):
        return _hydra(arguments)
    # Hydra's own help takes it two seconds.
    from dataclasses import asdict

    import yaml

    from dp_bench.experiment.conf import groups
    from dp_bench.experiment.config import defaults, strategy_schema
    from dp_bench.strategies import STRATEGIES
    from dp_bench.tasks import TASKS

    others = {"strategy": set(STRATEGIES), "dataset": set(TASKS)}
    names = {group: ", ".join(sorted(each | others.get(group, set()))) for group, each in groups().items()}
    keys = defaults()
    keys["strategy"] = {name: asdict(strategy_schema(name)()) for name in STRATEGIES.loadable()}
    listed = "\n".join(f"  {group}={listed}" for group, listed in names.items())
    print(RUN_HELP.format(groups=listed, keys=textwrap.indent(yaml.safe_dump(keys, sort_keys=False), "  ")), end="")
    return 0


def plan(arguments: Sequence[str]) -> int:
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
    return _hydra(["-m", *chosen.overrides], ours=ours)


def trade_off(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(TRADE_OFF_HELP, end="")
        return 0
    for argument in arguments:
        if argument == "-m" or argument.startswith(("--multi", "hydra.mode=")):
            raise invalid(argument, "one configuration", "a sweep", "leave it out")
    from dp_bench.training.trade_off import measure_configuration

    return _hydra(arguments, measure_configuration)


def _hydra(arguments: Sequence[str], work: Callable[[Any], None] | None = None, ours: Sequence[str] = ()) -> int:
    """Compose a configuration and `work` on it, by default as `dp-bench run` does. `ours`: words of this file."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf import DictConfig
    from omegaconf.errors import OmegaConfBaseException

    from dp_bench.experiment import config, config_files, overrides
    from dp_bench.experiment.conf import configuration_folder
    from dp_bench.experiment.hydra_errors import explained
    from dp_bench.experiment.validation import parse
    from dp_bench.strategies import STRATEGIES
    from dp_bench.tasks import TASKS
    from dp_bench.training.job import run_configuration

    overrides.check_words(arguments)
    config_files.check_files(arguments)
    config.register()
    arguments = [*(config.resolved(argument) for argument in arguments), *ours]
    for refused in STRATEGIES.refused() + TASKS.refused():
        print(f"warning: {refused}", file=sys.stderr)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra would print and exit by itself; errors are reported here
    sys.argv = ["dp-bench run", *arguments]
    carry_out = work or run_configuration
    failures: list[UserError] = []

    def task(composed: DictConfig) -> UserError | None:
        try:
            failure = failure_of(lambda: carry_out(parse(composed)))
        except OmegaConfBaseException as error:  # which Hydra would print on a line of its own
            failure = explained(error)
        if failure is not None:  # of a single run; a sweep collects what its jobs return, wherever they ran
            failures.append(failure)
        return failure

    try:
        hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(task)()
    except (HydraException, OmegaConfBaseException) as error:
        raise explained(error) from None
    except Exception as error:
        if isinstance(error, UserError | JobsFailed | OSError) or not overrides.is_hydras(error):
            raise
        raise overrides.in_hydras_words(error) from None
    if failures:
        raise failures[0]
    return 0

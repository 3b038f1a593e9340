"""Hydra's sweeper: what a multirun chose, expanded into jobs (dp_bench/experiment/plan.py) and launched."""

import importlib.util
import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from dp_bench.errors import invalid

# Extras, the package that each brings, and the launchers in it that conf/hydra/launcher/ builds on.
_EXTRAS = {
    "ray": ("hydra_plugins.hydra_ray_launcher", ("ray",)),
    "slurm": ("hydra_plugins.hydra_submitit_launcher", ("submitit_slurm", "submitit_local")),
}
_ON_THIS_MACHINE = ("basic", "joblib", "ray_local", "slurm_local")  # others may have devices that this one has not
_MOST_JOBS = 4096
_MOST_VALUES = 10_000  # of one key
_FOLDERS, _OTHERS = ("DP_BENCH_DATA", "DP_BENCH_CACHE"), ("DP_BENCH_OFFLINE", "PYTHONPATH")


@dataclass
class GridSweeperConfig:
    _target_: str = "hydra_plugins.grid_sweeper.GridSweeper"
    # Choices that a configuration file makes, as on a command line.
    params: dict[str, Any] = field(default_factory=dict)
    plan_only: bool = False
    accountants: list[str] = field(default_factory=list)  # second opinions for the ledger


ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=GridSweeperConfig, provider="dp_bench")


def environment() -> dict[str, str]:
    """What is set here and a worker in another folder, or on another machine, must know as well."""
    known = {name: os.environ[name] for name in (*_FOLDERS, *_OTHERS) if os.environ.get(name)}
    return known | {name: str(Path(known[name]).expanduser().absolute()) for name in _FOLDERS if name in known}


OmegaConf.register_new_resolver("dp_bench_environment", environment, replace=True)


class NotInstalled(Launcher):
    """In the place of a launcher whose extra is missing: choosing it says how to install it."""

    def __init__(self, extra: str, **_: Any) -> None:
        self.extra = extra

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        chosen = config.hydra.runtime.choices["hydra/launcher"]
        install = f"pip install 'dp_bench[{self.extra}]'"
        raise invalid("hydra/launcher", "one that is installed", chosen, f"get it with {install}")

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        raise NotImplementedError


for _extra, (_package, _names) in _EXTRAS.items():
    if importlib.util.find_spec(_package) is None:
        for _name in _names:
            _node = {"_target_": "hydra_plugins.grid_sweeper.NotInstalled", "extra": _extra}
            ConfigStore.instance().store(group="hydra/launcher", name=_name, node=_node, provider="dp_bench")


class GridSweeper(Sweeper):
    """Gathers what was chosen, has it expanded and checked, and hands the jobs to the launcher."""

    hydra_context: HydraContext
    config: DictConfig

    def __init__(self, params: dict[str, Any], plan_only: bool, accountants: list[str]) -> None:
        self.params = params
        self.plan_only = plan_only
        self.accountants = accountants

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context = hydra_context
        self.config = config
        jobs = config.hydra.launcher.get("n_jobs")
        if isinstance(jobs, int) and (jobs == 0 or not -(os.cpu_count() or 1) <= jobs <= _MOST_JOBS):
            raise invalid("hydra.launcher.n_jobs", "the number of parallel jobs", jobs, "-1 is one per core")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no private tool should report home
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.launch = launcher.launch

    def sweep(self, arguments: list[str]) -> None:
        from dp_bench.experiment.plan import plan
        from dp_bench.sweep.launch import show_plan, sweep

        planned, notes = plan(self._choices(arguments), self._compose, fetch=not self.plan_only)
        if self.plan_only:
            show_plan(planned, notes, self.accountants)
            return
        if self.config.hydra.runtime.choices["hydra/launcher"] in _ON_THIS_MACHINE:
            for device in {job.runs[0].machine.device for job in planned} - {"auto", "cpu"}:
                from dp_bench.training.run import check_device  # which imports torch

                check_device(device)
        print("".join(f"{note}\n" for note in notes), end="", file=sys.stderr)
        sweep(planned, self.launch)

    def _choices(self, arguments: list[str]) -> dict[str, list[str]]:
        """What the configuration's `params` and then the command line choose, by key."""
        from dp_bench.experiment.config import resolved

        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        choices: dict[str, list[str]] = {}
        params = [resolved(f"{key}={value}") for key, value in self.params.items()]
        for override in parser.parse_overrides(params + arguments):
            key = override.get_key_element()
            if OmegaConf.select(self.config, key.removeprefix("++")) is not None:
                key = key.removeprefix("++")  # which changes nothing, but must not hide the key
            if override.is_sweep_override():
                choices[key] = list(itertools.islice(override.sweep_string_iterator(), _MOST_VALUES + 1))
                if len(choices[key]) > _MOST_VALUES:
                    raise invalid(key, f"at most {_MOST_VALUES:,} values", "more", "sweep fewer of them")
                if not choices[key]:  # glob() looks for names in a group, and finds none in a key or by a misspelt one
                    raise invalid(str(override.input_line), "values", "none", f"write them as in {key}=A,B")
            else:
                choices[key] = [override.get_value_element_as_str()]
        return choices

    def _compose(self, overrides: Any) -> DictConfig:
        composed = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(composed):
            del composed["hydra"]
        return composed

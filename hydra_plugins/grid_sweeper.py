"""Hydra finds sweepers only here. This one expands grids: see dp_bench/plan.py and dp_bench/sweep.py."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from dp_bench.errors import UserError

if TYPE_CHECKING:
    from dp_bench.plan import Job

# Extras, the package that each brings, and the launchers in it that conf/hydra/launcher/ builds on.
_EXTRAS = {
    "ray": ("hydra_plugins.hydra_ray_launcher", ("ray",)),
    "slurm": ("hydra_plugins.hydra_submitit_launcher", ("submitit_slurm", "submitit_local")),
}
_ON_THIS_MACHINE = ("basic", "joblib", "ray_local", "slurm_local")  # others may have devices that this one has not
_FOLDERS, _OTHERS = ("DP_BENCH_DATA", "DP_BENCH_CACHE"), ("DP_BENCH_OFFLINE", "PYTHONPATH")


@dataclass
class GridSweeperConfig:
    _target_: str = "hydra_plugins.grid_sweeper.GridSweeper"
    params: dict[str, Any] = field(
        default_factory=dict
    )  # choices that a configuration file makes, as on a command line
    plan_only: bool = False
    accountants: list[str] = field(default_factory=list)  # second opinions for the ledger


ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=GridSweeperConfig, provider="dp_bench")


def environment() -> dict[str, str]:
    """What is set here and a worker in another folder, or on another machine, must know as well."""
    known = {name: os.environ[name] for name in (*_FOLDERS, *_OTHERS) if os.environ.get(name)}
    return known | {name: str(Path(known[name]).expanduser().absolute()) for name in _FOLDERS if name in known}


OmegaConf.register_new_resolver("dp_bench_environment", environment, replace=True)


class NotInstalled(Launcher):
    """In the place of a launcher whose extra is missing: whoever chooses it is told how to get it."""

    def __init__(self, extra: str, **_: Any) -> None:
        self.extra = extra

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        chosen = config.hydra.runtime.choices["hydra/launcher"]
        install = f"pip install 'dp_bench[{self.extra}]'"
        raise UserError(f"hydra/launcher: found {chosen}, whose launcher is not installed; get it with {install}")

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
        if config.hydra.launcher.get("n_jobs") == 0:
            raise UserError("hydra.launcher.n_jobs: found 0, expected how many jobs at once; -1 is one a core")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no private tool should report home
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.launch = launcher.launch

    def sweep(self, arguments: list[str]) -> None:
        from dp_bench.plan import plan
        from dp_bench.sweep import show_plan, sweep

        planned, notes = plan(self._choices(arguments), self._compose)
        if self.plan_only:
            show_plan(planned, notes, self.accountants)
            return
        if self.config.hydra.runtime.choices["hydra/launcher"] in _ON_THIS_MACHINE:
            self._check_devices(planned)
        print("".join(f"{note}\n" for note in notes), end="", file=sys.stderr)
        sweep(planned, self.launch)

    def _check_devices(self, planned: "Sequence[Job]") -> None:
        for device in {job.runs[0].machine.device for job in planned} - {"auto", "cpu"}:
            from dp_bench.run import check_device  # which imports torch

            check_device(device)

    def _choices(self, arguments: list[str]) -> dict[str, list[str]]:
        """What the configuration's `params` and then the command line choose, by key."""
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        choices: dict[str, list[str]] = {}
        for override in parser.parse_overrides([f"{k}={v}" for k, v in self.params.items()] + arguments):
            key = override.get_key_element()
            if OmegaConf.select(self.config, key.removeprefix("++")) is not None:
                key = key.removeprefix("++")  # which changes nothing, but must not hide the key
            if override.is_sweep_override():
                choices[key] = list(override.sweep_string_iterator())
                if not choices[key]:  # glob() looks for names in a group, and finds none in a key or by a misspelt one
                    raise UserError(f"{override.input_line}: found no value, expected some, as in {key}=A,B")
            else:
                choices[key] = [override.get_value_element_as_str()]
        return choices

    def _compose(self, overrides: Any) -> DictConfig:
        composed = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(composed):
            del composed["hydra"]
        return composed

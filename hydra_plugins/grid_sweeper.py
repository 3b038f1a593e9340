"""Hydra finds sweepers only here. This one expands grids: see dp_bench/plan.py and dp_bench/sweep.py."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


@dataclass
class GridSweeperConfig:
    _target_: str = "hydra_plugins.grid_sweeper.GridSweeper"
    params: dict[str, Any] = field(
        default_factory=dict
    )  # choices that a configuration file makes, as on a command line
    plan_only: bool = False
    accountants: list[str] = field(default_factory=list)  # second opinions for the ledger


ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=GridSweeperConfig, provider="dp_bench")


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
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.launch = launcher.launch

    def sweep(self, arguments: list[str]) -> None:
        from dp_bench.plan import jobs
        from dp_bench.sweep import show_plan, sweep

        planned = jobs(self._choices(arguments), self._compose)
        if self.plan_only:
            show_plan(planned, self.accountants)
        else:
            sweep(planned, self.launch)

    def _choices(self, arguments: list[str]) -> dict[str, list[str]]:
        """What the configuration's `params` and then the command line choose, by key."""
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        choices: dict[str, list[str]] = {}
        for override in parser.parse_overrides([f"{k}={v}" for k, v in self.params.items()] + arguments):
            if override.is_sweep_override():
                choices[override.get_key_element()] = list(override.sweep_string_iterator())
            else:
                choices[override.get_key_element()] = [override.get_value_element_as_str()]
        return choices

    def _compose(self, overrides: Any) -> DictConfig:
        composed = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(composed):
            del composed["hydra"]
        return composed

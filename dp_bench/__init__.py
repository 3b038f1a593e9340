"""dp_bench: what a hyperparameter search costs differentially private learning, and what it buys.

As a library: one private step is

    queries = strategy.queries(state)
    sums = clipped_sums(model, losses, inputs, targets, queries)  # the only code that sees per-example gradients
    released = release(sums, queries, batch_size, noise)          # the only code that adds noise
    params, state = strategy.update(state, model.params, released)

with batches from `poisson` and the noise multiplier from `allocate`; examples/own_model.py is a whole loop. Everything
in `__all__` is imported when it is first used, torch with what needs it.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dp_bench.errors import UserError
    from dp_bench.mechanism.clipping import FlatModel, clipped_sums
    from dp_bench.mechanism.noise import release
    from dp_bench.mechanism.rng import rng
    from dp_bench.mechanism.sampling import poisson
    from dp_bench.privacy.accountants import Sampling
    from dp_bench.privacy.accounting import epsilon
    from dp_bench.privacy.allocation import Allocation, Budget
    from dp_bench.privacy.calibration import allocate
    from dp_bench.privacy.query import Query, Released
    from dp_bench.report.outputs.frames import load_results, load_trajectories
    from dp_bench.strategies import STRATEGIES, Strategy
    from dp_bench.strategies.ada_sig import AdaSig
    from dp_bench.strategies.adam_wosm import AdamWOSM
    from dp_bench.strategies.auto_s import AutoS
    from dp_bench.strategies.dc_sgd import DCSGDE, DCSGDP
    from dp_bench.strategies.dp_adam_bc import DPAdamBC
    from dp_bench.strategies.fixed_line import FixedLine
    from dp_bench.strategies.fixed_quantile import FixedQuantile
    from dp_bench.strategies.fixed_threshold import FixedThreshold
    from dp_bench.strategies.no_dp import NoDP
    from dp_bench.strategies.online import Online
    from dp_bench.strategies.psac import PSAC
    from dp_bench.strategies.sla_clip import SlaClip, SlaClipQ
    from dp_bench.tasks import TASKS, Classification

__all__ = [
    "DCSGDE",
    "DCSGDP",
    "PSAC",
    "STRATEGIES",
    "TASKS",
    "AdaSig",
    "AdamWOSM",
    "Allocation",
    "AutoS",
    "Budget",
    "Classification",
    "DPAdamBC",
    "FixedLine",
    "FixedQuantile",
    "FixedThreshold",
    "FlatModel",
    "NoDP",
    "Online",
    "Query",
    "Released",
    "Sampling",
    "SlaClip",
    "SlaClipQ",
    "Strategy",
    "UserError",
    "__version__",
    "allocate",
    "clipped_sums",
    "epsilon",
    "load_results",
    "load_trajectories",
    "poisson",
    "release",
    "rng",
]

# A strategy's module is in STRATEGIES.
_MODULES = {
    "errors": ("UserError",),
    "mechanism.clipping": ("FlatModel", "clipped_sums"),
    "mechanism.noise": ("release",),
    "mechanism.rng": ("rng",),
    "mechanism.sampling": ("poisson",),
    "privacy.accountants": ("Sampling",),
    "privacy.accounting": ("epsilon",),
    "privacy.allocation": ("Allocation", "Budget"),
    "privacy.calibration": ("allocate",),
    "privacy.query": ("Query", "Released"),
    "report.outputs.frames": ("load_results", "load_trajectories"),
    "strategies": ("STRATEGIES", "Strategy"),
    "tasks": ("TASKS", "Classification"),
}
_SOURCES = {name: f"dp_bench.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dp_bench' has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(_SOURCES.get(name) or _strategy_module(name)), name)
    return found


def _strategy_module(name: str) -> str:
    from dp_bench.strategies import STRATEGIES

    paths = (STRATEGIES.path(built_in).split(":") for built_in in STRATEGIES.built_in)
    return next(module for module, kind in paths if kind == name)


def __dir__() -> list[str]:
    return sorted(__all__)

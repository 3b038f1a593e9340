"""Tools to test and audit a strategy, for its author: installed with the package, and what `dp-bench audit` runs.

    from dp_bench.testing import audit_strategy, check_strategy
    check_strategy(Mine)
    for finding in audit_strategy("mine", Mine(noise_multiplier=1.0, batch_size=32, lr=0.1)):
        print(finding)

- `contract`: what every strategy promises
- `oracles`: slow ways to per-example gradients
- `canaries`: one step's releases with and without one example, and what a test tells of them (a lower bound on mu)
- `identity`: whole short runs, whose likelihood ratio must have expectation 1
- `noise`: each query's noise through the training step: its scale, and that it never repeats
- `replay`: two neighbouring data sets under the same keys: equal control flow and state, sums within their joint bound
- `joint`: the norm at which one example moves a step most, for the contract
- `accumulation`: examples made so that one of them decides how all others are rounded
- `isolation`: an example's norm is the same, to the bit, whichever others are computed with it
- `keys`: other data get other noise, and secure runs keys of their own
- `planted`: the bugs that the parts above must find
- `audit`: all of them; the `check` of each part measures, and gives its verdict on what is claimed
- `statistics`, `harness`, `subjects`, `results`: what they share; `results` and `command` load no torch

No part proves privacy: each refutes a claim that is false in the way it looks for.
Everything in `__all__` is imported when it is first used, and torch with it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dp_bench.testing.audit import audit_strategy
    from dp_bench.testing.contract import check_strategy
    from dp_bench.testing.oracles import fused, general, one_by_one, opacus

__all__ = ["audit_strategy", "check_strategy", "fused", "general", "one_by_one", "opacus"]

_SOURCES = {"audit_strategy": "audit", "check_strategy": "contract"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dp_bench.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dp_bench.testing.{_SOURCES.get(name, 'oracles')}"), name)


def __dir__() -> list[str]:
    return __all__

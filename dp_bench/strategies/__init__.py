"""The strategies by name. A new one is a file here, a line below and a file in conf/strategy/."""

from typing import Any

from dp_bench.strategies.adam_wosm import AdamWOSM
from dp_bench.strategies.base import Strategy
from dp_bench.strategies.fixed_quantile import FixedQuantile
from dp_bench.strategies.fixed_threshold import FixedThreshold
from dp_bench.strategies.no_dp import NoDP
from dp_bench.strategies.online import Online

STRATEGIES: dict[str, type[Strategy[Any]]] = {
    "online": Online,
    "fixed_threshold": FixedThreshold,
    "fixed_quantile": FixedQuantile,
    "adam_wosm": AdamWOSM,
    "no_dp": NoDP,
}

__all__ = ["STRATEGIES", "Strategy"]

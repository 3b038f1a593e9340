"""The strategies by name. A new one is a file here, a line below and a file in conf/strategy/; or a package of its own
with an entry point `dp_bench.strategies` (examples/plugin)."""

from typing import Any

from dp_bench.registry import Registry
from dp_bench.strategies.base import Strategy


def _strategy(found: object) -> type[Strategy[Any]] | None:
    return found if isinstance(found, type) and issubclass(found, Strategy) else None


STRATEGIES: Registry[type[Strategy[Any]]] = Registry(
    "strategy",
    "dp_bench.strategies",
    {
        "online": "dp_bench.strategies.online:Online",
        "fixed_threshold": "dp_bench.strategies.fixed_threshold:FixedThreshold",
        "fixed_quantile": "dp_bench.strategies.fixed_quantile:FixedQuantile",
        "adam_wosm": "dp_bench.strategies.adam_wosm:AdamWOSM",
        "no_dp": "dp_bench.strategies.no_dp:NoDP",
        "fixed_line": "dp_bench.strategies.fixed_line:FixedLine",
        "auto_s": "dp_bench.strategies.auto_s:AutoS",
        "psac": "dp_bench.strategies.psac:PSAC",
        "ada_sig": "dp_bench.strategies.ada_sig:AdaSig",
        "sla_clip": "dp_bench.strategies.sla_clip:SlaClip",
        "sla_clip_q": "dp_bench.strategies.sla_clip:SlaClipQ",
        "dp_adam_bc": "dp_bench.strategies.dp_adam_bc:DPAdamBC",
        "dc_sgd_e": "dp_bench.strategies.dc_sgd:DCSGDE",
        "dc_sgd_p": "dp_bench.strategies.dc_sgd:DCSGDP",
    },
    "a subclass of dp_bench.strategies.Strategy",
    _strategy,
)

__all__ = ["STRATEGIES", "Strategy"]

"""What `dp-bench trade-off` stores next to the runs: believed only if its two files are whole and belong together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_bench.experiment.folder_names import choices
from dp_bench.experiment.record import number_columns
from dp_bench.experiment.rerun_command import command
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.trade_off_store import read_trade_off
from dp_bench.privacy.accounting import exact
from dp_bench.report import names


@dataclass(frozen=True)
class TradeOff:
    """The data of one figure of the clipping trade-off."""

    folder: str  # relative to the root of the store
    dataset: str
    columns: dict[str, list[float]]  # t, C, cosine, sd
    measured_on: str  # which training, in words


def trade_off_in(root: Path, folder: str) -> TradeOff:
    """Raises UserError where its files are not what was measured, else what reading and looking up raise."""
    rows, facts = read_trade_off(root / folder)
    spec = RunSpec.from_json(facts)
    found = number_columns(rows.decode())
    columns = {name: found[name] for name in ("t", "C", "cosine", "sd")}
    return TradeOff(folder, spec.dataset.name, columns, _measured_on(spec, facts))


def _measured_on(spec: RunSpec, facts: Mapping[str, Any]) -> str:
    caveats = spec.source.caveats
    words = f"{names.strategy(spec.strategy)}, {names.point(spec.strategy, spec.swept)}, "
    words += f"k = {spec.grid.k}, ε = {exact(spec.epsilon)} for the grid, seed {spec.seed}; "
    words += f"noise multiplier {facts['noise_multiplier']:.4g}, mean of {facts['draws']} draws."
    words += f" It diverged at {facts['diverged']}." if facts["diverged"] else ""
    words += f" Departs from the protocol: {spec.variant}." if choices(spec.variant) else ""
    words += f" Data: {'; '.join(caveats)}." if caveats else ""
    commit = names.commit(facts.get("commit") or "unknown")
    return words + f" Again: {command('trade-off', spec, [spec.seed])} (at commit {commit})."

"""What `dp-bench trade-off` leaves beside the runs: believed only where its two files are whole and belong together."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_bench.errors import UserError
from dp_bench.report import names
from dp_bench.report.commands import overrides, short
from dp_bench.report.numbers import columns
from dp_bench.sealed import read_sealed

DATA, FACTS = "trade_off.csv", "trade_off.json"


@dataclass(frozen=True)
class TradeOff:
    """The data of one figure of the clipping trade-off."""

    folder: str  # relative to the root of the store
    dataset: str
    columns: dict[str, list[float]]  # t, C, cosine, sd
    measured_on: str  # which training, in words


def read_trade_off(root: Path, folder: str) -> TradeOff:
    """Raises UserError where its files are not what was measured, else what reading and looking up raise."""
    facts = read_sealed(root / folder / FACTS)
    content = (root / folder / DATA).read_bytes()
    if hashlib.sha256(content).hexdigest() != facts["csv_sha256"]:
        raise UserError(f"{DATA} does not fit the checksum in {FACTS}; delete both to measure them again")
    found = columns(content.decode())
    return TradeOff(
        folder,
        facts["protocol"]["dataset"]["name"],
        {name: found[name] for name in ("t", "C", "cosine", "sd")},
        _measured_on(facts),
    )


def _measured_on(facts: Mapping[str, Any]) -> str:
    protocol = facts["protocol"]
    strategy, variant, caveats = protocol["strategy"], protocol["variant"], protocol["source"]["caveats"]
    words = f"{names.strategy(strategy)}, {names.point(strategy, protocol['hyperparameters'])}, "
    words += f"k = {protocol['grid']['k']}, ε = {protocol['privacy']['epsilon']:g} for the grid, seed {facts['seed']}; "
    words += f"noise multiplier {facts['noise_multiplier']:.4g}, mean of {facts['draws']} draws."
    words += f" It diverged at {facts['diverged']}." if facts["diverged"] else ""
    words += f" Departs from the protocol: {variant}." if variant != "default" else ""
    words += f" Data: {'; '.join(caveats)}." if caveats else ""
    k, epsilon = protocol["grid"]["k"], protocol["privacy"]["epsilon"]
    chosen = overrides(
        protocol["profile"], protocol["dataset"]["name"], strategy, protocol["hyperparameters"], k, epsilon, variant
    )
    commit = short(facts.get("commit") or "unknown")
    return words + f" Again: dp-bench trade-off {' '.join(chosen)}, at commit {commit}."

"""Every run of a profile as a row, whatever state the folder tree is in: what cannot be read is named and skipped."""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dp_bench import grid
from dp_bench.errors import UserError
from dp_bench.report import trade_offs
from dp_bench.report.names import plural
from dp_bench.report.trade_offs import TradeOff, read_trade_off
from dp_bench.sealed import read_sealed
from dp_bench.spec import comparable
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS, Task

AXES = tuple(dict.fromkeys(name for strategy in STRATEGIES.values() for name in strategy.swept))

# variant / dataset / strategy / k / epsilon / point / seed
_DEPTH = 7
# What looking into JSON of another shape raises.
_FOREIGN = (LookupError, TypeError, ValueError, AttributeError)
# Below this, starting processes takes longer than they save.
_WORTH_PROCESSES = 1000
# Of pixels in [0, 1], and far above anything that a run could have stored.
_LARGEST_ERROR = 1e6


class Skipped(NamedTuple):
    """A folder that is not a run that could be read."""

    folder: str
    reason: str


@dataclass(frozen=True)
class Collection:
    """What a profile holds. `runs` has a row a run, in the order of the grids; see `_row` for its columns."""

    root: Path  # of the store; every folder named here is relative to it
    profile: str
    runs: pd.DataFrame
    skipped: tuple[Skipped, ...]
    trade_offs: tuple[TradeOff, ...]


def collect(root: Path, profile: str) -> Collection:
    """Read the runs of `profile` under `root`."""
    if not (root / profile).is_dir():
        there = sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
        others = f"profiles here: {', '.join(there)}" if there else "start with dp-bench run --help"
        raise UserError(f"{root / profile}: found no such folder, expected the runs of a profile; {others}")
    folders, skipped, measured = _walk(root, profile)
    rows, trade_offs = [], []
    for found in [*_read_all(root, folders), *(_read_trade_off(root, folder) for folder in measured)]:
        if isinstance(found, Skipped):
            skipped.append(found)
        elif isinstance(found, TradeOff):
            trade_offs.append(found)
        else:
            rows.append(found)
    if not rows:
        problem = f" ({plural(len(skipped), 'folder')} skipped, the first: {'; '.join(skipped[0])})" if skipped else ""
        raise UserError(
            f"{root / profile}: found no run, expected at least one{problem}; start with dp-bench run --help"
        )
    runs = pd.DataFrame(rows)
    order = {name: i for i, name in enumerate([*TASKS, *STRATEGIES])}
    runs = runs.sort_values(
        ["variant", "dataset", "strategy", "k", "epsilon", *AXES, "seed"],
        key=lambda column: column.map(order) if column.name in ("dataset", "strategy") else column,
        ignore_index=True,
    )
    return Collection(root, profile, runs, tuple(sorted(skipped)), tuple(trade_offs))


def _walk(root: Path, profile: str) -> tuple[list[str], list[Skipped], list[str]]:
    """Folders deep enough to be a run, folders that lead nowhere, folders of trade-off data; relative to `root`."""
    folders: list[str] = []
    skipped: list[Skipped] = []
    measured: list[str] = []

    def visit(relative: str, depth: int) -> None:
        if depth == _DEPTH:
            folders.append(relative)
            return
        try:
            with os.scandir(root / relative) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            skipped.append(Skipped(relative, f"cannot be read: {error.strerror}"))
            return
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        # Where a link leads is no part of this store, and may be this folder again. A linked file is read as any other.
        links = [entry.name for entry in shown if entry.is_symlink() and not Path(entry).is_file()]
        skipped.extend(Skipped(f"{relative}/{name}", "a link: not followed") for name in links)
        inner = [entry.name for entry in shown if entry.is_dir(follow_symlinks=False)]
        if any(entry.name in (trade_offs.DATA, trade_offs.FACTS) for entry in entries):
            measured.append(relative)
        elif not inner and not links and depth > 0:
            skipped.append(Skipped(relative, "not a run: expected variant/dataset/strategy/k/eps/point/seed"))
        for name in inner:
            visit(f"{relative}/{name}", depth + 1)

    visit(profile, 0)
    return folders, skipped, measured


def _read_all(root: Path, folders: list[str]) -> Iterator["dict[str, Any] | Skipped"]:
    if len(folders) < _WORTH_PROCESSES:
        yield from (_read(root, folder) for folder in folders)
        return
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        yield from pool.map(_read, itertools.repeat(root), folders, chunksize=250)


def _read(root: Path, folder: str) -> "dict[str, Any] | Skipped":
    path = root / folder
    try:
        protocol = read_sealed(path / "spec.json")["protocol"]
        result = read_sealed(path / "result.json") if (path / "result.json").exists() else None
        row = _row(folder, protocol, result, _provenance(path))
    except (UserError, OSError, *_FOREIGN) as error:
        return Skipped(folder, _why(error, path, "run"))
    if folder != row["belongs"]:
        return Skipped(folder, f"holds another run, that of {row['belongs']}; move it there")
    digest = hashlib.sha256(json.dumps(comparable(protocol), sort_keys=True).encode()).hexdigest()
    if result is not None and result["digest"] != digest:
        return Skipped(folder, "result.json is of another protocol than spec.json; delete the folder to run it again")
    if result is not None and (damage := _metrics_damage(path, result)):
        return Skipped(folder, f"{damage}; delete the folder to run it again")
    return row


def _why(error: Exception, path: Path, thing: str) -> str:
    """Why a folder that should hold `thing` is skipped."""
    if isinstance(error, UserError):
        return str(error).removeprefix(f"{path}/")
    if isinstance(error, FileNotFoundError):
        return f"not a {thing}: expected a {Path(error.filename).name} in it"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    return f"not a {thing} of this version: {type(error).__name__}: {error}"


def _read_trade_off(root: Path, folder: str) -> TradeOff | Skipped:
    try:
        return read_trade_off(root, folder)
    except (UserError, OSError, *_FOREIGN) as error:
        return Skipped(folder, _why(error, root / folder, "trade-off"))


def _metrics_damage(path: Path, result: Mapping[str, Any]) -> str | None:
    """What is wrong with a finished run's metrics.csv; results of older versions do not say what it should hold."""
    expected = result.get("metrics_sha256")
    if expected is None:
        return None
    try:
        content = (path / "metrics.csv").read_bytes()
    except OSError as error:
        return f"metrics.csv cannot be read: {error.strerror}"
    return (
        None if hashlib.sha256(content).hexdigest() == expected else "metrics.csv does not fit result.json's checksum"
    )


def _provenance(path: Path) -> dict[str, Any]:
    """Nothing that is compared: where it is missing or damaged, the run still counts."""
    try:
        content = json.loads((path / "provenance.json").read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    groups = ("source", "packages", "machine")
    seconds = content.get("seconds_of_last_session")
    good = {name: value for name, value in content.items() if name not in groups or isinstance(value, dict)}
    return good if isinstance(seconds, int | float) else {**good, "seconds_of_last_session": math.nan}


def _row(
    folder: str, protocol: Mapping[str, Any], result: Mapping[str, Any] | None, provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """A run's columns. Missing numbers are NaN; an epsilon is infinite without privacy; groups of facts are JSON."""
    strategy, allocation, privacy = protocol["strategy"], protocol["allocation"], protocol["privacy"]
    swept = {name: float(protocol["hyperparameters"][name]) for name in STRATEGIES[strategy].swept}
    task, source, k, seed = (
        TASKS[protocol["dataset"]["name"]],
        protocol["source"],
        protocol["grid"]["k"],
        protocol["seed"],
    )
    epsilon = math.inf if privacy is None else float(privacy["epsilon"])
    place = [protocol["profile"], protocol["variant"], protocol["dataset"]["name"], strategy, f"k{k}"]
    place += [f"eps{repr(epsilon).removesuffix('.0')}", grid.point_name(swept), f"seed{seed}"]
    row = {
        "folder": folder,
        "belongs": "/".join(place),
        "variant": protocol["variant"],
        "dataset": protocol["dataset"]["name"],
        "strategy": strategy,
        "k": int(k),
        "epsilon": epsilon,
        "point": grid.point_name(swept),
        **{name: swept.get(name, math.nan) for name in AXES},
        "seed": int(seed),
        "status": result["status"] if result else "unfinished",
        "reason": (result["reason"] if result else None) or "",
        **_outcome(task, result, "best"),
        **_outcome(task, result, "final"),
        "budgeted": allocation is not None,
        "accountant": privacy["accountant"] if privacy else "",
        "delta": float(privacy["delta"]) if privacy else math.nan,
        "candidates": int(allocation["candidates"]) if allocation else 0,
        "noise_multiplier": float(allocation["noise_multiplier"]) if allocation else 0.0,
        "epsilon_grid": float(allocation["epsilon_grid"]) if allocation else math.inf,
        "epsilon_run": float(allocation["epsilon_run"]) if allocation else math.inf,
        "steps": int(protocol["steps"]),
        "batch_size": int(protocol["train"]["batch_size"]),
        "epochs": float(protocol["train"]["epochs"]),
        "train_rows": int(source["train_rows"]),
        # N, as steps and noise were computed from it: another one only where a larger data set is emulated.
        "accounted_rows": int(allocation["sampling"]["dataset_size"] if allocation else source["train_rows"]),
        "test_rows": int(source["test_rows"]),
        "source_kind": source["kind"],
        "caveats": json.dumps(source["caveats"]),
        "checksums": json.dumps(source["checksums"], sort_keys=True),
        "grid": json.dumps(protocol["grid"], sort_keys=True),
        "hyperparameters": json.dumps(protocol["hyperparameters"], sort_keys=True),
        "model": json.dumps({"words": protocol["dataset"]["words"], **protocol["model"]}, sort_keys=True),
        "seeding": protocol["seeding"],
        "where": str((provenance.get("source") or {}).get("where", "")),
        "commit": str(provenance.get("commit") or "unknown"),
        "versions": json.dumps(
            {"dp_bench": provenance.get("dp_bench"), "python": provenance.get("python")}
            | (provenance.get("packages") or {}),
            sort_keys=True,
        ),
        "host": str(provenance.get("host", "unknown")),
        "machine": json.dumps({"processor": provenance.get("processor")} | (provenance.get("machine") or {})),
        "seconds": float(provenance.get("seconds_of_last_session", math.nan)),
        "finished": str(provenance.get("finished", "")),
    }
    if result and (row["status"] not in ("finished", "diverged") or result["metric"] != task.metric):
        raise ValueError(f"result.json has status {row['status']} and metric {result['metric']}")
    return row


def _outcome(task: Task, result: Mapping[str, Any] | None, which: str) -> dict[str, float]:
    if result is None:
        return {which: math.nan, f"{which}_step": math.nan}
    value = result[which]["value"]
    largest = 1.0 if task.metric == "accuracy" else _LARGEST_ERROR
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= largest):
        expected = f"a number from 0 to {largest:g}"
        raise UserError(f"result.json: found {value!r} as {which} {task.metric}, expected {expected}")
    return {which: math.nan if value is None else float(value), f"{which}_step": result[which]["step"]}

"""Small runs for tests: stand-in data, a few steps, in this process or in one that can be killed."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from hydra import compose, initialize_config_dir

from dp_bench import config
from dp_bench.cli import configuration_folder
from dp_bench.config import Config
from dp_bench.data import load
from dp_bench.data.tensors import Dataset
from dp_bench.run import run
from dp_bench.spec import RunSpec, specs

# A swept value per strategy that is a member of every grid used here.
POINT = {
    "online": ["strategy.lr=0.316"],
    "fixed_threshold": ["strategy.lr=0.316", "strategy.clip=0.1"],
    "fixed_quantile": ["strategy.lr=0.00316", "strategy.quantile=0.5"],
    "adam_wosm": ["strategy.clip=0.1"],
    "no_dp": ["strategy.lr=0.00316"],
}


def composed(*overrides: str) -> Config:
    config.register()
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        return config.parse(compose("config", list(overrides)))


def smoke(strategy: str, *overrides: str, dataset: str = "ag_news") -> list[RunSpec]:
    chosen = [f"dataset={dataset}", f"strategy={strategy}", *POINT[strategy]]
    return specs(composed("profile=smoke", *chosen, *overrides))


def data_of(spec: RunSpec) -> Dataset:
    options = spec.dataset
    return load(options.name, words=options.words, stand_in=options.stand_in, limit=options.limit)


def carry_out(spec: RunSpec, root: Path, dataset: Dataset, keep: str = "none") -> dict | None:
    return run(spec, root, dataset, lambda step, row: None, keep)


def in_a_child(work: Callable[[], object], kill_after: float | None = None) -> int:
    """Do `work` in a forked process, kill it with SIGKILL after so many seconds; the exit code, or -9."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def contents(root: Path) -> dict[str, bytes]:
    """Every file that must be the same bits; provenance tells when and where, and locks are empty."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name not in ("provenance.json", ".lock"):
            with contextlib.suppress(FileNotFoundError):  # a sweep at work has just put it in its place
                found[str(path.relative_to(root))] = path.read_bytes()
    return found

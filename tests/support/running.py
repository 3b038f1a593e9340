"""Small runs for tests: synthetic data, a few steps, in this process or in one that can be killed."""

import contextlib
import copy
import functools
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from hydra import compose, initialize_config_dir

from dp_bench.data.tensors import Dataset
from dp_bench.experiment import config, validation
from dp_bench.experiment.conf import configuration_folder
from dp_bench.experiment.config import Config
from dp_bench.experiment.record import Evaluation, RunResult, UsedData
from dp_bench.experiment.resolve import specs
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.tasks import TASKS
from dp_bench.training.run import run

# A swept value per strategy that is a member of every grid used here.
POINT = {
    "online": ["strategy.lr=0.316"],
    "fixed_threshold": ["strategy.lr=0.316", "strategy.clip=0.1"],
    "fixed_quantile": ["strategy.lr=0.00316", "strategy.quantile=0.5"],
    "adam_wosm": ["strategy.clip=0.1"],
    "no_dp": ["strategy.lr=0.00316"],
    "fixed_line": ["strategy.lr=0.316"],
    "auto_s": ["strategy.lr=0.316"],
    "psac": ["strategy.lr=0.316"],
    "ada_sig": ["strategy.lr=0.316"],
    "sla_clip": ["strategy.lr=0.316"],
    "sla_clip_q": ["strategy.lr=0.316"],
    "dp_adam_bc": ["strategy.clip=0.1"],
    "dc_sgd_e": ["strategy.lr=0.316"],
    "dc_sgd_p": ["strategy.lr=0.316"],
}


@functools.cache
def _composed(*overrides: str) -> Config:
    config.register()
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        return validation.parse(compose("config", list(overrides)))


def composed(*overrides: str) -> Config:
    """Hydra takes a tenth of a second: the same words are composed once per process."""
    return copy.deepcopy(_composed(*overrides))


def smoke(strategy: str, *overrides: str, dataset: str = "ag_news") -> list[RunSpec]:
    chosen = [f"dataset={dataset}", f"strategy={strategy}", *POINT[strategy]]
    return specs(composed("profile=smoke", *chosen, *overrides))


def data_of(spec: RunSpec) -> Dataset:
    return TASKS[spec.dataset.name].load(spec.task_options)


def a_result(spec: RunSpec, status: str, value: float, step: int | None = None) -> RunResult:
    """Of a run that ended with this value, at its last step or an earlier one; `RunFolder.finish` adds its digest."""
    last = spec.steps if step is None else step
    end = Evaluation(last, value)
    allocation, source = spec.allocation, UsedData("stand-in", "", [])
    spent = (None, None, None, None)
    if allocation is not None:
        budget = allocation.budget
        spent = (allocation.epsilon_run, allocation.epsilon_grid, budget.delta, budget.accountant)
    return RunResult("", status, None, "accuracy", end, end, last if allocation else 0, *spent, source)


def keep(root: Path, spec: RunSpec, value: float, status: str = "finished", steps: int = 0) -> None:
    """Store a run that ended with this value, as if it had been trained; `steps`: 0 for all of them."""
    folder = RunFolder(root, spec)
    folder.write_spec()
    folder.finish(a_result(spec, status, value, steps or None))


def carry_out(spec: RunSpec, root: Path, dataset: Dataset, keep: str = "none") -> RunResult | None:
    return run(spec, root, dataset, lambda step, row: None, keep)


def in_a_child(work: Callable[[], object], kill_after: float | None = None) -> int:
    """Do `work` in a forked process, kill it with SIGKILL after so many seconds; the exit code, or -9."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
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
            with contextlib.suppress(FileNotFoundError):  # a running sweep has just put it in its place
                found[str(path.relative_to(root))] = path.read_bytes()
    return found

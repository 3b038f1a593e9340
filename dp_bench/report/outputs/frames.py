"""Results as tables for pandas: what a notebook reads instead of thousands of small files."""

import itertools
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dp_bench.errors import invalid
from dp_bench.experiment.archive import profiles_in
from dp_bench.experiment.config import chosen_options
from dp_bench.experiment.record import RunRecord
from dp_bench.files.names import no_formula, one_line
from dp_bench.report.epsilon_notes import budget_words
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import key_of, results
from dp_bench.report.table import in_ascii
from dp_bench.tasks import TASKS


def load_results(folder: str | Path = "runs", profile: str | None = None) -> pd.DataFrame:
    """Every run under `folder`, one row per run: of one profile, or of all of them.

    Columns are named as on the command line where there is such a key: `dataset`, `strategy`, `seed`, and every
    hyperparameter as `strategy.lr` and option of a task as `dataset.words` (NaN where a strategy or task has none of
    that name). `best` and `final` are the test metric `metric` at its best evaluation and at the last one; `status` is
    finished, diverged or unfinished. `epsilon` is the budget of the run's whole grid, infinite without privacy; what it
    guarantees, or that it is none, stands in `guarantee`. What cannot be read is left out, with a warning.

    >>> results = load_results("runs", profile="paper")  # doctest: +SKIP
    >>> results[results.status == "finished"].groupby(["dataset", "strategy", "epsilon"]).best.max()  # doctest: +SKIP

    Raises UserError if there is no run at all.

    >>> load_results("no such folder")
    Traceback (most recent call last):
    dp_bench.errors.UserError: no such folder: expected a folder of runs, got none; start with dp-bench run --help
    """
    return pd.concat([frame(runs) for runs in _runs(Path(folder), profile)], ignore_index=True)


def load_trajectories(folder: str | Path = "runs", profile: str | None = None) -> pd.DataFrame:
    """Every evaluation of every run under `folder`, one row per evaluation.

    The columns say which run it is, as in `load_results`, with its `folder`; then `step`, the test metric's name
    `metric` and `value`, the strategy's trajectory (the threshold `clip`, the step size `lr`, and any other entry; NaN
    where a strategy has none of that name), and `epsilon_spent` by the run so far.

    >>> curves = load_trajectories("runs", profile="paper")  # doctest: +SKIP
    >>> curves[curves.strategy == "online"].groupby("step").clip.mean().plot()  # doctest: +SKIP
    """
    frames = []
    for run in itertools.chain.from_iterable(_runs(Path(folder), profile)):
        columns = run.columns()
        if not columns:
            continue  # it had not come to its first evaluation
        metric = TASKS[run.spec.dataset.name].metric
        identity = {**_identity(run), "folder": run.folder}
        steps = pd.Series(columns.pop("step")).astype(int)
        rest = {"epsilon_spent": columns.pop("epsilon"), "value": columns.pop(metric)}
        frames.append(pd.DataFrame({**identity, "step": steps, "metric": metric, **rest, **columns}))
    if not frames:
        raise invalid(str(folder), "runs with an evaluation", "none", "start with dp-bench run --help")
    return pd.concat(frames, ignore_index=True)


def _runs(root: Path, chosen: str | None) -> list[tuple[RunRecord, ...]]:
    """The runs of each profile."""
    profiles = [chosen] if chosen else profiles_in(root)
    if not profiles:
        raise invalid(str(root), "a folder of runs", "none", "start with dp-bench run --help")
    collections = [collect(root, profile) for profile in profiles]
    for skipped in (collection.skipped for collection in collections if collection.skipped):
        message = f"{len(skipped)} folders left out, the first {skipped[0].folder}: {skipped[0].reason}"
        warnings.warn(message, stacklevel=3)
    return [collection.runs for collection in collections]


def frame(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """The runs of a profile, one row per run, one value per cell: see `load_results`."""
    words = {
        (variant, key): in_ascii(budget_words([grid]))
        for variant, mine in itertools.groupby(runs, key=lambda run: run.spec.variant)
        for key, grid in results(mine, seeds=1).items()
    }
    return pd.DataFrame([_row(run, words[run.spec.variant, key_of(run)]) for run in runs])


def harmless(frame: pd.DataFrame) -> pd.DataFrame:
    """For a file that may be opened with a spreadsheet: text that would be a formula there is text."""
    return frame.map(lambda value: no_formula(one_line(value)) if isinstance(value, str) else value)


def _identity(run: RunRecord) -> dict[str, Any]:
    """Which run it is: the first columns of every table."""
    spec = run.spec
    names = {"profile": spec.profile, "variant": spec.variant, "dataset": spec.dataset.name, "strategy": spec.strategy}
    return {**names, "k": spec.grid.k, "epsilon": spec.epsilon, "seed": spec.seed}


def _row(run: RunRecord, guarantee: str) -> dict[str, Any]:
    """The columns that all runs have, then those that depend on what was chosen."""
    spec, result, allocation, origin = run.spec, run.result, run.spec.allocation, run.provenance
    groups = {"strategy": spec.hyperparameters, **chosen_options(spec.dataset, spec.model), "version": origin.versions}
    return {
        **_identity(run),
        "folder": run.folder,
        "status": run.status,
        "reason": (result.reason if result else None) or "",
        "metric": TASKS[spec.dataset.name].metric,
        "best": result.best.number if result else math.nan,
        "best_step": result.best.step if result else math.nan,
        "final": result.final.number if result else math.nan,
        "final_step": result.final.step if result else math.nan,
        "budgeted": allocation is not None,
        "accountant": allocation.budget.accountant if allocation else "",
        "delta": allocation.budget.delta if allocation else math.nan,
        "candidates": allocation.candidates if allocation else 0,
        "noise_multiplier": allocation.noise_multiplier if allocation else 0.0,
        "epsilon_grid": allocation.epsilon_grid if allocation else math.inf,
        "epsilon_run": allocation.epsilon_run if allocation else math.inf,
        "guarantee": guarantee,
        "steps": spec.steps,
        "batch_size": spec.train.batch_size,
        "epochs": spec.train.epochs,
        "train_rows": spec.source.train_rows,
        "accounted_rows": spec.accounted_rows,
        "test_rows": spec.source.test_rows,
        "source_kind": spec.source.kind,
        "caveats": "; ".join(spec.source.caveats),
        "seeding": spec.seeding,
        "where": origin.where,
        "commit": origin.commit,
        "host": origin.host,
        "arithmetic": origin.arithmetic,
        "seconds": origin.seconds,
        "finished": origin.finished,
        **{f"{group}.{name}": value for group, facts in groups.items() for name, value in facts.items()},
    }

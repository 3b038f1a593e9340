"""Results for a notebook: one row per run, one per evaluation, no JSON in cells."""

import math
from pathlib import Path

import pandas as pd
import pytest
from report_helpers import small_store, synthetic_spec, write_run

from dp_bench import load_results, load_trajectories
from dp_bench.errors import UserError


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = small_store(tmp_path_factory.mktemp("frames"))
    spec = synthetic_spec("mnist", "online", 5, 3.0, 0, profile="verify", accountant="rdp_wor", lr=0.3162)
    write_run(root, spec, [0.1, 0.5], slope=[1.0, 2.0])
    return root


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_one_row_per_run(store: Path) -> None:
    results = load_results(store, "paper")
    assert len(results) == 15 + 9 + 75 + 3
    assert list(results.columns[:7]) == ["profile", "variant", "dataset", "strategy", "k", "epsilon", "seed"]
    row = results[results["folder"] == "paper/default/mnist/online/k5/eps3/lr=0.3162/seed1"].iloc[0]
    assert (row["metric"], row["best"], row["best_step"], row["final"]) == ("accuracy", 0.9170, 586, 0.907)
    assert (row["strategy.lr"], row["strategy.update_rule"], row["strategy.momentum"]) == (
        0.316227766017,
        "exponential_sign",
        0.9,
    )
    assert math.isnan(row["strategy.quantile"])
    assert (row["noise_multiplier"] > 0, row["candidates"], row["delta"]) == (True, 5, 1e-5)
    assert row["model.output_activation"] in (False, 0)
    public = results[results["strategy"] == "no_dp"]
    assert (public["epsilon"] == math.inf).all()
    assert set(results["status"]) == {"finished", "diverged"}


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_no_cell_is_json_and_every_column_has_one_meaning(store: Path) -> None:
    results = load_results(store, "paper")
    assert results.columns.is_unique
    assert not {"lr", "clip", "quantile", "belongs", "grid", "hyperparameters"} & set(results.columns)
    for name in results.columns:
        for cell in results[name].drop_duplicates():
            assert not isinstance(cell, dict | list | tuple), name
            assert not (isinstance(cell, str) and cell.startswith(("{", "["))), name


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_all_profiles_unless_one_is_named(store: Path) -> None:
    everything = load_results(str(store))
    assert set(everything["profile"]) == {"paper", "verify"}
    assert len(everything) == len(load_results(store, "paper")) + 1
    assert len(load_results(store, "verify")) == 1


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_an_epsilon_carries_what_it_means(store: Path) -> None:
    everything = load_results(store)
    assert everything["guarantee"].str.len().gt(0).all()
    (marked,) = everything[everything["accountant"] == "rdp_wor"]["guarantee"]
    assert "NOT PRIVATE" in marked


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_one_row_per_evaluation(store: Path) -> None:
    curves = load_trajectories(store, "paper")
    folder = "paper/default/mnist/online/k5/eps3/lr=0.3162/seed1"
    one = curves[curves["folder"] == folder]
    assert list(one["step"]) == [0, 586, 1172]
    assert list(one["value"]) == [0.1, 0.9170, 0.907]
    assert list(one["clip"]) == [0.1, 0.2, 0.4]
    assert set(one["metric"]) == {"accuracy"}
    assert one["epsilon_spent"].is_monotonic_increasing
    assert pd.api.types.is_integer_dtype(curves["step"])
    assert set(curves[curves["dataset"] == "fashion_mnist"]["metric"]) == {"mse"}


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_entries_of_the_trajectory_that_only_one_strategy_has(store: Path) -> None:
    curves = load_trajectories(store)
    assert list(curves[curves["profile"] == "verify"]["slope"]) == [1.0, 2.0]
    assert curves[curves["profile"] == "paper"]["slope"].isna().all()


def test_what_cannot_be_read_is_warned_of(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec("mnist", "online", 5, 3.0, 0, lr=0.3162), [0.1, 0.9])
    damaged = write_run(tmp_path, synthetic_spec("mnist", "online", 5, 3.0, 1, lr=0.3162), [0.1, 0.9])
    (damaged / "result.json").write_text("{")
    with pytest.warns(UserWarning, match="1 folders left out, the first paper/default/mnist/online"):
        assert len(load_results(tmp_path)) == 1


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a folder of runs, got none"):
        load_results(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        load_results(tmp_path, "paper")

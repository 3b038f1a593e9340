"""Collecting runs from whatever state the folder tree is in."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from report_helpers import small_store, synthetic_spec, synthetic_trade_off, write_run

from dp_bench.errors import UserError
from dp_bench.experiment.archive import Skipped
from dp_bench.experiment.folder_names import without_private_choices
from dp_bench.experiment.store import RunFolder
from dp_bench.files.checksummed import write_checksummed
from dp_bench.report.load.collect import collect
from dp_bench.report.load.results import Key
from dp_bench.report.load.sections import sections
from dp_bench.report.outputs.frames import frame


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return small_store(tmp_path / "runs")


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_every_run_is_a_row(store: Path) -> None:
    collection = collect(store, "paper")
    runs = frame(collection.runs)
    assert len(runs) == 15 + 9 + 75 + 3
    assert collection.skipped == ()
    row = runs[runs["folder"] == "paper/default/mnist/online/k5/eps3/lr=0.3162/seed1"].iloc[0]
    assert (row["best"], row["best_step"], row["final"], row["status"]) == (0.9170, 586, 0.907, "finished")
    assert (row["strategy.lr"], row["k"], row["epsilon"], row["candidates"], row["steps"]) == (
        0.316227766017,
        5,
        3.0,
        5,
        1172,
    )
    assert math.isnan(row["strategy.clip"])
    assert row["commit"].startswith("0123")
    assert (runs["status"] == "diverged").sum() == 3 + 75
    assert list(runs["strategy"].drop_duplicates()) == ["online", "fixed_threshold", "no_dp", "fixed_quantile"]


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_metrics_are_columns_of_numbers(store: Path) -> None:
    folder = "paper/default/mnist/online/k5/eps3/lr=0.3162/seed1"
    (run,) = (run for run in collect(store, "paper").runs if run.folder == folder)
    columns = run.columns()
    assert columns["step"] == [0, 586, 1172]
    assert columns["clip"] == [0.1, 0.2, 0.4]
    assert replace(run, metrics="step,accuracy\n0,what\n").columns() == {}
    assert replace(run, metrics="").columns() == {}


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_damage_is_named_and_skipped(store: Path) -> None:
    grid = store / "paper/default/mnist/online/k5/eps3"
    result = grid / "lr=0.3162/seed0/result.json"
    result.write_text(result.read_text().replace("0.9119", "0.9919"))  # a better result than was measured
    (grid / "lr=0.3162/seed1/result.json").write_text('{"status": "fin')  # a torn file
    (grid / "lr=0.3162/seed2/spec.json").unlink()
    shutil.copytree(grid / "lr=31.62/seed0", grid / "lr=31.62/seed7")  # another seed's run under its name
    shutil.copy(grid / "lr=0.003162/seed0/result.json", grid / "lr=31.62/seed1/result.json")
    (store / "paper/notes/old").mkdir(parents=True)
    (store / "paper/default/mnist/online/k5/eps5/lr=3.162/seed0/provenance.json").write_text("not JSON")
    collection = collect(store, "paper")
    reasons = {
        item.folder.removeprefix("paper/default/mnist/online/k5/eps3/"): item.reason for item in collection.skipped
    }
    assert set(reasons) == {
        *(f"lr=0.3162/seed{seed}" for seed in range(3)),
        *("lr=31.62/seed7", "lr=31.62/seed1", "paper/notes/old"),
    }
    assert "checksum" in reasons["lr=0.3162/seed0"]
    assert "whole JSON" in reasons["lr=0.3162/seed1"]
    assert "spec.json" in reasons["lr=0.3162/seed2"]
    assert "seed0" in reasons["lr=31.62/seed7"]
    assert "another protocol" in reasons["lr=31.62/seed1"]
    assert len(collection.runs) == 102 - 4
    assert "unknown" in {
        run.provenance.commit for run in collection.runs
    }  # a run whose provenance is damaged still counts


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_metrics_that_are_not_what_was_measured_are_named_and_skipped(store: Path) -> None:
    grid = store / "paper/default/mnist/online/k5/eps3/lr=0.3162"
    metrics = grid / "seed0/metrics.csv"
    metrics.write_text(metrics.read_text().replace("0.9119", "0.9919"))
    (grid / "seed1/metrics.csv").unlink()
    result = json.loads((grid / "seed2/result.json").read_text())
    write_checksummed(
        grid / "seed2/result.json", {n: v for n, v in result.items() if n not in ("sha256", "metrics_sha256")}
    )
    (grid / "seed2/metrics.csv").unlink()  # of an older version, whose results say nothing of them
    damaged, lost = collect(store, "paper").skipped
    assert damaged.folder.endswith("lr=0.3162/seed0")
    assert damaged.reason.startswith("metrics: expected what fits the checksum")
    assert lost.folder.endswith("lr=0.3162/seed1")
    assert lost.reason.startswith("metrics: expected what fits the checksum in its result, got none")


@pytest.mark.parametrize("value", [1e300, 1.5, -0.1, True, "0.9", [0.9]])
@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_value_that_no_run_could_have_stored_is_named_and_skipped(store: Path, value: object) -> None:
    path = store / "paper/default/mnist/online/k5/eps3/lr=0.3162/seed0/result.json"
    result = json.loads(path.read_text())
    del result["sha256"]
    write_checksummed(path, {**result, "best": {**result["best"], "value": value}})
    (skipped,) = collect(store, "paper").skipped
    expected = f"best accuracy: expected a number from 0 to 1, got {value!r}"
    expected = expected if type(value) is float else f"best.value: expected float, got {value!r}"
    assert expected in skipped.reason


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_links_are_named_and_not_followed(store: Path, tmp_path: Path) -> None:
    elsewhere = small_store(tmp_path / "elsewhere") / "paper/default/mnist/online"
    place = store / "paper/default/mnist"
    shutil.rmtree(place / "online")
    (place / "online").symlink_to(elsewhere)  # out of the store
    (place / "loop").symlink_to(store / "paper")  # back to where one came from
    (place / "itself").symlink_to(place / "itself")
    (place / "gone").symlink_to(tmp_path / "gone")
    (place / "notes.txt").symlink_to(Path(__file__))  # no folder: as harmless as any stray file
    collection = collect(store, "paper")
    assert collection.skipped == tuple(
        Skipped(f"paper/default/mnist/{name}", "a link: not followed") for name in ("gone", "itself", "loop", "online")
    )
    assert len(collection.runs) == 102 - 15


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_trade_off_that_is_not_what_was_measured_is_named_and_skipped(store: Path) -> None:
    for name in ("whole", "edited", "torn", "alone", "foreign"):
        synthetic_trade_off(store / "paper/trade_off" / name)
    (good,) = (found for found in collect(store, "paper").trade_offs if found.folder.endswith("whole"))
    assert good.columns["cosine"] == [0.5, 0.7, 0.4, 0.1]
    assert good.measured_on.startswith("Online, ρ = 0.3162, k = 5, ε = 3 for the grid, seed 0; noise multiplier")
    data = store / "paper/trade_off/edited/trade_off.csv"
    data.write_text(data.read_text().replace("0.7", "0.9"))
    (store / "paper/trade_off/torn/trade_off.json").write_text('{"label":')
    (store / "paper/trade_off/alone/trade_off.json").unlink()
    write_checksummed(store / "paper/trade_off/foreign/trade_off.json", {"csv_sha256": 3})
    collection = collect(store, "paper")
    assert [found.folder for found in collection.trade_offs] == ["paper/trade_off/whole"]
    reasons = {item.folder.removeprefix("paper/trade_off/"): item.reason for item in collection.skipped}
    assert set(reasons) == {"edited", "torn", "alone", "foreign"}
    assert reasons["edited"].startswith("trade_off.csv: expected what fits the checksum")
    assert reasons["torn"].startswith("trade_off.json: expected a whole JSON object")
    assert reasons["alone"] == "not a trade-off: expected a trade_off.json in it"


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_foreign_specs_are_skipped(store: Path) -> None:
    folder = store / "paper/default/mnist/online/k5/eps3/lr=0.3162/seed0"
    for content in (
        {"protocol": {}},
        {"protocol": "text"},
        {"protocol": {**_protocol(folder), "strategy": "tomorrow"}},
    ):
        write_checksummed(folder / "spec.json", content)
        (item,) = collect(store, "paper").skipped
        assert "not a run of this version" in item.reason


def _protocol(folder: Path) -> dict:
    return json.loads((folder / "spec.json").read_text())["protocol"]


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_unfinished_runs_are_counted_as_missing(store: Path) -> None:
    spec = synthetic_spec("mnist", "online", 5, 3.0, 3, lr=0.3162)
    folder = RunFolder(store, spec)
    folder.path.mkdir(parents=True)
    folder.write_spec()
    collection = collect(store, "paper")
    assert sum(run.status == "unfinished" for run in collection.runs) == 1
    grid = sections(collection.runs)[0].results[Key("mnist", "online", 5, 3.0)]
    assert (grid.unfinished, grid.seeds, grid.runs, grid.missing) == (1, 4, 9, 5 * 4 - 9)
    assert grid.best is not None
    assert grid.best.seeds == 3


def test_empty_and_absent_stores_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"got no such folder.*dp-bench run"):
        collect(tmp_path / "nowhere", "paper")
    (tmp_path / "smoke").mkdir()
    with pytest.raises(UserError, match=r"profiles here: smoke"):
        collect(tmp_path, "paper")
    with pytest.raises(UserError, match=r"smok: expected the runs of a profile.*did you mean `smoke`\?$"):
        collect(tmp_path, "smok")
    with pytest.raises(UserError, match=r"expected at least one run, got none"):
        collect(tmp_path, "smoke")
    (tmp_path / "smoke" / "a" / "b").mkdir(parents=True)
    with pytest.raises(UserError, match=r"1 folder skipped, the first: smoke/a/b"):
        collect(tmp_path, "smoke")


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_best_point_is_the_best_mean_of_those_that_converge(store: Path) -> None:
    results = sections(collect(store, "paper").runs)[0].results
    online = results[Key("mnist", "online", 5, 3.0)]
    assert online.best is not None
    assert online.best.hyperparameters == {"lr": 0.316227766017}
    assert online.best.mean() == pytest.approx(0.9119)
    assert online.best.sd() == pytest.approx(0.0051)
    assert online.best.mean("final") == pytest.approx(0.9019)
    assert (online.planned, len(online.points), online.searched, online.missing) == (5, 3, False, 6)
    assert online.at({"lr": 0.316}) is online.best
    assert online.at({"lr": 0.5}) is None
    threshold = results[Key("mnist", "fixed_threshold", 5, 3.0)]
    assert (threshold.diverged, threshold.all_diverged) == (3, False)
    assert threshold.best is not None
    assert threshold.best.hyperparameters == {"lr": 3.16227766017, "clip": 0.01}
    quantile = results[Key("fashion_mnist", "fixed_quantile", 5, 1.0)]
    assert quantile.all_diverged
    assert quantile.best is None
    assert quantile.complete


def test_a_seed_that_diverged_counts(tmp_path: Path) -> None:
    for seed, values in enumerate(([0.1, 0.9, 0.9], [0.1, 0.5, math.nan])):
        spec = synthetic_spec(seed=seed, lr=0.3162)
        write_run(tmp_path, spec, values, diverged="the test metric is not finite" if seed else None)
    (grid,) = sections(collect(tmp_path, "paper").runs)[0].results.values()
    assert grid.best is not None
    assert (grid.best.diverged, grid.best.mean()) == (1, pytest.approx(0.7))
    assert grid.best.values("final") == [0.9]  # of the other there is none


def test_lower_is_better_for_errors(tmp_path: Path) -> None:
    for lr, value in ((0.3162, 0.02), (3.162, 0.01)):
        write_run(tmp_path, synthetic_spec("fashion_mnist", epsilon=1.0, lr=lr), [0.17, value])
    (grid,) = sections(collect(tmp_path, "paper").runs)[0].results.values()
    assert grid.best is not None
    assert grid.best.values() == [0.01]


def test_variants_are_kept_apart(tmp_path: Path) -> None:
    def add(variant: str, strategy: str = "online", dataset: str = "mnist", **options: str) -> None:
        epsilon = math.inf if strategy == "no_dp" else 3.0
        spec = synthetic_spec(dataset, strategy, 5, epsilon, variant=variant, lr=0.3162, **options)
        write_run(tmp_path, spec, [0.1, 0.9])

    add("default")
    add("default", "no_dp")
    add("strategy.momentum=0")
    add("privacy.accountant=rdp_wor", accountant="rdp_wor")
    add("data=subset", dataset="ag_news", kind="subset")
    add("data=subset", "no_dp", dataset="ag_news", kind="subset")
    add("strategy.optimiser=sgd", "no_dp")
    main, *others = sections(collect(tmp_path, "paper").runs)
    assert main.variants == {"mnist": "default", "ag_news": "data=subset"}
    assert {key.strategy for key in main.results if key.dataset == "ag_news"} == {"online", "no_dp"}
    assert [section.slug for section in others] == [
        *("privacy.accountant=rdp_wor", "strategy.momentum=0", "strategy.optimiser=sgd (NoDP)")
    ]
    # NoDP has no privacy to choose: the default's runs are those to compare with.
    assert {key.strategy for key in others[0].results} == {"online", "no_dp"}
    assert {key.strategy for key in others[2].results} == {"no_dp"}
    preferred = sections(collect(tmp_path, "paper").runs, "strategy.momentum=0")[0]
    assert preferred.variants["mnist"] == "strategy.momentum=0"


def test_private_choices_do_not_matter_to_no_dp() -> None:
    assert without_private_choices("privacy.accountant=rdp_wor,strategy.momentum=0") == "default"
    assert without_private_choices("train.epochs=1,privacy.delta=1e-06") == "train.epochs=1"


def test_provenance_of_any_shape_costs_no_run(tmp_path: Path) -> None:
    odd = {"source": "x", "packages": "abc", "machine": 3, "seconds_of_last_session": "never"}
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9], provenance=odd)
    collection = collect(tmp_path, "paper")
    assert len(collection.runs) == 1
    assert not collection.skipped

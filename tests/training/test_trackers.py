"""Trackers get what is released, nothing else, and leave no trace in a run."""

import importlib.util
import json
from pathlib import Path

import pytest
from running import composed

from dp_bench.errors import UserError
from dp_bench.experiment.resolve import specs
from dp_bench.training import trackers
from dp_bench.training.job import run_configuration

SMALL = ["profile=smoke", "dataset=ag_news", "strategy=online", "strategy.lr=0.3162", "grid.k=5", "seeds=[0]"]


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_BENCH_OFFLINE", "1")
    monkeypatch.setenv("DP_BENCH_DATA", str(tmp_path))


def train(root: Path, tracker: str) -> dict[str, list[float]]:
    """The evaluations by column, after training with this tracker."""
    config = composed(*SMALL, f"runs={root}", f"tracker={tracker}", "quiet=true")
    run_configuration(config)
    (metrics,) = root.rglob("metrics.csv")
    head, *rows = (line.split(",") for line in metrics.read_text().splitlines())
    return {name: [float(row[i]) for row in rows] for i, name in enumerate(head)}


@pytest.mark.slow(reason="trains small models")
def test_a_tracker_is_not_part_of_a_run() -> None:
    plain, other = (specs(composed(*SMALL, f"tracker={name}"))[0] for name in ("none", "tensorboard"))
    assert plain.folder == other.folder
    assert plain.digest() == other.digest()
    assert "tracker" not in json.dumps(plain.to_json())


def test_unknown_or_missing_trackers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="tracker: expected"):
        specs(composed(*SMALL, "tracker=wandb"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"tracker: expected the package mlflow .*; pip install 'dp_bench\[mlflow\]'"):
        trackers.check_tracker("mlflow")
    trackers.check_tracker("none")


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="no tensorboard here")
@pytest.mark.slow(reason="trains twice")
def test_tensorboard_has_the_released_curves(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    plain, columns = train(tmp_path / "plain", "none"), train(tmp_path / "runs", "tensorboard")
    assert plain == columns
    assert {p.name for p in (tmp_path / "plain").rglob("*")} == {p.name for p in (tmp_path / "runs").rglob("*")}
    assert not (tmp_path / "plain-tensorboard").exists()
    (events,) = (tmp_path / "runs-tensorboard").rglob("events.*")
    assert events.parent.relative_to(tmp_path / "runs-tensorboard").parts[0] == "smoke"
    read = EventAccumulator(str(events))
    read.Reload()
    assert set(read.Tags()["scalars"]) == columns.keys() - {"step"}
    for name in read.Tags()["scalars"]:
        assert [event.step for event in read.Scalars(name)] == columns["step"]
        assert [event.value for event in read.Scalars(name)] == pytest.approx(columns[name], rel=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="no mlflow here: pip install 'dp_bench[mlflow]'")
@pytest.mark.slow(reason="trains, and mlflow takes seconds to start")
def test_mlflow_has_the_released_curves_and_hyperparameters(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    columns = train(tmp_path / "runs", "mlflow")
    assert (tmp_path / "runs-mlflow").is_dir()
    client = MlflowClient(tracking_uri=(tmp_path / "runs-mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("dp_bench").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["strategy"] == "online"
    assert run.data.params["guarantee"].startswith("epsilon is spent by the whole grid")
    assert run.data.metrics.keys() == columns.keys() - {"step"}
    history = client.get_metric_history(run.info.run_id, "accuracy")
    assert [(point.step, point.value) for point in history] == list(
        zip(columns["step"], columns["accuracy"], strict=True)
    )

"""What every task promises, and how little one from outside needs."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dp_bench.data import Arrays, Collection, File, Found, Rows, Version
from dp_bench.experiment.config import DatasetConfig, ModelConfig
from dp_bench.tasks import TASKS, Classification, Reconstruction, Task

CONTENT = "\n".join(f"{i % 7},{i % 3}" for i in range(12)).encode()
FILE = File(("points.csv",), (Version("complete", "sha256", hashlib.sha256(CONTENT).hexdigest(), 12),))


class Points(Classification):
    """Twelve rows in one file, the last four of them for testing."""

    name = "points"
    title = "Points"
    model = model_title = "linear"
    classes = 3
    collections = (Collection("points", ("points",), {"all": FILE}),)

    def rows(self, versions: Mapping[str, Version]) -> tuple[int, int]:
        return versions["all"].rows - 4, 4

    def shape(self, options: Mapping) -> tuple[int, ...]:
        return (1,)

    def arrays(self, files: Mapping[str, Found], rows: Rows, options: Mapping) -> Arrays:
        table = np.array([line.split(b",") for line in files["all"].content().splitlines()]).astype(np.int64)
        x, y = table[:, :1].astype(np.float32), table[:, 1]
        return Arrays(x[:8][rows], y[:8][rows], x[8:], y[8:])

    def build(self, options: Mapping) -> nn.Sequential:
        return nn.Sequential(nn.Linear(1, self.classes))


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Points:
    monkeypatch.setenv("DP_BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "points").mkdir()
    (tmp_path / "points/points.csv").write_bytes(CONTENT)
    return Points()


def test_a_task_from_outside(points: Points) -> None:
    data = points.load({"words": 25, "limit": None, "stand_in": False, "output_activation": False})
    assert (data.source.kind, data.source.train_rows, data.source.test_rows) == ("complete", 8, 4)
    assert data.train_x[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert data.test_y.tolist() == [2, 0, 1, 2]
    assert len(points.load({"limit": 5}).train_y) == 5
    assert points.load({"limit": 5}).source == points.describe({"limit": 5})
    recipe = points.recipe()
    assert recipe.losses(recipe.build()(data.train_x), data.train_y).shape == (8,)


def test_a_task_from_outside_has_a_synthetic_twin(points: Points, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DP_BENCH_DATA")
    data = points.load({"stand_in": True, "limit": 100})
    assert (data.train_x.shape, data.test_x.shape) == ((100, 1), (1_000, 1))
    assert data.source.kind == "stand-in"
    assert data.train_y.unique().tolist() == [0, 1, 2]


@pytest.mark.slow(reason="generates every synthetic data set")
@pytest.mark.parametrize("name", TASKS)
def test_it_keeps_its_promises(name: str) -> None:
    task = TASKS[name]
    assert isinstance(task, Task)
    assert task.name == name
    data, recipe = task.load({"stand_in": True, "limit": 50}), task.recipe()
    assert data.train_x.shape == (50, *task.shape({**task.data_options, **task.model_options}))
    assert (task.classes is None) == (data.train_y is data.train_x) == isinstance(task, Reconstruction)
    if task.classes is not None:
        assert 0 <= data.train_y.min() <= data.train_y.max() < task.classes
    outputs = recipe.build()(data.train_x)
    for function in (recipe.losses, recipe.scores):
        assert function(outputs, data.train_y).shape == (50,)
    assert task.recipe().losses(outputs, data.train_y).isfinite().all()
    assert torch.equal(data.test_x, task.load({"stand_in": True}).test_x)


def test_the_papers_options_are_the_configurations_defaults() -> None:
    defaults = {"dataset": asdict(DatasetConfig()), "model": asdict(ModelConfig())}
    for task in TASKS.values():
        assert task.data_options.items() <= defaults["dataset"].items()
        assert task.model_options.items() <= defaults["model"].items()
    read = {key for task in TASKS.values() for key in (*task.data_options, *task.model_options)}
    everywhere = {"name", "limit", "emulate_size", "stand_in"}
    assert read | everywhere == {key for group in defaults.values() for key in group}, "a key that no task reads"


def test_nothing_else_asks_for_a_data_set_by_name() -> None:
    """Names are written in the tasks' own files, in examples of commands, in what the paper published, in the audit."""
    package = Path(__file__).parents[2] / "dp_bench"
    allowed = {package / f"{name}.py" for name in ("cli", "sweep/command", "tasks/command", "report/scorecard")}
    allowed |= {package / "report/reproduce.py"}  # which of them are trained within a quarter of an hour
    allowed |= {
        *(package / "tasks").glob("*.py"),
        *(package / "paper").glob("*.py"),
        *(package / "testing").glob("*.py"),
    }
    for path in sorted(set(package.rglob("*.py")) - allowed):
        found = [name for name in TASKS if f'"{name}"' in path.read_text()]
        assert not found, f"{path.relative_to(package)} asks for {found}"

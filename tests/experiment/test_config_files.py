"""A user's own --config-dir, malformed or hostile: one line, exit code 2, nothing written, nothing imported."""

import sys
import time
from pathlib import Path

import pytest
from quick_hydra import quick_hydra

from dp_bench.cli import main

_WHOLE = "# @package _global_\n"
_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 10)}]\n" for name in "bcdefghij"
)
FILES: dict[str, str | bytes] = {
    "an open list": "a: [1",
    "an open brace": "seeds: {0",
    "a Python tag": "runs: !!python/object/apply:os.getcwd []",
    "an unknown tag": "runs: !x y",
    "a tab": "privacy:\n\tepsilon: 3",
    "a list": "- 1\n- 2",
    "a number": "3",
    "text": "hello",
    "nothing": "",
    "null": "null",
    "Latin 1": "runs: déjà".encode("latin1"),
    "UTF-16": "runs: x".encode("utf16"),
    "bytes": bytes(range(256)),
    "NUL": "runs: a\0b",
    "a bell": "runs: \a",
    "a key twice": f"{_WHOLE}seeds: [0]\nseeds: [1]",
    "two documents": "seeds: [0]\n---\nseeds: [1]",
    "no such anchor": "seeds: *nope",
    "a merge of a number": "<<: 3",
    "an alias of itself": "a: &a [*a]",
    "a billion aliases": _BOMB,
    "brackets": "[" * 3000,
    "steps": "".join(" " * depth + "a:\n" for depth in range(400)),
    "a number as key": f"{_WHOLE}1: 2",
    "null as key": f"{_WHOLE}null: 2",
    "a list as key": f"{_WHOLE}? [1]\n: 2",
    "a dotted key": f"{_WHOLE}privacy.epsilon: 2",
    "an unknown key": f"{_WHOLE}nope: 3",
    "an unknown key below": f"{_WHOLE}privacy:\n  nope: 3",
    "a group that is a number": f"{_WHOLE}privacy: 3",
    "a list that is a number": f"{_WHOLE}seeds: 3",
    "a truth as seed": f"{_WHOLE}seeds: [true]",
    "a list as seed": f"{_WHOLE}seeds: [[1]]",
    "a number as truth": f"{_WHOLE}dataset:\n  stand_in: 3",
    "defaults: a number": "defaults: 3",
    "defaults: a mapping": "defaults:\n  a: b",
    "defaults: null": "defaults:\n  - null",
    "defaults: a list": "defaults:\n  - [1]",
    "defaults: no such group": "defaults:\n  - nope: x",
    "defaults: no such file": "defaults:\n  - nothing",
    "defaults: itself": "defaults:\n  - mine",
    "defaults: another place": "defaults:\n  - ../../x",
    "defaults: no such grid": f"{_WHOLE}defaults:\n  - override /grid: nope",
    "defaults: into hydra": f"{_WHOLE}defaults:\n  - /experiment@hydra.job_logging: other",
    "a package": "# @package ../x\nseeds: [0]",
    "a package of Hydra's": "# @package hydra.job\nchdir: true",
    "an interpolation of nothing": f"{_WHOLE}runs: ${{nope}}",
    "an interpolation of itself": f"{_WHOLE}runs: ${{runs}}",
    "an open interpolation": f"{_WHOLE}runs: ${{",
    "an unknown resolver": f"{_WHOLE}runs: ${{nope:1}}",
    "hydra.run.dir": f"{_WHOLE}hydra:\n  run:\n    dir: x",
    "hydra.sweep.dir": f"{_WHOLE}hydra:\n  sweep:\n    dir: ../x",
    "hydra.job.chdir": f"{_WHOLE}hydra:\n  job:\n    chdir: true",
    "hydra.output_subdir": f"{_WHOLE}hydra:\n  output_subdir: x",
    "hydra.searchpath": f"{_WHOLE}hydra:\n  searchpath: [/tmp]",
    "hydra.job_logging": f"{_WHOLE}hydra:\n  job_logging:\n    handlers:\n      x:\n        (): planted.Planted",
    "hydra.sweeper.params": f"{_WHOLE}hydra:\n  sweeper:\n    params: 3",
    "hydra: an interpolation": f"{_WHOLE}hydra: ${{privacy}}",
    "a launcher": f"{_WHOLE}hydra:\n  launcher:\n    _target_: planted.Planted",
    "a callback": f"{_WHOLE}hydra:\n  callbacks:\n    x:\n      _target_: planted.Planted",
    "a target in a list": f"{_WHOLE}hydra:\n  launcher:\n    x: [_target_: planted.Planted]",
}
_SMOKE = ["profile=smoke", "dataset=ag_news", "strategy=online", "strategy.lr=0.316"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of configurations, beside the current folder and a module that must not be imported."""
    monkeypatch.delenv("DP_BENCH_DATA", raising=False)
    for name in ("conf/experiment", "modules", "here"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "modules" / "planted.py").write_text("class Planted: pass\n")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "conf"


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
@pytest.mark.slow(reason="composes every configuration")
def test_a_malformed_or_hostile_file(folder: Path, content: str | bytes, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "experiment" / "mine.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    started = time.process_time()
    with quick_hydra():
        code = main(["run", f"--config-dir={folder}", "experiment=mine", *_SMOKE])
    told = capsys.readouterr().err
    assert (code, told.count("\n"), told[:10]) == (2, 1, "dp-bench: "), told
    assert len(told) < 500
    assert list(Path.cwd().iterdir()) == []
    assert "planted" not in sys.modules
    assert time.process_time() - started < 20  # a billion aliases take hours


@pytest.mark.parametrize("words", [["--config-dir", "{}"], ["-cd", "{}"], ["--config-dir={}"], ["-cp", "{}"]])
def test_however_the_folder_is_named(folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hydra" / "callbacks").mkdir(parents=True)
    (folder / "hydra" / "callbacks" / "mine.yaml").write_text("x:\n  _target_: planted.Planted\n")
    assert main(["run", *(word.format(folder) for word in words), *_SMOKE]) == 2
    assert "callbacks/mine.yaml: hydra.callbacks.x._target_: expected a choice" in capsys.readouterr().err


def test_a_folder_that_is_none_of_configurations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "experiment" / "back").symlink_to(folder)
    for number in range(300):
        (folder / f"{number}.txt").touch()
    assert main(["run", f"--config-dir={folder}", *_SMOKE]) == 2
    assert "--config-dir: expected a folder of configurations" in capsys.readouterr().err


@pytest.mark.slow(reason="composes every configuration")
def test_an_experiment_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = "hydra:\n  sweeper:\n    params:\n      strategy: online\n      grid.k: 2\n"
    (folder / "experiment" / "mine.yaml").write_text(f"{_WHOLE}privacy: {{epsilon: 4}}\n{sweep}")
    (folder / "experiment" / "unused.yaml").write_text("a: [1")  # what is not chosen is not read
    words = ["run", "-m", "--config-dir", str(folder), "experiment=mine", "profile=smoke", "dataset=ag_news"]
    assert main([*words, "seeds=[-1]"]) == 2
    assert "seeds: expected whole numbers" in capsys.readouterr().err

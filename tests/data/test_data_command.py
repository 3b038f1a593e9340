"""`dp-bench data`."""

import json
from pathlib import Path

import pytest
import torch
from data_helpers import TRAIN_IMAGES, load, sha256, write_files

from dp_bench.data import Source
from dp_bench.data.tensor_cache import _FORMAT, path_of, remove
from dp_bench.errors import UserError
from dp_bench.tasks import command


def test_it_tells_what_is_there(own: Path, tiny: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    write_files(own / "mnist", tiny)
    assert command.main(["mnist"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mnist: complete, 20 + 8 rows, in $DP_BENCH_DATA"
    assert f"  ok: {TRAIN_IMAGES} sha256 {sha256(tiny[TRAIN_IMAGES])}" in lines


def test_one_failure_does_not_hide_the_others(
    own: Path, tiny: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(own / "mnist", tiny)
    with pytest.raises(UserError, match=r"data of fashion_mnist: .*\| data of ag_news: "):
        command.main(["fashion_mnist", "mnist", "ag_news"])
    assert "mnist: complete" in capsys.readouterr().out


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["--help"])
    assert stop.value.code == 0
    assert "dp-bench data mnist" in capsys.readouterr().out


def test_caveats_are_shown() -> None:
    source = Source("subset", "cache", ("half of it",), {}, 5, 3)
    assert command.report("x", source) == ["x: subset, 5 + 3 rows, in cache", "  note: half of it"]


# What runs have cached


@pytest.fixture
def tensors(own: Path, tiny: dict[str, bytes], tmp_path: Path) -> Path:
    """The file of the tiny data set's tensors, as a run leaves it in the cache."""
    write_files(own / "mnist", tiny)
    load("mnist")
    (path,) = (tmp_path / "cache" / "tensors").glob("*.pt")
    return path


def forge(path: Path, name: str = "train_x") -> None:
    """Other content with a record that fits it: what somebody would leave who knows how it is checked."""
    content = {key: tensor.clone() for key, tensor in torch.load(path).items()}
    content[name].view(-1)[0] += 1
    torch.save(content, path)
    record = path.with_suffix(".json")
    record.write_text(json.dumps({**json.loads(record.read_bytes()), "sha256": sha256(path.read_bytes())}))


def test_cached_tensors_are_bound_to_the_files_they_were_made_of(tensors: Path, tiny: dict[str, bytes]) -> None:
    record = json.loads(tensors.with_suffix(".json").read_bytes())
    assert record["origin"] == {
        "name": "mnist",
        "rows": 20,
        "checksums": {name: sha256(content) for name, content in tiny.items()},
    }
    assert record["sha256"] == sha256(tensors.read_bytes())


def test_cached_tensors_are_made_again_and_compared(tensors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["mnist"]) == 0
    assert f"  ok: {tensors.name} is made of these files" in capsys.readouterr().out.splitlines()
    assert tensors.exists()


@pytest.mark.parametrize("name", ["train_x", "train_y", "test_x", "test_y"])
def test_forged_tensors_are_removed(tensors: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    truth = load("mnist")
    expected = (truth.train_x.clone(), truth.train_y.clone(), truth.test_x.clone(), truth.test_y.clone())
    forge(tensors, name)
    assert command.main(["mnist"]) == 0
    assert f"  removed: {tensors} is not what these files make" in capsys.readouterr().out.splitlines()
    assert list(tensors.parent.iterdir()) == []
    again = load("mnist")
    found = (again.train_x, again.train_y, again.test_x, again.test_y)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("how", ["no record", "of other files", "of more rows", "no tensors"])
def test_tensors_that_cannot_be_made_of_these_files_are_removed(
    tensors: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content = tensors.read_bytes()
    remove(tensors)
    origin = {"name": "mnist", "rows": 20, "checksums": {}}
    if how == "of more rows":
        origin["rows"] = 21
    path = path_of(origin)
    path.write_bytes(b"no tensors" if how == "no tensors" else content)
    if how != "no record":
        record = {"format": _FORMAT, "origin": origin, "sha256": sha256(path.read_bytes())}
        path.with_suffix(".json").write_text(json.dumps(record))
    assert command.main(["mnist"]) == 0
    assert f"  removed: {path} " in capsys.readouterr().out
    assert not path.exists()


def test_another_data_sets_tensors_are_left_to_it(tensors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge(tensors)
    with pytest.raises(UserError, match="data of fashion_mnist: expected a folder"):
        command.main(["fashion_mnist"])
    assert tensors.exists()


def test_clear_cache_removes_all_of_it_and_nothing_else(tensors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tensors.parent.parent / "calibration" / "entry.json"
    figure = tensors.parent.parent / "figures" / "metric.png"
    write_files(other.parent, {other.name: b"{}"})
    write_files(figure.parent, {figure.name: b"figure"})
    assert command.main(["--clear-cache"]) == 0
    assert capsys.readouterr().out.startswith("removed 2 files of tensors and figures from ")
    assert other.exists()
    assert not tensors.parent.exists()
    assert not figure.parent.exists()


def test_unknown_name() -> None:
    with pytest.raises(UserError, match=r"data set: expected one of mnist, fashion_mnist, ag_news, got cifar"):
        command.main(["mnist", "cifar"])

"""`dp-bench data`."""

from pathlib import Path

import pytest
from data_helpers import TRAIN_IMAGES, sha256, write_files

from dp_bench.data import Source, command
from dp_bench.errors import UserError


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
    with pytest.raises(UserError, match=r"fashion_mnist was not found: .*\| ag_news was not found: "):
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

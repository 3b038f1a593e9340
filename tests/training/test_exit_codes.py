"""A run that cannot be carried out through no fault of the command says so with a code of its own."""

import itertools
import json
import time
from pathlib import Path

import pytest
from running import carry_out, contents, data_of, smoke

from dp_bench.cli import main
from dp_bench.experiment.store import RunFolder

WORDS = ["run", "profile=smoke", "dataset=ag_news", "strategy=online", "strategy.lr=0.316", "seeds=[0]"]


@pytest.mark.usefixtures("without_data")
@pytest.mark.slow(reason="trains small models")
def test_damage_and_another_process_have_codes_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(Path("runs"), smoke("online", "seeds=[0]")[0])
    with folder.claimed():
        assert main(WORDS) == 4
        assert "expected runs that are free, got 1 of 1 that another process is running" in capfd.readouterr().err
    assert main(WORDS) == 0
    metrics = folder.path / "metrics.csv"
    whole = metrics.read_bytes()
    for damaged in (whole[:-3], whole + b"x", None):
        metrics.write_bytes(damaged) if damaged is not None else metrics.unlink()
        capfd.readouterr()
        assert main(WORDS) == 3
        (line,) = capfd.readouterr().err.strip().splitlines()
        assert "metrics: expected what fits the checksum in its result, got" in line
    metrics.write_bytes(whole)
    assert main(WORDS) == 0


@pytest.mark.usefixtures("without_data")
@pytest.mark.slow(reason="trains small models")
def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke("online", "seeds=[0]")[0]
    dataset = data_of(spec)
    carry_out(spec, tmp_path / "steady", dataset)
    jumps, now = itertools.count(1), time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86400 * next(jumps))  # a day back whenever somebody looks
    carry_out(spec, tmp_path / "jumping", dataset)
    assert contents(tmp_path / "jumping") == contents(tmp_path / "steady")
    (provenance,) = (tmp_path / "jumping").rglob("provenance.json")
    assert json.loads(provenance.read_text())["seconds_of_last_session"] >= 0

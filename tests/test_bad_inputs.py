"""Commands that cannot be meant: each is refused in one line, with exit code 2, and writes nothing."""

from pathlib import Path

import bad_inputs
import pytest
from quick_hydra import quick_hydra

from dp_bench.cli import main

TABLE = bad_inputs.table()


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 300


@pytest.mark.slow(reason="over 500 commands, a twentieth of a second each where Hydra has to compose")
@pytest.mark.usefixtures("without_data")
def test_every_command_of_the_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with quick_hydra():
        assert not [problem for words in TABLE if (problem := _problem(words, tmp_path, capsys))]


def _problem(words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> str | None:
    """What is wrong with how a command was refused."""
    try:
        code, told = _outcome(words, capsys)
    except BaseException as error:
        return f"{words}: {type(error).__name__}: {error}"
    expected = f"did you mean `{TABLE[words]}`?" if TABLE[words] else ""
    well = code == 2 and told.startswith("dp-bench: ") and told.count("\n") == 1 and expected in told
    return None if well and not list(folder.iterdir()) else f"{words}: exit code {code}, {told!r}"


def _outcome(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    return main(list(words)), capsys.readouterr().err


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize("words", sorted(TABLE)[::23], ids=lambda words: " ".join(words)[-40:])
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_a_sample_of_the_table(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _problem(words, tmp_path, capsys) is None
    told = _outcome(words, capsys)
    with quick_hydra():
        assert _outcome(words, capsys) == told

"""Every key of the schema is given values of other types: none is taken for something else."""

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quick_hydra import quick_hydra
from running import POINT

from dp_bench.cli import main
from dp_bench.experiment.config import Config, boolean_keys, strategy_schema
from dp_bench.strategies import STRATEGIES

_ANYWHERE = ("{a:1}", "[[1]]")
WRONG = {
    bool: ("3", "0", "1.5", "'3'", "text", "[true]", "null"),
    int: ("true", "1.5", "text", "[1]", "null"),
    float: ("true", "text", "[1]", "null"),
    str: ("true", "1e3", "[text]", "null"),
    list: ("3", "text", "true", "[true]", "[text]", "null"),
    dict: ("3", "text", "true", "[1]"),
}


def _keys(kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _keys(hints[field.name], f"{prefix}{field.name}.")
        elif hints[field.name] is not Any:
            yield f"{prefix}{field.name}", hints[field.name]


def _wrong(declared: Any) -> list[str]:
    """Values that are not of this type."""
    inner = [each for each in typing.get_args(declared) if each is not type(None)]
    optional = len(inner) < len(typing.get_args(declared))
    kind = inner[0] if optional else typing.get_origin(declared) or declared
    return [value for value in (*WRONG[kind], *_ANYWHERE) if not (optional and value == "null")]


def _commands() -> Iterator[tuple[str, ...]]:
    """One per key of the schema, strategies' own included, and wrong value; of a strategy's keys, each once."""
    keys = {key: ("online", declared) for key, declared in _keys(Config)}
    for name in STRATEGIES.built_in:
        for key, declared in _keys(strategy_schema(name), "strategy."):
            keys.setdefault(key, (name, declared))
    for key, (strategy, declared) in keys.items():
        chosen = ["profile=smoke", "dataset=ag_news", f"strategy={strategy}"]
        point = [word for word in POINT[strategy] if not word.startswith(f"{key}=")]
        yield from (("run", *chosen, *point, f"{key}={value}") for value in _wrong(declared))


@pytest.mark.slow(reason="some 400 configurations are composed")
@pytest.mark.usefixtures("without_data")
def test_no_key_takes_a_value_of_another_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    accepted = []
    with quick_hydra():
        for command in _commands():
            code, told = main(list(command)), capsys.readouterr().err
            if code != 2 or not told.startswith("dp-bench: ") or told.count("\n") != 1 or list(tmp_path.iterdir()):
                accepted.append((command[-1], code, told))
    assert not accepted


def test_every_key_has_wrong_values() -> None:
    commands = list(_commands())
    assert len(commands) > 300
    given = {command[-1].partition("=")[0] for command in commands}
    assert given >= {"quiet", "runs", "seeds", "grid.also.lr", "grid.axes", "strategy.momentum", "train.sampling"}
    assert given >= boolean_keys() >= {"quiet", "dataset.stand_in", "model.output_activation"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(
            (f"{key}={value}", "expected true or false")
            for key in ("dataset.stand_in", "quiet")
            for value in ("3", "0")
        ),
        ("+dataset.stand_in=choice(0,1)", "expected true or false"),
        ("runs=1.50", "write runs=./1.50"),
    ],
)
def test_what_is_said(word: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "profile=smoke", "dataset=ag_news", "strategy=online", word]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("word", ["quiet=yes", "quiet=false", "runs=./1.50", "runs=2024", "runs=1.5"])
@pytest.mark.usefixtures("without_data")
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_what_can_be_meant_is_taken(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "profile=smoke", "dataset=ag_news", "strategy=online", word, "seeds=[-1]"]) == 2
    assert "strategy.lr: expected a value" in capsys.readouterr().err  # what is asked for next

"""The command line: what people type, and what they are told when it is wrong."""

from pathlib import Path

import pytest

from dp_bench import __version__
from dp_bench.cli import main

ONLINE = ["dataset=ag_news", "strategy=online", "strategy.lr=0.316"]
SMOKE = ["run", "profile=smoke", *ONLINE]

MISTAKES = {
    "unknown command": (["runn"], "command: found 'runn'"),
    "unknown data set": ([*SMOKE, "dataset=cifar"], "cifar"),
    "unknown strategy": ([*SMOKE, "strategy=sgd"], "sgd"),
    "unknown profile": ([*SMOKE, "profile=fast"], "fast"),
    "unknown key": ([*SMOKE, "strategy.learning_rate=1"], "learning_rate"),
    "wrong type": ([*SMOKE, "train.batch_size=many"], "many"),
    "no swept value": (["run", "profile=smoke", "strategy=fixed_threshold", "strategy.lr=0.316"], "strategy.clip"),
    "epsilon of zero": ([*SMOKE, "privacy.epsilon=0"], "epsilon"),
    "negative epsilon": ([*SMOKE, "privacy.epsilon=-1"], "epsilon"),
    "epsilon not a number": ([*SMOKE, "privacy.epsilon=nan"], "epsilon"),
    "infinite epsilon": ([*SMOKE, "privacy.epsilon=inf"], "epsilon"),
    "delta of one": ([*SMOKE, "privacy.delta=1"], "delta"),
    "delta of zero": ([*SMOKE, "privacy.delta=0"], "delta"),
    "unknown accountant": ([*SMOKE, "privacy.accountant=gdp"], "gdp"),
    "quantile above one": (
        ["run", "profile=smoke", "strategy=fixed_quantile", "strategy.lr=0.316", "strategy.quantile=1.5"],
        "quantile",
    ),
    "batch above the data set": ([*SMOKE, "train.batch_size=100000"], "100000"),
    "no batch": ([*SMOKE, "train.batch_size=0"], "train.batch_size"),
    "no step": ([*SMOKE, "train.epochs=1e-9"], "train.epochs"),
    "value outside the grid": ([*SMOKE, "strategy.lr=0.5"], "grid.also.lr=[0.5]"),
    "grid too small": ([*SMOKE, "grid.k=1"], "grid.k"),
    "a range of one end": ([*SMOKE, "grid.lr=[1]"], "grid.lr"),
    "unknown update": ([*SMOKE, "strategy.update_rule=newton"], "newton"),
    "seed twice": ([*SMOKE, "seeds=[1,1]"], "seeds"),
    "no seed": ([*SMOKE, "seeds=[]"], "seeds"),
    "unknown seeding": ([*SMOKE, "seed=7"], "named, secure"),
    "unknown device": ([*SMOKE, "device=tpu"], "tpu"),
    "device that is not there": ([*SMOKE, "device=cuda"], "CUDA"),
    "unknown keep": ([*SMOKE, "checkpoint.keep=some"], "some"),
    "too many rows": ([*SMOKE, "dataset.limit=10000000"], "10000000"),
    "too many words": ([*SMOKE, "dataset.words=1000"], "words"),
    "no words": ([*SMOKE, "dataset.words=0"], "words"),
    "missing data": ([*SMOKE, "dataset.stand_in=false"], "DP_BENCH_DATA"),
    "override without a value": ([*SMOKE, "privacy.epsilon"], "privacy.epsilon"),
    "endless training": ([*SMOKE, "train.epochs=inf"], "train.epochs"),
    "a strategy by another's name": ([*SMOKE, "strategy.name=fixed_threshold"], "strategy=fixed_threshold"),
    "a strategy that is none": ([*SMOKE, "strategy.name=sgd"], "sgd"),
    "no quantiles": ([*SMOKE, "grid.quantile=[]"], "grid.quantile"),
    "a quantile that cannot be": ([*SMOKE, "grid.quantile=[0.5,2]"], "grid.quantile"),
    "a key that nothing reads": ([*SMOKE, "+nope=1"], "nope"),
    "not a number": ([*SMOKE, "strategy.clip_lr=nan"], "clip_lr"),
    "a decay of one": (["run", "profile=smoke", "strategy=adam_wosm", "strategy.clip=1", "strategy.beta=1"], "beta"),
    "a folder that cannot be": ([*SMOKE, "runs=/proc/nowhere"], "/proc/nowhere"),
    "unknown option": (["--nope"], "command: found '--nope'"),
    "unknown option of run": (["run", "--nope"], "arguments: found --nope, expected what dp-bench run --help lists"),
    "unknown option of plan": (["plan", "-m", *ONLINE], "arguments: found -m"),
    "unknown option of data": (["data", "--nope"], "arguments: found --nope"),
    "unknown option of report": (["report", "--nope"], "arguments: found --nope"),
    "option without a value": (["plan", "--accountants"], "argument --accountants: expected one argument"),
    "no words to plan for": (["plan", "profile=smoke", *ONLINE, "dataset.words=0"], "dataset.words: found 0"),
    "unknown data set to look for": (["data", "cifar"], "cifar"),
}


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize(("arguments", "named"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2_and_nothing_is_written(
    arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if "device=cuda" in arguments:
        import torch

        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    told = capfd.readouterr().err.strip()
    assert named in told
    assert len(told.splitlines()) == 1, told
    assert told.startswith("dp-bench: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_data")
def test_a_run_says_what_it_is_and_a_second_one_does_not_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(SMOKE) == 0
    first = capfd.readouterr()
    assert "generated stand-in, not data" in first.out
    assert "(3, 1e-05) for 5 candidates, seeds not charged, by rdp" in first.out
    assert "over 2 seeds" in first.out
    assert "step 6 of 6" in first.err
    assert main(SMOKE) == 0
    second = capfd.readouterr()
    assert second.out == first.out
    assert second.err == ""
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]


@pytest.mark.usefixtures("without_data")
def test_models_that_a_finished_run_did_not_keep_are_missed_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sweep = ["run", "-m", *SMOKE[1:], "privacy.epsilon=3", "hydra/launcher=basic"]
    for command in (SMOKE, sweep):
        finished, fresh = ([*command, f"runs={tmp_path / name}"] for name in ("runs", f"fresh{len(command)}"))
        assert main(finished) == 0
        assert "checkpoint.keep" not in "".join(capfd.readouterr())
        assert main([*finished, "checkpoint.keep=best"]) == 0
        (note,) = (line for line in "".join(capfd.readouterr()).splitlines() if "checkpoint.keep" in line)
        assert note.startswith("note: checkpoint.keep=best: found no best.pt in 2 of the finished runs")
        assert "runs=FOLDER" in note
        assert main([*fresh, "checkpoint.keep=best"]) == 0
        assert "checkpoint.keep" not in "".join(capfd.readouterr())


@pytest.mark.usefixtures("without_data")
def test_a_grid_can_be_widened_as_the_refusal_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SMOKE, f"runs={tmp_path}", "seeds=[0]", "strategy.lr=0.5", "grid.also.lr=[0.5]"]) == 0
    assert "for 6 candidates" in capfd.readouterr().out


@pytest.mark.usefixtures("without_data")
def test_what_is_not_private_is_never_called_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = f"runs={tmp_path}"
    assert main([*SMOKE, root, "seeds=[0]", "privacy.accountant=rdp_wor"]) == 0
    assert "NOT private: rdp_wor: epsilon is no guarantee" in capfd.readouterr().out
    assert main(["run", "profile=smoke", "dataset=ag_news", "strategy=no_dp", "strategy.lr=0.00316", root]) == 0
    assert "not private" in capfd.readouterr().out


def test_delta_not_below_one_over_n_is_warned_of(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SMOKE, f"runs={tmp_path}", "seeds=[0]", "privacy.delta=1e-3"]) == 0
    assert "warning: delta = 0.001 is not below 1/N" in capfd.readouterr().out


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        assert main(arguments) == 0
        assert "dp-bench run dataset=mnist strategy=online strategy.lr=0.316" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dp-bench {__version__}\n"


def test_the_help_of_run_shows_examples_groups_and_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    told = capsys.readouterr().out
    for text in ("examples:", "fashion_mnist", "evaluate_every: 50", "accountant: rdp", "quantile: ???"):
        assert text in told

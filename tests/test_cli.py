"""The command line: what people type, and what they are told when it is wrong."""

from pathlib import Path

import pytest

from dp_bench import __version__
from dp_bench.cli import main
from dp_bench.experiment.conf import groups

ONLINE = ["dataset=ag_news", "strategy=online", "strategy.lr=0.316"]
SMOKE = ["run", "profile=smoke", *ONLINE]

MISTAKES = {
    "unknown command": (["runn"], "got runn; did you mean `run`?"),
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
    "unknown option": (["--nope"], "audit, got --nope; see dp-bench --help"),
    "unknown option of run": (["run", "--nope"], "arguments: expected what dp-bench run --help lists, got --nope"),
    "unknown option of plan": (["plan", "-m", *ONLINE], "arguments: expected what dp-bench plan --help lists, got -m"),
    "unknown option of data": (["data", "--nope"], "--help lists, got --nope"),
    "unknown option of report": (["report", "--nope"], "--help lists, got --nope"),
    "option of run, misspelt": (["run", "--multirn", *ONLINE], "got --multirn; did you mean `--multirun`?"),
    "option of report, misspelt": (["report", "--profle=quick"], "got --profle=quick; did you mean `--profile`?"),
    "option cut short": (["data", "--clear-cach"], "got --clear-cach; did you mean `--clear-cache`?"),
    "option without a value": (["plan", "--accountants"], "argument --accountants: expected one argument"),
    "no words to plan for": (
        ["plan", "profile=smoke", *ONLINE, "dataset.words=0"],
        "dataset.words: expected 1 to 64, got 0",
    ),
    "unknown data set to look for": (["data", "cifar"], "cifar"),
}


STRATEGIES = (
    "ada_sig, adam_wosm, auto_s, dc_sgd_e, dc_sgd_p, dp_adam_bc, fixed_line, fixed_quantile, fixed_threshold, no_dp, "
    "online, psac, sla_clip, sla_clip_q"
)
OF_ONLINE = "name, lr, clip_init, clip_lr, lr_lr, gradient_share, update_rule, momentum"
TOLD = {  # by Hydra, in our words
    "strategy=onlin": f"strategy: expected one of {STRATEGIES}, got onlin; did you mean `online`?",
    "strategy=sgd": f"strategy: expected one of {STRATEGIES}, got sgd; choose one of them",
    "dataset=minst": "dataset: expected one of ag_news, fashion_mnist, mnist, got minst; did you mean `mnist`?",
    "protocol=paper_probabel": "protocol: expected one of paper_probable, sound, got paper_probabel; did you mean "
    "`paper_probable`?",
    "protocol=null": "protocol: expected a name, got null; see dp-bench run --help",
    "profile=smok": "profile: expected one of paper, quick, smoke, verify, got smok; did you mean `smoke`?",
    "strategy.momentun=0": f"strategy.momentun: expected a key of strategy ({OF_ONLINE}), got one that nothing reads; "
    "did you mean `strategy.momentum`?",
    "++strategy.momentun=0": f"strategy.momentun: expected a key of strategy ({OF_ONLINE}), got one that nothing "
    "reads; did you mean `strategy.momentum`?",
    "+privacy.foo=1": "privacy.foo: expected a key of privacy (epsilon, delta, accountant, allocator, selection), got "
    "one that nothing reads; leave it out",
    "+grid.also.foo=[1]": "grid.also.foo: expected a key of grid.also (lr, clip, quantile), got one that nothing "
    "reads; leave it out",
    "momentum=0": "momentum: expected a key that dp-bench run --help lists, got one that nothing reads; "
    "did you mean `strategy.momentum`?",
    "grid.k=five": "grid.k: expected a whole number, got five; for example grid.k=5",
    "privacy.epsilon=low": "privacy.epsilon: expected a number, got low; for example privacy.epsilon=3.0",
    "dataset.stand_in=perhaps": "dataset.stand_in: expected true or false, got perhaps; for example "
    "dataset.stand_in=True",
    "seeds=3": "seeds: expected a list, as in [1,2], got 3; for example seeds=[0,1]",
    "grid.axes={lr:[a]}": "grid.axes.lr: expected a number, got ['a']; correct it",
    "threads=null": "threads: expected a value, got null; for example threads=1",
    "grid=coarse": "grid: expected one of paper, got coarse; choose one of them",
    "privacy=3": "privacy: expected a group of keys, got 3; set its keys, as in privacy.epsilon=VALUE",
    "~strategy.momentum": "strategy.momentum: expected a value, got a deletion (~); leave it out for the default",
    "grid.k=5,7": "grid.k: expected one value, got 5,7; choose one, or add -m to run them all",
    "strategy=glob(*)": "strategy: expected one value, got glob(*); choose one, or add -m to run them all",
}


@pytest.mark.parametrize(("word", "told"), TOLD.items(), ids=TOLD)
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_what_hydra_refuses_is_told_in_the_one_shape(word: str, told: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SMOKE, word]) == 2
    assert capfd.readouterr().err == f"dp-bench: {told}\n"


@pytest.mark.parametrize("word", ["hydra/launcher=jobli", "experiment=mnist_k", "hydra.launcher.n_job=2"])
@pytest.mark.parametrize("command", ["run", "plan"])
def test_near_misses_are_named_in_sweeps_too(command: str, word: str, capfd: pytest.CaptureFixture[str]) -> None:
    meant = {"hydra/launcher=jobli": "joblib", "experiment=mnist_k": "mnist_k9"}.get(word, "hydra.launcher.n_jobs")
    assert main([command, *(["-m"] if command == "run" else []), word]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith(f"did you mean `{meant}`?")
    assert "_schema" not in line


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize(("arguments", "named"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.slow(reason="composes configurations through Hydra")
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
@pytest.mark.slow(reason="composes configurations through Hydra")
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
@pytest.mark.slow(reason="composes configurations through Hydra")
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
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_a_grid_can_be_widened_as_the_refusal_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SMOKE, f"runs={tmp_path}", "seeds=[0]", "strategy.lr=0.5", "grid.also.lr=[0.5]"]) == 0
    assert "for 6 candidates" in capfd.readouterr().out


@pytest.mark.usefixtures("without_data")
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_what_is_not_private_is_never_called_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = f"runs={tmp_path}"
    assert main([*SMOKE, root, "seeds=[0]", "privacy.accountant=rdp_wor"]) == 0
    assert "NOT private: rdp_wor: epsilon is not a guarantee" in capfd.readouterr().out
    assert main(["run", "profile=smoke", "dataset=ag_news", "strategy=no_dp", "strategy.lr=0.00316", root]) == 0
    assert "not private" in capfd.readouterr().out


@pytest.mark.slow(reason="composes configurations through Hydra")
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
    for group, names in groups().items():
        assert f"  {group}=" in told
        assert all(name in told for name in names)

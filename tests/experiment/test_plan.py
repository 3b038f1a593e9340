"""From choices to jobs: every configuration of the paper, charged for the whole search, checked before any starts."""

import math
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from running import a_result, composed

import dp_bench.sweep.launch
from dp_bench.cli import main
from dp_bench.data import origins
from dp_bench.experiment.charging import is_charged
from dp_bench.experiment.plan import Job
from dp_bench.experiment.resolve import specs
from dp_bench.files.checksummed import read_checksummed, write_checksummed
from dp_bench.paper import published
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.accounting import rounded_up
from dp_bench.privacy.allocation import Allocation, Budget
from dp_bench.privacy.allocators import Rung
from dp_bench.privacy.calibration import allocate, epsilon_by, seeds_charged, total
from dp_bench.privacy.selection import Trials
from dp_bench.privacy.totals import MEANING
from dp_bench.strategies import STRATEGIES
from dp_bench.sweep.ledger import ledger

pytestmark = pytest.mark.usefixtures("without_data")

SMOKE = ["profile=smoke", "dataset=ag_news"]
ONLINE = [*SMOKE, "strategy=online", "privacy.epsilon=3"]


def planned(*arguments: str) -> list[Job]:
    """What `dp-bench run -m` would carry out."""
    with mock.patch.object(dp_bench.sweep.launch, "sweep") as sweep:
        assert main(["run", "-m", *arguments]) == 0
    return list(sweep.call_args.args[0])


def synthetic_allocation(
    budget: Budget,
    sampling: Sampling,
    candidates: int,
    steps: int,
    rungs: tuple[Rung, ...] = (),
    trials: Trials | None = None,
) -> Allocation:
    """Differs where the true one does, and takes no time: calibrating every grid of the paper takes a minute."""
    nu = 1 + candidates / 1e3 + steps / 1e6 + budget.epsilon / 1e5 + budget.delta
    return Allocation(budget, sampling, candidates, steps, nu, budget.epsilon, budget.epsilon / 2, rungs, trials)


@pytest.fixture
def uncalibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dp_bench.experiment.resolve.allocate", synthetic_allocation)
    monkeypatch.setattr("dp_bench.experiment.charging.total", lambda allocations, shares: 0.0)


def plans_uncalibrated(test: Callable[..., None]) -> Callable[..., None]:
    """Of a test that plans sweeps, whatever their noise."""
    slow = pytest.mark.slow(reason="plans whole sweeps through Hydra")
    return pytest.mark.usefixtures("uncalibrated")(slow(test))


@pytest.fixture(scope="module")
def paper() -> list[Job]:
    with mock.patch.dict(os.environ), mock.patch("dp_bench.experiment.resolve.allocate", synthetic_allocation):
        os.environ.pop("DP_BENCH_DATA", None)
        return planned("experiment=paper", "dataset.stand_in=true")


def cell(job: Job) -> tuple[str, str, int, float]:
    run = job.runs[0]
    return run.dataset.name, run.strategy, run.grid.k, run.privacy.epsilon if run.privacy else math.inf


def candidates(jobs: list[Job]) -> set[int]:
    return {job.runs[0].allocation.candidates for job in jobs}


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_the_paper_is_18435_runs(paper: list[Job]) -> None:
    points = {"online": lambda k: k, "adam_wosm": lambda k: k, "no_dp": lambda k: k}
    points |= {"fixed_threshold": lambda k: k * k, "fixed_quantile": lambda k: 5 * k}
    epsilons = {"mnist": (3, 5, 7, 9), "ag_news": (3, 5, 7, 9), "fashion_mnist": (1, 2, 3, 4)}
    expected = {
        (dataset, strategy, k, epsilon): points[strategy](k)
        for dataset in epsilons
        for strategy in points
        for k in (5, 7, 9)
        for epsilon in (epsilons[dataset] if strategy != "no_dp" else [math.inf])
    }
    assert Counter(map(cell, paper)) == expected
    assert sum(len(job.runs) for job in paper) == 18_435
    assert all([run.seed for run in job.runs] == [0, 1, 2, 3, 4] for job in paper)
    assert len({run.folder for job in paper for run in job.runs}) == 18_435
    for job in paper:
        if job.runs[0].allocation:
            assert job.runs[0].allocation.candidates == expected[cell(job)]


def test_every_grid_has_the_papers_values(paper: list[Job]) -> None:
    values: dict[tuple, dict[str, set[float]]] = {}
    for job in paper:
        run = job.runs[0]
        axes = values.setdefault(cell(job), {name: set() for name in STRATEGIES[run.strategy].swept})
        for name, seen in axes.items():
            seen.add(run.hyperparameters[name])
    swept = {name: set(STRATEGIES[name].swept) for name in {run.strategy for job in paper for run in job.runs}}
    assert swept == {
        "online": {"lr"},
        "fixed_threshold": {"lr", "clip"},
        "fixed_quantile": {"lr", "quantile"},
        "adam_wosm": {"clip"},
        "no_dp": {"lr"},
    }
    for (_, _, k, _), axes in values.items():
        expected = {
            "lr": np.logspace(-2.5, 1.5, k),
            "clip": np.logspace(-2, 2, k),
            "quantile": [0.1, 0.3, 0.5, 0.7, 0.9],
        }
        for name, seen in axes.items():
            assert sorted(seen) == pytest.approx(expected[name], rel=1e-9)


@plans_uncalibrated
def test_only_what_the_paper_names_as_best(paper: list[Job]) -> None:
    """Its 141 points, NoDP's 9; nothing where it names none. Each is one of the whole grid's, at the same charge."""
    best = planned("experiment=paper", "dataset.stand_in=true", "points=published")
    whole = {run.folder: run for job in paper for run in job.runs}
    assert all(whole[run.folder] == run for job in best for run in job.runs)
    named = {(c.dataset, c.strategy, c.k, c.epsilon): c.hyperparameters for c in published.cells() if c.hyperparameters}
    assert len(best) == len(named) == 150
    for job in best:
        point = {name: job.runs[0].hyperparameters[name] for name in STRATEGIES[job.runs[0].strategy].swept}
        assert point == pytest.approx(named[cell(job)], rel=0.01)


@plans_uncalibrated
def test_grids_left_out_because_the_paper_names_no_point_are_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A grid that is not the paper's, and one whose point was not chosen."""
    monkeypatch.setattr(dp_bench.sweep.launch, "_todo", lambda *_: {})
    chosen = [*SMOKE, "privacy.epsilon=3", "points=published", "strategy=online,no_dp"]
    best = published.best_point("ag_news", "online", 5, 3)["lr"]
    other = next(lr for lr in (0.003162, 0.03162, 0.3162) if abs(lr / best - 1) > 0.1)
    for words, names in [
        (["grid.k=5,6"], "2 of the chosen grids|ag_news/online/k6/eps3, ag_news/no_dp/k6/epsinf"),
        (["grid.k=5", f"strategy.lr={best:.4g},{other}", "strategy=online"], ""),
        (["grid.k=5,7", "strategy.lr=0.003162"], "ag_news/online/k5/eps3, ag_news/online/k7/eps3"),
    ]:
        for command in (["plan"], ["run", "-m"]):
            assert main([*command, *chosen, *words]) == 0
            told = capfd.readouterr()
            notes = [line for line in (told.out + told.err).splitlines() if line.startswith("note: points=published")]
            assert len(notes) == bool(names)
            assert all(name in notes[0] for name in names.split("|") if name)


@plans_uncalibrated
@pytest.mark.parametrize(
    ("given", "points", "charged"),
    [
        (["strategy.lr=0.316"], {(10**-0.5, c) for c in (0.01, 0.1, 1, 10, 100)}, 25),
        (["strategy.lr=0.316,3.16", "strategy.clip=1"], {(10**-0.5, 1), (10**0.5, 1)}, 25),
        (["strategy.lr=0.3164", "strategy.clip=0.1001"], {(10**-0.5, 0.1)}, 25),  # three digits agree
        (["grid.axes={lr:[1,2],clip:[0.5,3]}"], {(lr, c) for lr in (1, 2) for c in (0.5, 3)}, 4),
        (["strategy.lr=0.5", "strategy.clip=1", "grid.also.lr=[0.5]"], {(0.5, 1)}, 30),
    ],
)
def test_a_given_value_restricts_what_is_run_but_not_what_is_charged(
    given: list[str], points: set[tuple[float, float]], charged: int
) -> None:
    jobs = planned(*SMOKE, "strategy=fixed_threshold", "privacy.epsilon=3", *given)
    found = {tuple(job.runs[0].hyperparameters[name] for name in ("lr", "clip")) for job in jobs}
    assert np.allclose(sorted(found), sorted(points), rtol=1e-9)
    assert candidates(jobs) == {charged}


@plans_uncalibrated
@pytest.mark.parametrize(
    ("searched", "times"),
    [
        (["strategy.momentum=0,0.9"], 2),
        (["strategy.momentum=0,0.9", "dataset.limit=1000,2000"], 4),
        (["strategy.momentum=0,0.9", "train.epochs=1,2"], 4),
        (["grid.times=3", "strategy.momentum=0,0.9"], 6),
        (["strategy.momentum=0.9,0.9"], 1),
        (["strategy.lr=0.00316,31.6"], 1),
        (["dataset.words=15,25"], 2),
        (["privacy.epsilon=3,9", "privacy.delta=1e-5,1e-6"], 1),
        (["seeds=[0],[1]", "runs=a,b"], 1),
        (["runs=a,b"], 1),
        (["seeds=[0],[1]", "seed=secure"], 1),
        (["seeds=[1],[2],[3]"], 1),
        (["seeds=[1],[2],[3]", "strategy.clip_init=${seeds[0]}"], 3),
        (["seed=named,secure"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_searched_is_charged_however_it_is_written_and_nothing_else(searched: list[str], times: int) -> None:
    found = planned(*ONLINE, "grid.k=2", "dataset.stand_in=true", *searched)
    assert {job.runs[0].grid.times for job in found} == {times}
    assert candidates(found) == {2 * times}


@pytest.mark.parametrize(
    ("key", "charged"),
    [
        *((key, False) for key in ("dataset", "strategy", "grid.k", "privacy.epsilon", "privacy.accountant")),
        *((key, False) for key in ("seeds", "threads", "device", "micro_batch", "checkpoint.keep", "points")),
        *((key, False) for key in ("strategy.lr", "runs", "quiet")),
        *((key, True) for key in ("strategy.clip", "strategy.momentum", "train.batch_size", "model.output_activation")),
        *((key, True) for key in ("seed", "train.sampling", "a key that is added one day")),
        *((key, True) for key in ("profile", "dataset.words", "grid.quantile", "grid.times", "grid.also.lr", "grid")),
    ],
)
def test_a_key_is_charged_unless_it_is_known_to_be_no_search(key: str, charged: bool) -> None:
    assert is_charged(key, swept=("lr",)) == charged


@plans_uncalibrated
def test_a_second_grid_or_data_set_is_not_a_search_on_the_first() -> None:
    jobs = planned("profile=smoke", "dataset=ag_news,mnist", "strategy=online,adam_wosm", "grid.k=2,3")
    assert {job.runs[0].grid.k for job in jobs} == candidates(jobs) == {2, 3}


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_a_search_of_twice_as_many_has_the_noise_for_twice_as_many() -> None:
    runs = [job.runs[0] for job in planned(*ONLINE, "strategy.momentum=0,0.9")]
    assert len(runs) == 10
    assert {run.hyperparameters["momentum"] for run in runs} == {0, 0.9}
    a = runs[0].allocation
    twice, once = (allocate(a.budget, a.sampling, n, a.steps).noise_multiplier for n in (10, 5))
    assert {run.allocation.noise_multiplier for run in runs} == {twice}
    assert twice > 1.05 * once
    assert all("grid.times=2" in run.variant for run in runs), "must not share a folder with the smaller search"


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_unequal_grids_that_overspend_their_common_budget_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("profile=verify", "points=all", "dataset=ag_news", "dataset.stand_in=true", "dataset.emulate_size=60000")
    chosen = (*rows, "strategy=fixed_threshold", "privacy.epsilon=3")
    assert main(["plan", *chosen, "train.epochs=0.01,1000"]) == 2
    assert "one budget of 3 together, as they are one search, got 3.314" in capsys.readouterr().err
    allocations = {job.runs[0].allocation for job in planned(*chosen, "train.batch_size=256,512")}
    assert len(allocations) == 2
    assert total(list(allocations), [0.5, 0.5]) <= 3


@plans_uncalibrated
@pytest.mark.parametrize(
    ("dataset", "chosen", "epsilons"),
    [
        ("ag_news", [], {3, 5, 7, 9}),
        ("mnist", [], {3, 5, 7, 9}),
        ("fashion_mnist", [], {1, 2, 3, 4}),
        ("ag_news", ["privacy.epsilon=2"], {2}),
        ("ag_news", ["++privacy.epsilon=2,6"], {2, 6}),
    ],
)
def test_the_papers_budgets_unless_others_are_chosen(dataset: str, chosen: list[str], epsilons: set[float]) -> None:
    jobs = planned("profile=smoke", f"dataset={dataset}", "strategy=online", "grid.k=2", *chosen)
    assert {job.runs[0].privacy.epsilon for job in jobs} == epsilons
    assert candidates(jobs) == {2}


@plans_uncalibrated
@pytest.mark.parametrize("stand_in", [False, True])
def test_a_plan_downloads_nothing(
    stand_in: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a machine without data, with a network: `run` would fetch 862 MB, a plan says so and goes by what is known."""

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("a plan reached for the network")

    monkeypatch.delenv("DP_BENCH_OFFLINE")
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(subprocess, "run", no_network)
    monkeypatch.setattr(origins, "import_torchvision", no_network)
    monkeypatch.setattr("dp_bench.sweep.step_times.seconds", lambda spec: 1.0)
    chosen = ["dataset=mnist,fashion_mnist,ag_news", "strategy=online", "privacy.epsilon=3", f"runs={tmp_path}/runs"]
    assert main(["plan", *chosen, f"dataset.stand_in={stand_in}"]) == 0
    printed = capfd.readouterr().out
    for name, rows in {"mnist": "60,000", "fashion_mnist": "60,000", "ag_news": "120,000"}.items():
        assert f"note: {name}: not on this machine, fetched by dp-bench run; planned for {rows} training" in printed
    assert "data=" not in printed, "the official data is complete, so no folder says that it is not"
    assert not (tmp_path / "cache/data").exists()
    with pytest.raises(AssertionError, match="reached for the network"):
        main(["run", "-m", *chosen])


@plans_uncalibrated
@pytest.mark.parametrize(
    ("choices", "jobs", "runs"),
    [
        (["strategy=no_dp", "privacy.epsilon=3,5,7,9"], 2, 2),
        (["strategy=no_dp"], 2, 2),
        (["strategy=online,online", "privacy.epsilon=3,3.0,3"], 2, 2),
        (["strategy=online", "privacy.epsilon=3", "strategy.lr=0.00316,0.003162"], 1, 1),
        (["strategy=online", "privacy.epsilon=3", "seeds=[0,1],[0,2]"], 4, 8),
        (["strategy=online", "privacy.epsilon=3", "runs=a,b"], 4, 4),
    ],
)
def test_nothing_is_planned_twice_and_nothing_is_lost(choices: list[str], jobs: int, runs: int) -> None:
    found = planned(*SMOKE, "grid.k=2", "seeds=[0]", *choices)
    assert len(found) == jobs
    assert sum(len(job.runs) for job in found) == runs


BAD = {
    "no such hyperparameter": (["strategy=online,adam_wosm", "strategy.momentum=0,0.9"], "momentum"),
    "not in the grid of one k": (["strategy=online", "grid.k=5,6", "strategy.lr=0.316,31.6"], "grid.also.lr=[0.316]"),
    "not in the grid": (["strategy=online", "strategy.lr=0.316,0.5"], "grid.also.lr=[0.5]"),
    "epsilon below zero": (
        ["strategy=online", "privacy.epsilon=3,-1"],
        "privacy.epsilon: expected a positive number, got -1.0",
    ),
    "epsilon a word": (["strategy=online", "privacy.epsilon=3,low"], "low"),
    "k too small": (["strategy=online", "grid.k=5,1"], "grid.k"),
    "k not whole": (["strategy=online", "grid.k=5,2.5"], "2.5"),
    "unknown data set": (["dataset=ag_news,cifar", "strategy=online"], "cifar"),
    "unknown strategy": (["strategy=online,sgd"], "sgd"),
    "impossible hyperparameter": (["strategy=online", "strategy.gradient_share=1.01,1"], "strategy.gradient_share"),
    "too much noise to count": (["strategy=fixed_quantile", "grid.times=1,9000"], "noise"),
    "two experiments": (["experiment=ag_news_k5,ag_news_k7"], "experiment: expected one, got ag_news_k5, ag_news_k7"),
    "no data": (["strategy=online", "dataset.stand_in=true,false"], "DP_BENCH_DATA"),
    "a seed twice": (["strategy=online", "seeds=[0],[1,1]"], "seeds"),
    "more rows than there are": (["strategy=online", "dataset.limit=2000,10000000"], "10000000"),
    "words of images": (
        ["strategy=online", "dataset=mnist", "dataset.words=7"],
        "dataset.words: expected its default 25 with dataset=mnist, which has no such option, got 7; leave it out",
    ),
    "an autoencoder's option": (
        ["strategy=online", "dataset=mnist,fashion_mnist", "model.autoencoder_padding=1"],
        "model.autoencoder_padding: expected its default 0 with dataset=mnist, which has no such option, got 1",
    ),
    "no words": (["strategy=online", "dataset.words=25,0"], "dataset.words: expected 1 to 64, got 0"),
    "too many words": (["strategy=online", "dataset.words=25,65"], "dataset.words: expected 1 to 64, got 65"),
    "no device": (["strategy=online", "device=cuda"], "device: expected a CUDA device"),
    "no job running": (
        ["strategy=online", "hydra.launcher.n_jobs=0"],
        "hydra.launcher.n_jobs: expected the number of parallel jobs, got 0",
    ),
    "names looked for in a key": (
        ["strategy=online", "strategy.lr=glob(*)"],
        "strategy.lr=glob(*): expected values, got none",
    ),
    "names that no file has": (["strategy=glob(nope*)"], "strategy=glob(nope*): expected values, got none"),
    "axis that is not swept": (["strategy=online,adam_wosm", "grid.also.lr=[0.5]"], "grid.also.lr"),
    "no point in the paper": (
        ["strategy=online", "privacy.epsilon=3", "grid.k=3", "points=published"],
        "dp-bench: points: expected all, ",
    ),
    "values without end": (["strategy=online", "grid.k=range(2,1000000000)"], "at most 10,000"),
    "combinations without end": (
        ["strategy=online", "grid.k=range(2,500)", "privacy.epsilon=range(1,500)"],
        "at most 10,000",
    ),
    **{
        f"one folder: {choice}": (
            ["strategy=online", choice],
            f"{choice.split('=')[0]}: expected one value",
        )
        for choice in ("device=cpu,auto", "threads=1,2", "checkpoint.keep=none,best", "micro_batch=8,16")
    },
}


@plans_uncalibrated
@pytest.mark.parametrize(("choices", "named"), BAD.values(), ids=BAD)
def test_a_bad_combination_anywhere_is_refused_in_one_line_before_anything_runs(
    choices: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dp_bench.sweep.launch, "_carry_out", lambda *_: pytest.fail("jobs were run"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["run", "-m", *SMOKE, *choices]) == 2
    told = capfd.readouterr().err.strip()
    assert named in told
    assert len(told.splitlines()) == 1, told
    assert list(tmp_path.iterdir()) == []


@plans_uncalibrated
@pytest.mark.parametrize(
    "choices",
    [
        ["strategy=online,fixed_threshold,adam_wosm,no_dp", "privacy.epsilon=3", "seeds=[3,1]"],
        ["strategy=fixed_quantile", "privacy.epsilon=0.5,9", "grid.quantile=[0.5,0.7]", "strategy.lr=0.00316"],
        ["strategy=online,fixed_quantile", "privacy.epsilon=3", "strategy.momentum=0,0.9", "grid.quantile=[0.5]"],
        ["strategy=adam_wosm", "privacy.epsilon=3", "privacy.delta=1e-06", "+grid.also.clip=[0.02]", "threads=2"],
        ["experiment=ag_news_k5", "strategy=no_dp,online", "points=published", "privacy.epsilon=3", "grid.k=5"],
        ["strategy=no_dp", "runs='it\\'s, a = b: [c] {d}'", "strategy.optimiser=sgd,adam", "micro_batch=7"],
    ],
    ids=" ".join,
)
def test_a_job_alone_computes_the_specs_that_were_planned(
    choices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is told nothing but overrides: what was checked, budgeted and shown must be what it runs."""
    monkeypatch.chdir(tmp_path)
    jobs = planned(*SMOKE, "grid.k=2", *choices)
    assert len(jobs) > 1
    monkeypatch.chdir("/")  # a worker may be started anywhere
    for job in jobs:
        config = composed(*job.overrides)
        own = specs(config)
        assert [run.digest() for run in own] == [run.digest() for run in job.runs]
        assert [run.folder for run in own] == [run.folder for run in job.runs]
        assert own == list(job.runs)
        assert Path(config.runs) == job.root
        assert job.root.parent == tmp_path
        assert config.quiet


@plans_uncalibrated
def test_a_cluster_may_have_the_device_that_this_machine_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="the extra ray is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    jobs = planned(*ONLINE, "grid.k=2", "device=cuda", "hydra/launcher=ray_cluster")
    assert {job.runs[0].machine.device for job in jobs} == {"cuda"}


@plans_uncalibrated
def test_a_folder_that_hydra_takes_for_a_reference_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "${oc}").mkdir()
    monkeypatch.chdir(tmp_path / "${oc}")
    assert main(["run", "-m", *ONLINE, "grid.k=2"]) == 2
    (told,) = capfd.readouterr().err.splitlines()
    assert told.startswith("dp-bench: runs: expected a folder without ${ in its name")
    assert list(Path.cwd().iterdir()) == []


def row_of(text: str, grid: str) -> list[str]:
    """The cells of a grid's row; columns are two spaces apart."""
    line = next(line for line in text.splitlines() if f"/{grid} " in line)
    return [entry.strip() for entry in line.split("  ") if entry.strip()]


@pytest.mark.slow(reason="asks every accountant, from a cold cache")
def test_the_ledger_says_what_the_allocation_says(capfd: pytest.CaptureFixture[str]) -> None:
    chosen = ["profile=smoke", "dataset=ag_news", "strategy=online,no_dp", "grid.k=2", "privacy.epsilon=3"]
    assert main(["plan", "--accountants", "pld,prv", *chosen]) == 0
    text = capfd.readouterr().out
    a = planned(*chosen)[0].runs[0].allocation
    row = row_of(text, "online/k2/eps3")[1:]
    opinions = [epsilon_by(a, accountant) for accountant in ("pld", "prv")]
    assert row == [
        "2",
        "2",
        "4",
        "6",
        f"{a.noise_multiplier:.4f}",
        f"gradient {1.01 * a.noise_multiplier:.4g}, direction {a.noise_multiplier / math.sqrt(1 - 1.01**-2):.4g}",
        rounded_up(a.epsilon_run),
        rounded_up(a.epsilon_grid),
        rounded_up(seeds_charged(a, 2)),
        *(f"{rounded_up(spent.run)}/{rounded_up(spent.grid)}" for spent in opinions),
    ]
    assert 2.99 < a.epsilon_grid <= 3 < seeds_charged(a, 2)
    assert all(0 < spent.run < spent.grid < 3 for spent in opinions), "RDP is the loosest of the three"
    assert row_of(text, "no_dp/k2/epsinf")[1:] == ["-", "2", "4", "6", "-", "not private", *["-"] * 5]
    assert "Seeds are not charged" in text
    assert "4 configurations, 8 runs, 0 of them done" in text


@plans_uncalibrated
def test_the_ledger_warns_and_never_calls_private_what_is_not() -> None:
    jobs = planned(*ONLINE, "grid.k=2", "privacy.delta=1e-3", "privacy.accountant=rdp_wor")
    text = ledger(jobs, [])
    assert "warning: delta = 0.001 is not below 1/N" in text
    assert "is NOT private: rdp_wor: epsilon is not a guarantee" in text
    assert "warning" not in ledger(planned(*ONLINE, "grid.k=2"), [])


@plans_uncalibrated
@pytest.mark.parametrize(
    ("words", "shared"),
    [
        (["strategy.momentum=0,0.9"], True),
        (["privacy.epsilon=3,9"], False),
        (["grid.times=2"], False),
        (["grid.times=2", "privacy.delta=1e-5,1e-6"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_rows_that_share_a_budget_are_said_to(words: list[str], shared: bool) -> None:
    text = ledger(planned(*ONLINE, "grid.k=2", *words), [])
    assert text.count("Other keys are searched as well (grid.times=2): rows of one data set") == shared


@plans_uncalibrated
def test_the_ledger_says_what_batches_its_epsilons_are_for() -> None:
    poisson, fixed = "Batches are Poisson samples", "rdp_wor: batches are of fixed size"
    for accountants, expected in {
        "rdp,pld": (True, False),
        "rdp_wor": (False, True),
        "rdp,rdp_wor": (True, True),
    }.items():
        text = ledger(planned(*ONLINE, "grid.k=2", f"privacy.accountant={accountants}"), [])
        assert (poisson in text, fixed in text) == expected


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_the_ledger_counts_what_is_done(tmp_path: Path) -> None:
    jobs = planned(*ONLINE, "grid.k=2", f"runs={tmp_path}")
    folder = jobs[1].folders[0]
    folder.finish(a_result(folder.spec, "finished", 0.5))
    text = ledger(jobs, [])
    assert "2 configurations, 4 runs, 1 of them done" in text


@pytest.mark.slow(reason="plans in new processes")
def test_planning_imports_no_torch_once_the_cost_of_a_step_is_known(tmp_path: Path) -> None:
    arguments = ["plan", *ONLINE, "grid.k=2", f"runs={tmp_path}"]
    assert main(arguments) == 0  # measures
    code = f"import sys; from dp_bench.cli import main; main({arguments}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "2 configurations, 4 runs" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
    assert list(tmp_path.iterdir()) == [], "planning must write nothing"


@plans_uncalibrated
def test_a_second_file_for_a_strategy_is_a_search(tmp_path: Path) -> None:
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "mine.yaml").write_text("defaults: [online, _self_]\nmomentum: 0.0\n")
    found = planned("--config-dir", str(tmp_path), *SMOKE, "strategy=online,mine", "grid.k=2", "privacy.epsilon=3")
    assert {job.runs[0].allocation.candidates for job in found} == {4}


@plans_uncalibrated
def test_a_value_may_refer_to_epsilon() -> None:
    choices = ["strategy=online", "grid.k=2", "privacy.epsilon=3,9", "strategy.clip_init=${privacy.epsilon}"]
    assert {job.runs[0].hyperparameters["clip_init"] for job in planned(*SMOKE, *choices)} == {3.0, 9.0}


@plans_uncalibrated
@pytest.mark.parametrize(
    "runs",
    [
        ["runs=a,b"],
        ["runs=a,b", "strategy=online,adam_wosm"],
        ["runs=a_${privacy.delta},b_${seed}"],
        ["seeds=[0,1],[1,2]", "runs=in_${seeds[0]}"],
        ["seed=named,secure", "runs=a,b"],
    ],
    ids=" ".join,
)
def test_no_secure_run_is_released_twice_for_one_charge(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dp_bench.sweep.launch, "_carry_out", lambda *_: pytest.fail("jobs were run"))
    secure = [] if any(word.startswith("seed=") for word in runs) else ["seed=secure"]
    for command in (["run", "-m"], ["plan"]):
        assert main([*command, *ONLINE, "grid.k=2", *secure, *runs]) == 2
        (told,) = capfd.readouterr().err.splitlines()
        assert told.startswith("dp-bench: runs: expected one folder with seed=secure, got ")
    assert list(tmp_path.iterdir()) == []


@plans_uncalibrated
@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["seed=secure", "seeds=[0],[1]", "runs=in_${seeds[0]}"], 4),  # no run of them in two folders
        (["seed=secure", "runs=a,a"], 2),
        (["seed=named", "runs=a,b"], 4),  # the same noise in both
        (["seed=secure", "strategy=no_dp", "runs=a,b"], 4),  # nothing to charge
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_released_once_may_be_kept_anywhere(words: list[str], jobs: int) -> None:
    assert len(planned(*ONLINE, "grid.k=2", *words)) == jobs


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_the_ledger_adds_up_the_grids_of_a_data_set() -> None:
    chosen = [*SMOKE, "strategy=online,adam_wosm,no_dp", "grid.k=2", "privacy.epsilon=3", "seeds=[0]"]
    jobs = planned(*chosen)
    spent = total([job.runs[0].allocation for job in jobs if job.runs[0].point in ("lr=0.003162", "clip=0.01")][:2])
    (line,) = (line for line in ledger(jobs, []).splitlines() if line.startswith("ag_news: "))
    assert f"all 2 private grids listed spend epsilon {rounded_up(spent)} together at delta 1e-05" in line
    assert spent > 3.4
    assert "Not counted: ag_news/no_dp/k2/epsinf" in line
    assert "no_dp/k2/epsinf (not private)." in line
    assert MEANING in ledger(jobs, [])
    assert "together" not in ledger(planned(*ONLINE, "grid.k=2"), []), "one grid is its own total"


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_rows_that_share_a_budget_add_up_to_it() -> None:
    jobs = planned(*ONLINE, "grid.k=2", "strategy.momentum=0,0.9", "seeds=[0]")
    (line,) = (line for line in ledger(jobs, []).splitlines() if line.startswith("ag_news: "))
    assert f"all 2 private grids listed spend epsilon {rounded_up(jobs[0].runs[0].allocation.epsilon_grid)} " in line


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_an_epsilon_in_the_ledger_is_never_rounded_down() -> None:
    text = ledger(jobs := planned(*ONLINE, "grid.k=2"), [])
    allocation = jobs[0].runs[0].allocation
    run, grid, seeds = (float(cell) for cell in row_of(text, "online/k2/eps3")[7:10])
    assert 0 <= run - allocation.epsilon_run < 1e-3
    assert 0 <= grid - allocation.epsilon_grid < 1e-3
    assert 0 <= seeds - seeds_charged(allocation, 2) < 1e-3


def test_no_other_sweeper_is_let_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "-m", *ONLINE, "hydra/sweeper=basic", "strategy.lr=0.316"]) == 2
    assert "no other divides a budget" in capsys.readouterr().err


@pytest.mark.slow(reason="plans whole sweeps through Hydra")
def test_a_grid_begun_with_another_budget_is_refused_in_pieces_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = ["run", "-m", *ONLINE, "grid.k=2", "seeds=[0]", "hydra/launcher=basic", f"runs={tmp_path}"]
    assert main([*sweep, "strategy.lr=0.00316"]) == 0
    (spec,) = tmp_path.rglob("spec.json")
    content = read_checksummed(spec)
    content["protocol"]["allocation"]["noise_multiplier"] = 0.5
    write_checksummed(spec, content)
    for command in ([*sweep, "strategy.lr=31.62"], ["plan", *sweep[2:], "strategy.lr=31.62"]):
        assert main(command) == 2
        assert "this grid was begun with another budget" in capsys.readouterr().err
    assert len(list(tmp_path.rglob("spec.json"))) == 1


@plans_uncalibrated
def test_every_strategy_by_a_pattern_means_the_strategies_and_nothing_else() -> None:
    jobs = planned(*SMOKE, "strategy=glob(*)", "privacy.epsilon=3", "grid.k=2")
    assert {job.runs[0].strategy for job in jobs} == set(STRATEGIES)


@plans_uncalibrated
def test_the_values_of_an_axis_can_be_chosen_on_the_command_line() -> None:
    jobs = planned(*ONLINE, "grid.axes={lr:[0.5,0.7]}")
    assert [job.runs[0].hyperparameters["lr"] for job in jobs] == [0.5, 0.7]

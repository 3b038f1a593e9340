"""Every shipped configuration composes, and what is misspelt or of a wrong type is refused."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from running import POINT, composed

from dp_bench.data import Source
from dp_bench.experiment import config
from dp_bench.experiment.conf import configuration_folder, groups
from dp_bench.experiment.config import Config
from dp_bench.experiment.folder_names import variant
from dp_bench.paper import published
from dp_bench.paper.readings import PROBABLE, SOUND, Reading
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS

CONF = configuration_folder()
EXTRAS = {  # launcher: extra, its package, its class
    "ray_local": ("ray", "hydra_ray_launcher", "RayLauncher"),
    "ray_cluster": ("ray", "hydra_ray_launcher", "RayLauncher"),
    "slurm": ("slurm", "hydra_submitit_launcher", "SlurmLauncher"),
    "slurm_local": ("slurm", "hydra_submitit_launcher", "LocalLauncher"),
}


def shipped(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def with_hydra(*overrides: str) -> DictConfig:
    config.register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=True)


def test_no_shipped_file_is_untested() -> None:
    tested = {f"{group}/{name}" for group, names in groups().items() for name in names}
    tested |= {f"hydra/launcher/{name}" for name in EXTRAS} | {"config"}
    assert {str(path.relative_to(CONF).with_suffix("")) for path in CONF.rglob("*.yaml")} == tested
    assert set(shipped("dataset")) == set(TASKS.built_in)
    assert set(shipped("strategy")) == set(STRATEGIES.built_in)
    assert {"smoke", "verify", "paper"} <= set(shipped("profile"))
    papers = {f"{dataset}_k{k}" for dataset in TASKS.built_in for k in (5, 7, 9)} | {"paper"}
    assert papers | {f"beyond_{dataset}" for dataset in TASKS.built_in} <= set(shipped("experiment"))


@pytest.mark.parametrize(
    ("dataset", "strategy", "profile"),
    list(itertools.product(shipped("dataset"), shipped("strategy"), shipped("profile"))),
)
@pytest.mark.slow(reason="composes every configuration")
def test_every_choice_composes(dataset: str, strategy: str, profile: str) -> None:
    chosen = composed(f"dataset={dataset}", f"strategy={strategy}", f"profile={profile}", *POINT[strategy])
    assert (chosen.dataset.name, chosen.strategy.name, chosen.profile) == (dataset, strategy, profile)


@pytest.mark.parametrize(("protocol", "reading"), [("sound", SOUND), ("paper_probable", PROBABLE)])
def test_a_protocol_is_the_reading_that_reports_look_for(protocol: str, reading: Reading) -> None:
    source = Source("complete", "nowhere", (), {}, 60_000, 10_000)
    chosen = composed(f"protocol={protocol}", "strategy.lr=0.316")
    assert set(variant(chosen, source).split(",")) == (reading or {"default"})


def test_the_papers_profile_changes_nothing_but_its_name() -> None:
    """What the schema's defaults are is what the paper did: they are said once."""
    plain = asdict(composed("strategy.lr=0.316"))
    expected = asdict(Config())
    for group in ("dataset", "strategy"):
        del plain[group], expected[group]
    assert plain == expected


def written(path: str) -> dict[str, Any]:
    """What a shipped file itself says."""
    content = yaml.safe_load((CONF / path).read_text())
    return {key: value for key, value in content.items() if key not in ("defaults", "hydra")}


def comments(path: str) -> dict[str, str]:
    """The comment on each top-level key of a shipped file."""
    lines = [re.fullmatch(r"(\w+): .*?  # (.+)", line) for line in (CONF / path).read_text().splitlines()]
    return {line[1]: line[2] for line in lines if line}


def test_the_main_file_says_every_key_and_its_default() -> None:
    said = written("config.yaml")
    expected = asdict(Config())
    assert said.keys() | {"strategy", "grid"} == expected.keys(), "strategy/ and grid/ say these"
    del expected["dataset"]["name"]
    assert said == {key: expected[key] for key in said}


@pytest.mark.parametrize("name", shipped("grid"))
def test_every_grid_composes_and_says_every_key(name: str) -> None:
    chosen = composed(f"grid={name}", "strategy.lr=0.316").grid
    assert asdict(chosen) == written(f"grid/{name}.yaml")
    if name == "paper":
        assert chosen == Config().grid


@pytest.mark.parametrize("name", shipped("strategy"))
def test_every_strategys_file_says_its_hyperparameters_and_what_it_sweeps(name: str) -> None:
    path, strategy = f"strategy/{name}.yaml", STRATEGIES[name]
    declared = {key: value for key, value in asdict(config.strategy_schema(name)()).items() if key != "name"}
    assert list(written(path).items()) == list(declared.items()), "as in the strategy's class, in its order"
    assert comments(path).keys() == declared.keys()
    for key, comment in comments(path).items():
        symbol = strategy.symbol(key)
        assert symbol == key or re.match(rf"{symbol}(_0)?: ", comment), f"{key} is {symbol} in print"
    for key in strategy.swept:
        assert comments(path)[key].endswith(f"; swept over grid.{key}")
    text = (CONF / path).read_text()
    assert f"\n# Swept: {', '.join(strategy.swept)}.\n" in text
    assert text.startswith(f"# {strategy.label}")


@pytest.mark.parametrize("name", shipped("dataset"))
def test_every_data_sets_file_says_its_protocol(name: str) -> None:
    chosen, task = composed(f"dataset={name}", "strategy.lr=0.316"), TASKS[name]
    train, test = task.official_rows()
    steps = round(chosen.train.epochs * train / chosen.train.batch_size)
    parameters = sum(p.numel() for p in task.build(config.task_options(chosen.dataset, chosen.model)).parameters())
    text = (CONF / "dataset" / f"{name}.yaml").read_text()
    assert text.startswith(f"# {task.title}: ")
    for line in (
        f"#   model:    {task.model_title}, {parameters:,} parameters",
        f"#   rows:     {train:,} training, {test:,} test",
        f"#   batches:  {chosen.train.batch_size} rows on average (train.batch_size)",
        f"#   epochs:   {chosen.train.epochs:g}, which is {steps:,} steps (train.epochs)",
        f"#   budgets:  epsilon {', '.join(f'{e:g}' for e in task.epsilons)} per grid, delta {chosen.privacy.delta:g} "
        "(privacy.epsilon, privacy.delta)",
    ):
        assert f"\n{line}\n" in text
    said = written(f"dataset/{name}.yaml")
    assert said == {key: asdict(chosen.dataset)[key] for key in said}


@pytest.mark.parametrize("experiment", shipped("experiment"))
def test_every_experiment_composes(experiment: str) -> None:
    params = with_hydra(f"experiment={experiment}").hydra.sweeper.params
    if experiment == "paper":
        assert set(params["dataset"].split(",")) == set(TASKS.built_in)
        assert params["grid.k"] == "5,7,9"
    elif "_k" in experiment:
        assert f"{params['dataset']}_k{params['grid.k']}" == experiment
    strategies = params["strategy"].split(",")
    if experiment.startswith("beyond_"):
        assert (params["dataset"], params["grid.k"]) == (experiment.removeprefix("beyond_"), 5)
        assert sorted(strategies) == sorted(name for name, strategy in STRATEGIES.items() if strategy.private)
    else:
        assert set(strategies) == {cell.strategy for cell in published.cells()}


@pytest.mark.slow(reason="composes every configuration")
def test_jobs_run_in_as_many_processes_as_there_are_cores_unless_told_otherwise() -> None:
    launcher = with_hydra().hydra.launcher
    assert launcher._target_.endswith("JoblibLauncher")
    assert launcher.n_jobs == -1
    assert composed("strategy.lr=0.316").threads == 1


@pytest.mark.parametrize("launcher", EXTRAS)
def test_every_launcher_composes(launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra, package, target = EXTRAS[launcher]
    if importlib.util.find_spec(f"hydra_plugins.{package}") is None:
        pytest.skip(f"the extra {extra} is not installed")
    monkeypatch.setenv("DP_BENCH_DATA", "data")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    composition = with_hydra(f"hydra/launcher={launcher}", "threads=3", "runs=results")
    chosen = OmegaConf.to_container(composition.hydra.launcher, resolve=True)
    assert chosen["_target_"].rpartition(".")[2] == target
    if extra == "slurm":
        assert chosen["submitit_folder"] == "results/.submitit/%j"
        assert chosen.get("cpus_per_task") == (3 if launcher == "slurm" else None)
    else:
        assert chosen["ray"]["remote"]["num_cpus"] == 3
        given = {name: os.environ[name] for name in ("DP_BENCH_CACHE", "DP_BENCH_OFFLINE")}
        given["DP_BENCH_DATA"] = str(Path.cwd() / "data")
        assert chosen["ray"]["init"]["runtime_env"]["env_vars"] == given, "what is set here, folders absolute, no more"


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("profil=smoke", "profil"),
        ("dataset.nme=mnist", "nme"),
        ("train.batch=3", "batch"),
        ("strategy.learning_rate=3", "learning_rate"),
        ("strategy.clip=3", "clip"),  # another strategy's
        ("grid.K=5", "K"),
        ("privacy.eps=3", "eps"),
        ("hydra.launcher.n_job=3", "n_job"),
        ("hydra.sweeper.plan=true", "plan"),
        ("train.batch_size=many", "many"),
        ("train.batch_size=1.5", "1.5"),
        ("privacy.epsilon=low", "low"),
        ("grid.k=2.5", "2.5"),
        ("grid.lr=wide", "wide"),
        ("seeds=all", "all"),
        ("seeds=[a]", "'a'"),
        ("dataset.stand_in=perhaps", "perhaps"),
        ("strategy.momentum=high", "high"),
        ("threads=null", "threads"),
        ("hydra.launcher.n_jobs=many", "many"),
        ("dataset=cifar", "cifar"),
        ("strategy=sgd", "sgd"),
        ("profile=fast", "fast"),
        ("experiment=mnist_k6", "mnist_k6"),
        ("hydra/launcher=cloud", "cloud"),
    ],
)
@pytest.mark.slow(reason="composes every configuration")
def test_what_is_misspelt_or_of_a_wrong_type_is_refused(override: str, named: str) -> None:
    with pytest.raises(HydraException) as refusal:
        with_hydra(override)
    assert named in f"{refusal.value} {refusal.value.__cause__}"


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine that has all that we need, but neither Ray nor submitit."""
    here, there = Path(sysconfig.get_path("purelib")), tmp_path_factory.mktemp("packages")
    for package in here.iterdir():
        if package.name not in ("ray", "submitit", "hydra_plugins") and package.suffix != ".pth":
            (there / package.name).symlink_to(package)
    (there / "hydra_plugins").mkdir()
    (there / "hydra_plugins" / "hydra_joblib_launcher").symlink_to(here / "hydra_plugins" / "hydra_joblib_launcher")
    return {**os.environ, "PYTHONPATH": f"{there}{os.pathsep}{CONF.parent}", "DP_BENCH_DATA": ""}


def without(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from dp_bench.cli import main; sys.exit(main())"
    small = ["profile=smoke", "dataset=ag_news", "strategy=no_dp", "grid.k=2"]
    return subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments, *small],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("launcher", EXTRAS)
@pytest.mark.slow(reason="composes every configuration")
def test_a_launcher_that_is_not_installed_says_how_to_get_it(launcher: str, without_extras: dict[str, str]) -> None:
    done = without(without_extras, "run", "-m", f"hydra/launcher={launcher}")
    extra = EXTRAS[launcher][0]
    assert done.stderr == (
        f"dp-bench: hydra/launcher: expected one that is installed, got {launcher}; "
        f"get it with pip install 'dp_bench[{extra}]'\n"
    )
    assert done.returncode == 2


@pytest.mark.slow(reason="imports Hydra in a new process")
def test_a_machine_without_the_extras_is_not_disturbed(without_extras: dict[str, str]) -> None:
    done = without(without_extras, "plan")
    assert done.stderr == ""
    assert "2 configurations, 4 runs" in done.stdout

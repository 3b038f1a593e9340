"""Every shipped configuration composes, and what is misspelt or of a wrong type is refused."""

import importlib.util
import itertools
import os
import subprocess
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from running import POINT, composed

from dp_bench import config
from dp_bench.cli import configuration_folder
from dp_bench.config import Config
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
    tested = {
        f"{group}/{name}" for group in ("dataset", "strategy", "profile", "experiment") for name in shipped(group)
    }
    tested |= {f"hydra/launcher/{name}" for name in EXTRAS} | {"config"}
    assert {str(path.relative_to(CONF).with_suffix("")) for path in CONF.rglob("*.yaml")} == tested
    assert set(shipped("dataset")) == set(TASKS)
    assert set(shipped("strategy")) == set(STRATEGIES)
    assert {"smoke", "verify", "paper"} <= set(shipped("profile"))
    papers = {f"{dataset}_k{k}" for dataset in TASKS for k in (5, 7, 9)} | {"paper"}
    assert papers <= set(shipped("experiment"))


@pytest.mark.parametrize(
    ("dataset", "strategy", "profile"),
    list(itertools.product(shipped("dataset"), shipped("strategy"), shipped("profile"))),
)
def test_every_choice_composes(dataset: str, strategy: str, profile: str) -> None:
    chosen = composed(f"dataset={dataset}", f"strategy={strategy}", f"profile={profile}", *POINT[strategy])
    assert (chosen.dataset.name, chosen.strategy.name, chosen.profile) == (dataset, strategy, profile)


def test_the_papers_profile_changes_nothing_but_its_name() -> None:
    """What the schema's defaults are is what the paper did: they are said once."""
    plain = asdict(composed("strategy.lr=0.316"))
    expected = asdict(Config())
    for group in ("dataset", "strategy"):
        del plain[group], expected[group]
    assert plain == expected


@pytest.mark.parametrize("experiment", shipped("experiment"))
def test_every_experiment_composes(experiment: str) -> None:
    params = with_hydra(f"experiment={experiment}").hydra.sweeper.params
    if experiment == "paper":
        assert set(params["dataset"].split(",")) == set(TASKS)
        assert params["grid.k"] == "5,7,9"
    elif "_k" in experiment:
        assert f"{params['dataset']}_k{params['grid.k']}" == experiment
    assert set(params["strategy"].split(",")) == set(STRATEGIES)


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
def test_a_launcher_that_is_not_installed_says_how_to_get_it(launcher: str, without_extras: dict[str, str]) -> None:
    done = without(without_extras, "run", "-m", f"hydra/launcher={launcher}")
    extra = EXTRAS[launcher][0]
    assert done.stderr == (
        f"dp-bench: hydra/launcher: found {launcher}, whose launcher is not installed; "
        f"get it with pip install 'dp_bench[{extra}]'\n"
    )
    assert done.returncode == 2


def test_a_machine_without_the_extras_is_not_disturbed(without_extras: dict[str, str]) -> None:
    done = without(without_extras, "plan")
    assert done.stderr == ""
    assert "2 configurations, 4 runs" in done.stdout

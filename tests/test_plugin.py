"""Other people's strategies and tasks, by entry point or import path: planned, swept, killed, resumed, reported."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from plugins import install, install_project
from running import contents

from dp_bench.testing.results import Audit

PROJECT = Path(__file__).parents[1]
CODE = "import sys; from dp_bench.cli import main; sys.exit(main())"
SMALL = ["profile=smoke", "dataset=ag_news", "grid.k=2", "privacy.epsilon=3", "seeds=[0]", "dataset.stand_in=true"]

# In the style of an author who needs more than the benchmark knows: an axis and a trajectory of its own.
WARMING = """
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from dp_bench import Query, Strategy
from dp_bench.strategies.ranges import Axis, Positive, Range


class WarmingState(NamedTuple):
    step: int


@dataclass(frozen=True, kw_only=True)
class WarmingUp(Strategy[WarmingState]):
    '''A step size that grows to `lr` over `ramp` steps.'''

    lr: Positive = 0.5
    ramp: Annotated[float, Range("1 or more", least=1), Axis(values=(2.0, 8.0))] = 8.0
    clip: Positive = 0.1

    swept = ("ramp",)
    symbols = {"ramp": "τ", "heat": "h"}

    def multipliers(self):
        return {"gradient": self.noise_multiplier}

    def init(self, params):
        return WarmingState(0)

    def queries(self, state):
        clip = self.clip
        return (Query("gradient", "vector", lambda n: (clip / n).clamp(max=1), clip, self.noise_multiplier),)

    def heat(self, state):
        return min(1.0, (state.step + 1) / self.ramp)

    def update(self, state, params, released):
        return params - self.lr * self.heat(state) * released["gradient"], WarmingState(state.step + 1)

    def trajectory(self, state):
        return {"clip": self.clip, "heat": self.heat(state)}
"""


# A task of one's own on the files of another.
ONES = """
from dp_bench_plugin.digits import Digits


class Ones(Digits):
    name = "ones"
    title = "Is it a one?"
    classes = 2

    def arrays(self, files, rows, options):
        made = super().arrays(files, rows, options)
        return made._replace(train_y=(made.train_y == 1).astype("int64"), test_y=(made.test_y == 1).astype("int64"))
"""


# Judged by a log-likelihood, with an option of its data besides the model's; and options that cannot be configured.
LIKELY = """
import math

from dp_bench_plugin.digits import Digits


class Likely(Digits):
    name = "likely"
    title = "Likely"
    data_options = {"darker": False}
    metric = "log_likelihood"
    metric_range = (-math.inf, 0)
    scale = 1
    metric_column = metric_axis = metric_words = "log-likelihood"

    def arrays(self, files, rows, options):
        made = super().arrays(files, rows, options)
        return made._replace(train_x=made.train_x / 2, test_x=made.test_x / 2) if options["darker"] else made

    def scores(self, outputs, targets):
        return -self.losses(outputs, targets)


class Taken(Digits):
    name = "taken"
    data_options = {"limit": 3}


class Nothing(Digits):
    name = "nothing"
    data_options = {"shift": None}


class Other(Digits):
    name = "other"
    data_options = {"words": "many"}


class Both(Digits):
    name = "both"
    data_options = {"hidden": 3}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example plugin installed, a module next to it, and an entry point that cannot be loaded."""
    target = tmp_path_factory.mktemp("site")
    install_project(PROJECT / "examples" / "plugin", target)
    (target / "warming.py").write_text(WARMING)
    (target / "ones.py").write_text(ONES)
    (target / "likely.py").write_text(LIKELY)
    install(target, "broken", {"dp_bench.strategies": {"broken": "no_such_package:Broken", "online": "x:Y"}})
    return target


def dp_bench(site: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=check, env=environment(site)
    )


def environment(site: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(site), str(PROJECT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "DP_BENCH_DATA": "", "OMP_NUM_THREADS": "1"}


def runs_of(root: Path, strategy: str) -> list[Path]:
    return sorted(root.glob(f"smoke/*/ag_news/{strategy}/k2/eps3/*/seed0"))


@pytest.mark.slow(reason="starts a dozen processes that train small models")
def test_a_plugin_from_plan_to_report(site: Path, tmp_path: Path) -> None:
    chosen = [*SMALL, "strategy=online,nsgd", f"runs={tmp_path / 'runs'}"]
    plan = dp_bench(site, "plan", *chosen)
    assert "ag_news/nsgd/k2/eps3" in plan.stdout
    assert "4 configurations, 4 runs" in plan.stdout
    (warning,) = [line for line in plan.stderr.splitlines() if line.startswith("warning")]
    assert "online of broken: expected a name of its own, got that of a built-in" in warning
    dp_bench(site, "run", "-m", *chosen, "hydra.launcher.n_jobs=2")
    first, second = runs_of(tmp_path / "runs", "nsgd")
    assert (first / "metrics.csv").read_text().startswith("step,accuracy,clip,lr,epsilon\n")
    protocol = json.loads((first / "spec.json").read_text())["protocol"]
    assert protocol["strategy_path"] == "dp_bench_plugin.nsgd:NSGD"
    assert protocol["hyperparameters"] == {"lr": 0.00316227766017, "clip": 1.0, "r": 0.01, "momentum": 0.9}
    assert protocol["allocation"]["candidates"] == 2
    (built_in, _) = runs_of(tmp_path / "runs", "online")
    assert "strategy_path" not in json.loads((built_in / "spec.json").read_text())["protocol"]
    assert second.name == "seed0"

    dp_bench(site, "report", "--runs", str(tmp_path / "runs"), "--profile", "smoke", "--out", str(tmp_path / "report"))
    page = (tmp_path / "report/smoke/index.html").read_text()
    (table,) = (tmp_path / "report").rglob("best_ag_news_k2.csv")
    assert "NSGD" in table.read_text()
    assert "NSGD" in page
    assert "strategy=nsgd" in page, "how to run it again"


@pytest.mark.slow(reason="trains, is killed, and trains again")
def test_an_import_path_is_swept_killed_resumed_and_reported(site: Path, tmp_path: Path) -> None:
    longer = [*SMALL, "train.epochs=8", "strategy=warming:WarmingUp", "hydra/launcher=basic"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    dp_bench(site, "run", "-m", *longer, f"runs={whole}")
    _kill_when_it_has_begun([*longer, f"runs={cut}"], site, cut)
    dp_bench(site, "run", "-m", *longer, f"runs={cut}")
    assert contents(cut) == contents(whole)
    first, second = runs_of(whole, "warming_up")
    assert (first.parent.name, second.parent.name) == ("ramp=2", "ramp=8")
    rows = pd.read_csv(second / "metrics.csv")
    assert list(rows.columns) == ["step", "accuracy", "clip", "lr", "epsilon", "heat"]
    assert list(rows["heat"][:3]) == [0.125, 0.375, 0.625]
    assert rows["lr"].isna().all(), "it has none to show"

    dp_bench(site, "report", "--runs", str(whole), "--profile", "smoke", "--out", str(tmp_path / "report"))
    (table,) = (tmp_path / "report").rglob("best_ag_news_k2.csv")
    assert "WarmingUp" in table.read_text()
    assert "WarmingUp tau" in table.read_text()
    assert r"$\tau$" in table.with_suffix(".tex").read_text()
    assert list((tmp_path / "report").rglob("trajectories_ag_news_k2.png"))
    assert "strategy=warming:WarmingUp" in (tmp_path / "report/smoke/index.html").read_text()
    runs = pd.read_csv(tmp_path / "report/smoke/data/runs.csv")
    assert list(runs["strategy.ramp"]) == [2.0, 8.0]

    without = tmp_path / "elsewhere"
    without.mkdir()
    told = dp_bench(without, "report", "--runs", str(whole), "--profile", "smoke", "--out", str(without), check=False)
    assert told.returncode == 2
    assert "warming:WarmingUp: ModuleNotFoundError" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def _kill_when_it_has_begun(words: list[str], site: Path, root: Path) -> None:
    command = [sys.executable, "-c", CODE, "run", "-m", *words]
    sweep = subprocess.Popen(command, env=environment(site), start_new_session=True, stderr=subprocess.DEVNULL)
    while not list(root.rglob("checkpoint.pt")) and sweep.poll() is None:
        time.sleep(0.01)
    os.killpg(sweep.pid, signal.SIGKILL)
    sweep.wait()


needs_digits = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn, whose digits the plugin trains on, is missing"
)


@needs_digits
@pytest.mark.slow(reason="trains small models in several processes")
@pytest.mark.parametrize("task", ["digits", "ones:Ones"])
def test_a_task_is_found_verified_swept_and_reported(task: str, site: Path, tmp_path: Path) -> None:
    """By its entry point, and one that only an import path tells."""
    name = {"ones:Ones": "ones"}.get(task, "digits")
    if task == "digits":
        told = dp_bench(site, "data", "digits").stdout
        assert told.startswith("digits: complete, 1,437 + 360 rows, in package sklearn.datasets.data\n  ok: digits.csv")
    small = ["train.batch_size=64", "train.epochs=4", "grid.k=2", "grid.lr=[0.1,1]", "privacy.epsilon=9", "seeds=[0]"]
    root = tmp_path / "runs"
    dp_bench(site, "run", "-m", f"dataset={task}", "strategy=nsgd", *small, f"runs={root}", "hydra/launcher=basic")
    first, _ = sorted(root.glob(f"paper/*/{name}/nsgd/k2/eps9/*/seed0"))
    protocol = json.loads((first / "spec.json").read_text())["protocol"]
    assert protocol["task_path"] == {"ones": "ones:Ones"}.get(name, "dp_bench_plugin.digits:Digits")
    assert protocol["source"]["train_rows"] == 1437
    assert json.loads((first / "result.json").read_text())["best"]["value"] > 0.5
    dp_bench(site, "report", "--runs", str(root), "--profile", "paper", "--out", str(tmp_path / "report"))
    (table,) = (tmp_path / "report").rglob(f"best_{name}_k2.md")
    assert {"digits": "Digits, k = 2", "ones": "Is it a one?, k = 2"}[name] in table.read_text()
    (model,) = (tmp_path / "report").rglob("model_perceptron.csv")
    assert len(model.read_text().splitlines()) == 3
    assert (
        f"dataset={'digits' if name == 'digits' else 'ones:Ones'}" in (tmp_path / "report/paper/index.html").read_text()
    )


@needs_digits
@pytest.mark.slow(reason="trains small models in several processes")
def test_a_task_is_configured_by_its_own_options_and_judged_by_its_own_metric(site: Path, tmp_path: Path) -> None:
    small = ["train.batch_size=64", "train.epochs=1", "grid.k=2", "grid.lr=[0.1,1]", "privacy.epsilon=9", "seeds=[0]"]
    chosen = ["dataset=likely:Likely", "strategy=online", *small, f"runs={tmp_path / 'runs'}"]
    dp_bench(site, "run", "-m", *chosen, "dataset.darker=true", "model.hidden=8,32", "hydra.launcher.n_jobs=2")
    found = sorted(tmp_path.glob("runs/paper/*/likely/online/k2/eps9/lr=0.1/seed0"))
    protocols = [json.loads((folder / "spec.json").read_text())["protocol"] for folder in found]
    assert [(p["dataset"]["darker"], p["model"]["hidden"]) for p in protocols] == [(True, 32), (True, 8)]
    assert [p["allocation"]["candidates"] for p in protocols] == [4, 4], "a swept option is charged"
    assert protocols[0]["variant"].startswith("dataset.darker=True,grid."), "an option at its default is not named"
    assert protocols[1]["variant"].startswith("dataset.darker=True,model.hidden=8,")
    assert json.loads((found[0] / "result.json").read_text())["best"]["value"] < 0
    told = dp_bench(site, "report", "--runs", f"{tmp_path / 'runs'}", "--profile", "paper", "--out", f"{tmp_path}")
    assert "left out" not in told.stderr
    runs = pd.read_csv(tmp_path / "paper/data/runs.csv")
    assert set(runs["model.hidden"]) == {8, 32}
    assert set(runs["dataset.darker"]) == {True}
    assert "dataset.words" not in runs
    page = (tmp_path / "paper/index.html").read_text()
    assert "model.hidden=8" in page, "how to run it again"


OPTIONS = ["dataset=digits", "strategy=nsgd", "strategy.lr=0.00316"]
MISTAKES = [
    ([*OPTIONS, "model.hidden=0"], "model.hidden: expected a positive number, got 0"),
    ([*OPTIONS, "model.hidden=wide"], "model.hidden: expected a whole number, got wide; for example model.hidden=32"),
    ([*OPTIONS, "model.hiden=8"], "did you mean `model.hidden`?"),
    ([*OPTIONS, "dataset.words=8"], "dataset.words: expected its default 25 with dataset=digits, which has no such"),
    ([*OPTIONS, "dataset.name=mnist"], "dataset.name: expected the name of the chosen data set, got mnist"),
    (["strategy=nsgd", "strategy.lr=0.00316", "model.hidden=8"], "model.hidden: expected a key of model ("),
    (
        ["dataset=likely:Taken"],
        "expected options named like variables, and not name, limit, emulate_size, stand_in",
    ),
    (["dataset=likely:Nothing"], "expected options that are true or false, numbers or text, got shift = None"),
    (["dataset=likely:Other"], "expected words of the type that it has in a built-in task, int, got 'many'"),
    (["dataset=likely:Both"], "expected options of the data or of the model, got hidden as both; rename one of them"),
    (["strategy=nsgdc"], "got nsgdc; did you mean `nsgd`?"),
    (
        ["dataset=digit"],
        "got digit; did you mean `digits`?",
    ),
    (["dataset=warming:WarmingUp"], "expected a subclass of dp_bench.tasks.Task, or an object of one"),
    (["strategy=broken"], "got no_such_package:Broken: ModuleNotFoundError: No module named 'no_such_package'"),
    (["strategy=no_such_package:Mine"], "got no_such_package:Mine: ModuleNotFoundError"),
    (["strategy=warming:Nothing"], "AttributeError"),
    (["strategy=warming:Positive"], "expected a subclass of dp_bench.strategies.Strategy, got warming:Positive"),
    (
        ["strategy=nsgd", "strategy.lr=0.00316", "strategy.r=-1"],
        "strategy.r: expected a positive number, got -1.0",
    ),
    (["strategy=nsgd", "strategy.lr=0.00316", "strategy.q=1"], "strategy.q: expected a key of strategy ("),
    (["strategy=warming:WarmingUp", "strategy.ramp=3"], "+grid.axes.ramp=[2,3,8]"),
    (
        ["strategy=nsgd", "strategy.lr=0.00316", "+grid.axes.ramp=[3]"],
        "grid.axes: expected an axis that nsgd sweeps",
    ),
]
ONE_AFTER_ANOTHER = """
import contextlib, io, json, sys
from dp_bench.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        answers.append([main(words), told.getvalue()])
print(json.dumps(answers))
"""


@pytest.mark.slow(reason="starts a process")
def test_mistakes_are_one_line(site: Path, tmp_path: Path) -> None:
    """One process for all of them: it takes longer to start than to make ten mistakes."""
    commands = [["run", *SMALL, f"runs={tmp_path}", *words] for words, _ in MISTAKES]
    command = [sys.executable, "-c", ONE_AFTER_ANOTHER, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(site))
    for (words, expected), (code, told) in zip(MISTAKES, json.loads(done.stdout), strict=True):
        assert code == 2, words
        (line,) = [line for line in told.splitlines() if not line.startswith("warning: ")]
        assert line.startswith("dp-bench: "), words
        assert expected in line, words
    assert not list(tmp_path.iterdir())


@pytest.mark.slow(reason="trains a small model")
def test_another_class_of_the_same_name_is_another_protocol(site: Path, tmp_path: Path) -> None:
    """It would share folder and noise with the first."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "cooling.py").write_text(WARMING)
    run = ["run", *SMALL, f"runs={tmp_path / 'runs'}", "strategy.ramp=2"]
    dp_bench(site, *run, "strategy=warming:WarmingUp")
    refused = dp_bench(other, *run, "strategy=cooling:WarmingUp", check=False)
    assert refused.returncode == 2
    assert "expected strategy_path = cooling:WarmingUp, got warming:WarmingUp" in refused.stderr
    (other / "warming.py").write_text(WARMING + "# changed\n")
    changed = dp_bench(other, *run, "strategy=warming:WarmingUp", check=False)
    assert changed.returncode == 2
    assert "expected strategy_code = " in changed.stderr


@pytest.mark.slow(reason="imports Ray")
@pytest.mark.parametrize("pickler", ["pickle", "cloudpickle", "joblib.externals.cloudpickle", "ray.cloudpickle"])
def test_a_worker_knows_what_only_the_command_line_named(pickler: str, site: Path) -> None:
    """Each launcher sends its workers the configuration, by a pickler of its own."""
    if importlib.util.find_spec(pickler.partition(".")[0]) is None:
        pytest.skip(f"{pickler} is not installed")
    send = f"""
import sys, {pickler}
from hydra.core.config_store import ConfigStore
from dp_bench.experiment import config
assert config.resolved("strategy=online,warming:WarmingUp") == "strategy=online,warming_up"
assert config.resolved("dataset=ones:Ones") == "dataset=ones"
assert config.resolved("dataset=likely:Likely") == "dataset=likely"
sys.stdout.buffer.write({pickler}.dumps(ConfigStore.instance().repo))
"""
    receive = """
import pickle, sys
repository = pickle.loads(sys.stdin.buffer.read())
from dp_bench.strategies import STRATEGIES
from dp_bench.tasks import TASKS
node = repository["dataset"]["likely.yaml"].node
assert (node.dataset.darker, node.model.hidden) == (False, 32)
print(STRATEGIES["warming_up"].__name__, TASKS["ones"].title)
"""
    sent = subprocess.run([sys.executable, "-c", send], capture_output=True, check=True, env=environment(site)).stdout
    command = [sys.executable, "-c", receive]
    told = subprocess.run(command, input=sent, capture_output=True, check=True, env=environment(site)).stdout
    assert told == b"WarmingUp Is it a one?\n"


def test_a_plugin_has_the_look_that_it_declares_or_one_of_its_name(site: Path) -> None:
    code = """
from dp_bench.report.render.looks import look_of
from dp_bench.strategies import STRATEGIES
before = [look_of(name) for name in STRATEGIES.built_in]
STRATEGIES.add("warming:WarmingUp")
looks = [look_of(name) for name in ("nsgd", "warming_up")]
assert looks[0].color == "#332288"
assert look_of("warming_up") == looks[1]
assert all(look.marker and look.color.startswith("#") for look in looks)
assert len({look.color for look in [*before, *looks]}) == len(before) + 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(site))


@pytest.mark.slow(reason="starts a process")
def test_help_lists_what_is_installed(site: Path) -> None:
    told = dp_bench(site, "run", "--help").stdout
    assert "nsgd" in told
    assert "r: 0.1" in told


@pytest.mark.slow(reason="audits a strategy: most of a minute")
def test_the_audit_takes_a_plugin(site: Path, tmp_path: Path) -> None:
    done = dp_bench(
        *(site, "audit", "--quick", "--strategy", "nsgd"),
        *("--key", "plugin", "--out", str(tmp_path / "audit.json")),
    )
    found = Audit.from_json(json.loads((tmp_path / "audit.json").read_text()))
    assert found.holds
    assert {bug.bug for bug in found.caught if bug.subject == "nsgd"} >= {"noise_times_0_7", "momentum_of_exact_sums"}
    assert "0 of" in done.stdout.splitlines()[-2]


@pytest.mark.slow(reason="runs pytest in a new process")
def test_the_plugins_own_test(site: Path) -> None:
    tests = PROJECT / "examples/plugin/tests"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tests),
        "-c",
        os.devnull,
    ]
    done = subprocess.run([*command, str(tests)], env=environment(site), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout

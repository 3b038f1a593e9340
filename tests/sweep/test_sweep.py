"""A sweep: the same store whatever launches it and whatever is killed; every failure named, nothing done twice."""

import contextlib
import functools
import multiprocessing
import os
import pty
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.utils import JobReturn, JobStatus
from running import a_result, contents, in_a_child, smoke

import dp_bench.sweep.launch
import dp_bench.sweep.live
import dp_bench.training.run
from dp_bench.cli import main
from dp_bench.errors import JobsFailed
from dp_bench.experiment.plan import Job
from dp_bench.experiment.store import RunFolder
from dp_bench.sweep.launch import TRIES, _carry_out
from dp_bench.sweep.live import View, watching
from dp_bench.training import job as one_job

pytestmark = pytest.mark.usefixtures("without_data")

# Four configurations of 200 steps: long enough to be killed while they train, and a checkpoint every 10 steps.
SWEEP = ["profile=smoke", "dataset=ag_news", "strategy=online,no_dp", "grid.k=2", "privacy.epsilon=3", "seeds=[0]"]
SWEEP += ["train.epochs=10", "train.evaluate_every=10"]
PATIENCE = 120  # seconds; only a failing test waits so long


def command(root: Path, launcher: str = "joblib", *more: str) -> list[str]:
    return ["run", "-m", *SWEEP, f"runs={root}", f"hydra/launcher={launcher}", *more]


def in_this_process(root: Path, *more: str) -> int:
    return main(command(root, "basic", *more))


class Sweep:
    """A sweep in a process group of its own, forked from this process: torch is imported already."""

    def __init__(self, arguments: Sequence[str], log: Path, **environment: str) -> None:
        self.log = log
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.environ.update(environment)
                with log.open("w") as told:
                    os.dup2(told.fileno(), 1)
                    os.dup2(told.fileno(), 2)
                    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1)
                os._exit(main(arguments))
            finally:
                os._exit(70)

    def worker(self, root: Path) -> int:
        """A process that is in the middle of one of its runs."""

        def look() -> list[int]:
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            assert ended is None, self.log.read_text()
            return running_in(root)

        return until(look)[0]

    def end(self) -> int:
        """Its exit code; workers that wait for more to do are sent home."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.kill_group()
        return code

    def kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A sweep in a new Python process and a session of its own, all of which ends if the test fails."""
    # Tests started in the background ignore Ctrl-C, and so does all that they start.
    heed = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"import signal, sys; {heed}; from dp_bench.cli import main; sys.exit(main())"
    start = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(start, stderr=subprocess.PIPE, text=True, start_new_session=True) as sweep:
        try:
            yield sweep
        except BaseException:  # it would be waited for: for hours, if it trains on
            os.killpg(sweep.pid, signal.SIGKILL)
            raise


def until(holds: Callable[[], object]) -> object:
    """Wait until something holds, and return it."""
    end = time.monotonic() + PATIENCE
    while not (value := holds()):
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.02)
    return value


def running_in(root: Path) -> list[int]:
    """The processes of runs that have got past their second evaluation and are not done."""
    working = []
    for metrics in root.rglob("metrics.csv"):
        if not (metrics.parent / "result.json").exists() and metrics.read_text().count("\n") > 2:
            working += processes_with(metrics.parent / ".lock")
    return working


def processes_with(path: Path) -> list[int]:
    """Processes that have a file open."""
    found = []
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if descriptor.readlink() == path:
                found.append(int(descriptor.parts[2]))
        except OSError:
            continue
    return found


def session(leader: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, *_, number = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(number) == leader and state != "Z":
            found.append(int(stat.parts[2]))
    return found


@pytest.fixture
def undisturbed() -> dict[str, bytes]:
    """The store that the sequential launcher makes."""
    return made_sequentially()


@functools.cache
def made_sequentially() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as root:
        assert in_this_process(Path(root)) == 0
        store = contents(Path(root))
    assert len(store) == 4 * 3, "spec, metrics and result of four runs"
    return store


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """The runs that were trained, in this process and in those forked from it."""
    log, train = tmp_path / "trained", dp_bench.training.run._train

    def counted(spec, *arguments):
        with log.open("a") as file:
            file.write(f"{spec.folder}\n")
        return train(spec, *arguments)

    monkeypatch.setattr(dp_bench.training.run, "_train", counted)
    return lambda: log.read_text().splitlines() if log.exists() else []


@pytest.mark.slow(reason="trains a sweep in worker processes, and again in one")
def test_processes_side_by_side_make_the_store_that_one_makes(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    sweep = Sweep(command(tmp_path / "runs", "joblib", "hydra.launcher.n_jobs=2"), tmp_path / "log")
    assert sweep.end() == 0
    assert contents(tmp_path / "runs") == undisturbed


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_second_sweep_trains_nothing(tmp_path: Path, trained: Callable[[], list[str]]) -> None:
    for _ in range(2):
        assert in_this_process(tmp_path / "runs", "train.epochs=0.3") == 0
        assert len(trained()) == 4


def damaged_checkpoint(folder: Path) -> None:
    (folder / "checkpoint.pt").write_bytes(b"dp_bench checkpoint 1\nnothing")


def damaged_result(folder: Path) -> None:
    (folder / "result.json").write_text('{"status": "finished", "sha256": "0"}')


@pytest.mark.slow(reason="trains a sweep in worker processes")
@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (damaged_checkpoint, "checkpoint.pt: expected a whole file, got a checksum that does not fit"),
        (damaged_result, "result.json: expected a whole JSON object that fits its checksum"),
    ],
)
def test_a_failing_configuration_is_reported_at_the_end_and_the_others_finish(
    plant: Callable[[Path], None], reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    short = ["train.epochs=0.3", "train.evaluate_every=2"]
    spec = smoke("no_dp", "strategy.lr=31.6", "grid.k=2", "seeds=[0]")[0]
    folder = tmp_path / spec.folder
    folder.mkdir(parents=True)
    plant(folder)
    before = contents(folder)
    assert in_this_process(tmp_path, *short) == 1
    told = capfd.readouterr().err.splitlines()
    assert told[-2] == "dp-bench: 1 of 4 configurations failed:"
    assert told[-1].startswith(f"  {spec.folder.parent}: ")
    assert reason in told[-1]
    assert before.items() <= contents(folder).items(), "what is damaged is evidence"
    for path in folder.iterdir():
        path.unlink()
    assert in_this_process(tmp_path, *short) == 0
    assert in_this_process(tmp_path / "whole", *short) == 0
    whole = contents(tmp_path / "whole")
    assert {name: content for name, content in contents(tmp_path).items() if not name.startswith("whole")} == whole


@pytest.mark.slow(reason="trains small models in a sweep")
def test_an_error_of_ours_is_reported_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    train = dp_bench.training.run._train

    def faulty(spec, *arguments):
        if spec.strategy == "online":
            raise ZeroDivisionError("no step is that small\nand a second line")
        return train(spec, *arguments)

    monkeypatch.setattr(dp_bench.training.run, "_train", faulty)
    assert in_this_process(tmp_path, "train.epochs=0.3") == 1
    told = capfd.readouterr().err
    assert "2 of 4 configurations failed" in told
    assert told.count("ZeroDivisionError: no step is that small\n") == 2
    assert len(list(tmp_path.rglob("result.json"))) == 2


@pytest.mark.slow(reason="kills a worker process and waits for its restart")
def test_a_killed_worker_costs_nothing_but_time(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    sweep = Sweep(command(tmp_path / "runs", "joblib", "hydra.launcher.n_jobs=2", "strategy=no_dp"), tmp_path / "log")
    worker = sweep.worker(tmp_path / "runs")
    assert worker != sweep.pid
    os.kill(worker, signal.SIGKILL)
    assert sweep.end() == 0, sweep.log.read_text()
    assert contents(tmp_path / "runs") == {name: c for name, c in undisturbed.items() if "/no_dp/" in name}


DEADLY = """
import os, signal, sys

def die(event, arguments):
    if event == "os.rename" and str(arguments[1]).endswith(os.environ["DEADLY"]):
        with open(os.environ["DEATHS"], "a") as deaths:
            deaths.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die)
"""


def test_a_worker_watches_its_sweep_by_one_thread_however_many_jobs_it_is_given(monkeypatch) -> None:
    started = []
    monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-1")
    monkeypatch.setattr(one_job.threading, "Thread", lambda **how: SimpleNamespace(start=lambda: started.append(how)))
    one_job._end_with_the_sweep.cache_clear()
    for _ in range(3):
        one_job._end_with_the_sweep()
    one_job._end_with_the_sweep.cache_clear()
    assert [how["daemon"] for how in started] == [True]


def test_a_worker_whose_sweep_was_killed_before_its_first_job_ends_too(monkeypatch) -> None:
    """Its parent is then another process already, which it must not take for the sweep."""
    monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-1")
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(pid=os.getppid() + 1))
    monkeypatch.setattr(one_job.threading, "Thread", lambda target, daemon: SimpleNamespace(start=target))
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    one_job._end_with_the_sweep.cache_clear()
    one_job._end_with_the_sweep()
    one_job._end_with_the_sweep.cache_clear()
    assert ended == [1]


@pytest.mark.slow(reason="waits for three tries in new processes")
def test_a_configuration_that_kills_its_worker_is_named_after_three_tries(tmp_path: Path) -> None:
    """Whichever process writes the metrics of one run is killed, as if it had run out of memory."""
    (tmp_path / "sitecustomize.py").write_text(DEADLY)  # every new Python process imports it
    arguments = command(tmp_path / "runs", "joblib", "hydra.launcher.n_jobs=2", "strategy=no_dp", "train.epochs=0.3")
    environment = {
        "PYTHONPATH": str(tmp_path),
        "DEADLY": "lr=31.62/seed0/metrics.csv",
        "DEATHS": str(tmp_path / "deaths"),
    }
    sweep = Sweep([*arguments, "grid.k=3"], tmp_path / "log", **environment)
    assert sweep.end() == 1
    told = sweep.log.read_text().splitlines()
    assert told[-2] == "dp-bench: 1 of 3 configurations failed:"
    assert re.search(r"no_dp/k3/epsinf/lr=31\.62: its process died 3 times \(", told[-1])
    assert (tmp_path / "deaths").read_text() == "x" * TRIES
    assert len(list((tmp_path / "runs").rglob("result.json"))) == 2


@pytest.mark.slow(reason="kills and restarts whole sweeps")
def test_killed_as_a_whole_at_random_moments_it_ends_the_same(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    """Kill -9 of the sweep and all its workers, at any moment from its start to its end (`make soak`: 1,000 times)."""
    root, moments, unfinished = tmp_path / "runs", random.Random(1), 0
    arguments = command(root, "joblib", "hydra.launcher.n_jobs=2")
    for i in range(4):
        before = contents(root)
        sweep = Sweep(arguments, tmp_path / f"log{i}")
        if i % 2 == 0:
            time.sleep(moments.uniform(0.1, 4))  # perhaps before anything has started
        else:
            until(lambda before=before: contents(root) != before)
            time.sleep(moments.uniform(0, 0.6))
        sweep.kill_group()
        assert sweep.end() == -signal.SIGKILL, "it had ended before it was killed"
        until(lambda pid=sweep.pid: not session(pid))
        unfinished += any(root.rglob("checkpoint.pt"))
    assert unfinished >= 1, "no run was killed while it trained"
    last = Sweep(arguments, tmp_path / "log")
    assert last.end() == 0, last.log.read_text()
    assert contents(root) == undisturbed


@pytest.mark.slow(reason="runs two sweeps concurrently")
def test_two_concurrent_sweeps_share_the_work(
    undisturbed: dict[str, bytes], tmp_path: Path, trained: Callable[[], list[str]]
) -> None:
    sweeps = [Sweep(command(tmp_path / "runs", "basic"), tmp_path / name) for name in ("log1", "log2")]
    assert [sweep.end() for sweep in sweeps] == [0, 0]
    assert contents(tmp_path / "runs") == undisturbed
    assert len(trained()) == len(set(trained())) == 4
    for sweep in sweeps:
        assert sweep.log.read_text().splitlines()[-1].startswith("4 of 4 runs done")


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_configuration_whose_process_goes_away_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another sweep is running one run and dies: this one waits for it, and then runs it itself."""
    monkeypatch.setattr(dp_bench.sweep.launch, "_SECONDS_BETWEEN_LOOKS", 0.05)
    folder = RunFolder(tmp_path, smoke("no_dp", "strategy.lr=31.6", "grid.k=2", "seeds=[0]")[0])

    def hold() -> None:
        with folder.claimed():
            (tmp_path / "held").touch()
            until(lambda: len(list(tmp_path.rglob("result.json"))) == 3)
            time.sleep(0.5)

    holder = os.fork()
    if holder == 0:
        in_a_child(hold)
        os._exit(0)
    until((tmp_path / "held").exists)
    assert in_this_process(tmp_path, "train.epochs=0.3", "train.evaluate_every=2") == 0
    os.waitpid(holder, 0)
    assert capfd.readouterr().err.count("waiting for 1 configurations running in another process") == 1
    assert folder.result() is not None


@pytest.mark.slow(reason="kills a sweep and waits for its workers to end")
def test_its_processes_end_with_it(tmp_path: Path) -> None:
    """A signal to the sweep alone ends all of it."""
    sweep = Sweep(command(tmp_path / "runs"), tmp_path / "log")
    worker = sweep.worker(tmp_path / "runs")
    os.kill(sweep.pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{worker}").exists())
    assert list((tmp_path / "runs").rglob("checkpoint.pt")), "it had all been done"
    assert sweep.end() == -signal.SIGKILL


@pytest.mark.slow(reason="interrupts a sweep and waits for its workers to end")
def test_ctrl_c_ends_with_a_line_and_leaves_no_process_behind(tmp_path: Path) -> None:
    arguments = command(tmp_path / "runs", "joblib", "hydra.launcher.n_jobs=2", "strategy=no_dp", "train.epochs=1000")
    with started(arguments) as sweep:
        until(lambda: running_in(tmp_path / "runs"))
        os.killpg(sweep.pid, signal.SIGINT)  # a terminal sends it to every process of the group
        told = sweep.communicate(timeout=PATIENCE)[1].splitlines()
    assert sweep.returncode == 130
    assert told[-1] == "dp-bench: interrupted; the same command resumes from the last checkpoint"
    assert not any("Traceback" in line for line in told)
    until(lambda: not session(sweep.pid))
    assert list((tmp_path / "runs").rglob("checkpoint.pt"))


# What follows needs no launcher: jobs as they are planned, and a launcher that does as it is told.


def jobs(root: Path, count: int = 4) -> list[Job]:
    specs = [smoke("no_dp", "grid.k=4", f"strategy.lr={lr}", "seeds=[0]")[0] for lr in GRID[:count]]
    return [Job((str(i),), (spec,), root) for i, spec in enumerate(specs)]


GRID = ["0.00316", "0.0681", "1.468", "31.6"]


def start(folder: RunFolder) -> None:
    """As a run does: claimed by its process, its spec written by the first one only."""
    with folder.claimed() as ours:
        assert ours
        if folder.started() and not (folder.path / "spec.json").exists():
            folder.write_spec()


class Launcher:
    """Does its jobs in order; when it comes to one in `deadly`, that and all that has started is lost."""

    def __init__(self, planned: Sequence[Job], deadly: Sequence[int] = (), mortality: int = 99) -> None:
        self.planned = {job.overrides: job for job in planned}
        self.deadly = Counter({planned[i].overrides: mortality for i in deadly})
        self.launched: list[list[str]] = []

    def __call__(self, overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        self.launched.append(["".join(o) for o in overrides])
        batch = [self.planned[tuple(o)] for o in overrides]
        for job in batch:
            start(job.folders[0])
        for job in batch:
            if self.deadly[job.overrides]:
                self.deadly[job.overrides] -= 1
                raise RuntimeError("a worker was killed\nperhaps it ran out of memory")
            job.folders[0].finish(a_result(job.runs[0], "finished", 0.5))
        return [JobReturn(status=JobStatus.COMPLETED)] * len(batch)


@pytest.mark.slow(reason="trains small models in a sweep")
def test_the_longest_jobs_go_first(tmp_path: Path) -> None:
    """Steps of the three models differ a hundredfold; jobs of one length keep their order."""
    names = ["ag_news", "mnist", "ag_news", "fashion_mnist", "mnist"]
    epochs = [9, 1, 9, 1, 2]
    specs = [
        smoke("no_dp", f"dataset={name}", f"train.epochs={n}", f"strategy.lr={lr}", "grid.k=5", "seeds=[0]")[0]
        for name, n, lr in zip(names, epochs, ["0.00316", "0.0316", "0.316", "3.16", "31.6"], strict=True)
    ]
    planned = [Job((str(i),), (spec,), tmp_path) for i, spec in enumerate(specs)]
    launcher = Launcher(planned)
    dp_bench.sweep.launch.sweep(planned, launcher)
    assert launcher.launched == [["3", "4", "1", "0", "2"]]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_one_death_blames_no_one(tmp_path: Path) -> None:
    planned = jobs(tmp_path)
    launcher = Launcher(planned, deadly=[1], mortality=1)
    assert _carry_out(planned, launcher) == {}
    assert launcher.launched == [["0", "1", "2", "3"], ["1", "2", "3"]]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_what_dies_twice_is_tried_by_itself_and_only_the_killer_is_named(tmp_path: Path) -> None:
    planned = jobs(tmp_path)
    launcher = Launcher(planned, deadly=[1])
    reason = "its process died 3 times (a worker was killed)"
    assert _carry_out(planned, launcher) == {planned[1]: reason}
    assert launcher.launched == [["0", "1", "2", "3"], ["1", "2", "3"], ["1"], ["2"], ["3"]]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_job_that_dies_on_every_resume_is_named_and_the_others_finish(tmp_path: Path) -> None:
    """Resuming does not write the spec again; that a run was begun must show all the same."""
    planned = jobs(tmp_path)
    for job in planned:
        start(job.folders[0])
    launcher = Launcher(planned, deadly=[1])
    assert _carry_out(planned, launcher) == {planned[1]: "its process died 3 times (a worker was killed)"}


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_launcher_that_starts_nothing_is_not_blamed_on_a_job(tmp_path: Path) -> None:
    launched = []

    def broken(overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        launched.append(overrides)
        raise ConnectionError("no cluster there\nmore")

    with pytest.raises(JobsFailed, match=r"^no job could be started \(ConnectionError: no cluster there\)$"):
        _carry_out(jobs(tmp_path), broken)
    assert len(launched) == TRIES


@pytest.mark.slow(reason="trains small models in a sweep")
def test_results_that_do_not_arrive_are_missed(tmp_path: Path) -> None:
    """Workers on machines that do not share the folder say that all is well."""
    planned = jobs(tmp_path, 2)
    elsewhere = Launcher(jobs(tmp_path / "elsewhere", 2))
    failures = _carry_out(planned, elsewhere)
    expected = f"it ended 3 times without a result; do all workers see the same runs={tmp_path}?"
    assert failures == dict.fromkeys(planned, expected)


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_job_that_runs_in_another_process_is_not_launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = jobs(tmp_path, 2)
    launcher = Launcher(planned)
    busy = planned[0].folders[0]

    def other_ends(seconds: float) -> None:
        assert launcher.launched == [["1"]]
        busy.finish(a_result(busy.spec, "finished", 0.5))

    monkeypatch.setattr(time, "sleep", other_ends)
    with busy.claimed():
        assert _carry_out(planned, launcher) == {}
    assert launcher.launched == [["1"]]


@pytest.fixture
def half_done(tmp_path: Path) -> list[Job]:
    """Of eight runs in two grids: two finished, one diverged, one damaged, one started."""
    specs = {name: smoke(name, "grid.k=4", *axis) for name, axis in AXES.items()}
    planned = [Job((), (spec,), tmp_path) for spec in [*specs["no_dp"], *specs["adam_wosm"]]]
    folders = [folder for job in planned for folder in job.folders]
    for folder in folders:
        folder.path.mkdir(parents=True)
    values = [("finished", 0.25), ("finished", 0.75)]
    for folder, (status, value) in zip(folders, values, strict=False):
        folder.write_spec()
        folder.finish(a_result(folder.spec, status, value))
    folders[4].write_spec()
    folders[4].finish(a_result(folders[4].spec, "diverged", 0.99))
    damaged_result(folders[5].path)
    folders[6].write_spec()
    return planned


AXES = {"no_dp": ["strategy.lr=0.00316", "seeds=[0,1,2,3]"], "adam_wosm": ["strategy.clip=0.01", "seeds=[0,1,2,3]"]}


@pytest.mark.slow(reason="trains small models in a sweep")
def test_the_view_counts_what_the_store_holds(half_done: list[Job]) -> None:
    begun = half_done[6].folders[0]
    with begun.claimed():
        view = View(half_done)
    found = [
        [getattr(g, n) for n in ("done", "total", "running", "finished", "diverged", "failed")] for g in view.grids
    ]
    assert found == [[2, 4, 0, 2, 0, 0], [1, 4, 1, 0, 1, 1]]
    assert [grid.line().rpartition("/eps")[2] for grid in view.grids] == [
        "inf: 2 of 4 done, 0 running, best 75.00",
        "3: 1 of 4 done, 1 running, 1 diverged, 1 failed",
    ]
    view.refresh()
    assert view.grids[1].running == 0, "begun by a process that is gone"
    assert view.total_line() == "3 of 8 runs done", "no speed is known yet"
    view.started -= 3600
    half_done[6].folders[0].finish(a_result(half_done[6].runs[0], "finished", 0.5))
    half_done[7].folders[0].finish(a_result(half_done[7].runs[0], "finished", 0.25))
    view.refresh()
    assert view.grids[1].line().endswith("3 of 4 done, 0 running, 1 diverged, 1 failed, best 50.00")
    assert view.total_line() == "5 of 8 runs done, 2 runs an hour, 60 min left"


def test_the_best_error_is_the_smallest(tmp_path: Path) -> None:
    planned = [Job((), (spec,), tmp_path) for spec in smoke("no_dp", "seeds=[0,1]", dataset="fashion_mnist")]
    for job, value in zip(planned, (0.5, 0.25), strict=True):
        job.folders[0].finish(a_result(job.runs[0], "finished", value))
    assert View(planned).grids[0].best == 0.25


@pytest.mark.slow(reason="trains small models in a sweep")
def test_where_there_is_no_terminal_it_says_a_line_now_and_then(
    half_done: list[Job], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dp_bench.sweep.live, "_SECONDS_BETWEEN_LINES", 0.02)
    with watching(half_done):
        time.sleep(0.3)
    told = capfd.readouterr().err.splitlines()
    assert len(told) > 5
    assert set(told[:-3]) == {"3 of 8 runs done"}
    assert told[-3:] == [*(grid.line() for grid in View(half_done).grids), "3 of 8 runs done"]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_terminal_is_redrawn_in_place(half_done: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    screen, program = pty.openpty()
    os.set_blocking(screen, False)
    monkeypatch.setattr(sys, "stderr", os.fdopen(program, "w"))
    monkeypatch.setattr(dp_bench.sweep.live, "_SECONDS_ON_TERMINAL", 0.02)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "24")
    shown = b""

    def times(text: str) -> int:
        nonlocal shown
        with contextlib.suppress(BlockingIOError):
            shown += os.read(screen, 65536)
        return shown.decode().count(text)

    with watching(half_done):
        until(lambda: times("3 of 8 runs done") > 3)
        half_done[7].folders[0].finish(a_result(half_done[7].runs[0], "finished", 0.5))
        until(lambda: times("4 of 8 runs done"))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "\x1b[1A" in shown.decode(), "drawn over"
    assert "adam_wosm" in text
    assert "stand-in" not in text, "no paths of variants"
    assert all(len(line) <= 100 for line in text.replace("\r", "\n").splitlines())

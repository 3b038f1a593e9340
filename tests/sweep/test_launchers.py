"""Ray and submitit for real, on this machine: other processes, in other folders, one of them killed while it trains."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import contents
from test_sweep import PATIENCE, Sweep, command, session, started, undisturbed, until

pytestmark = pytest.mark.usefixtures("without_data")
__all__ = ["undisturbed"]


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A cluster with two workers, started in another folder by someone who has set none of our variables."""
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="the extra ray is not installed")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else it leaves a token in the home folder
    home = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = ["--head", "--block", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
    options += [f"--temp-dir={home}", "--node-ip-address=127.0.0.1", f"--port={address.partition(':')[2]}"]
    options += ["--min-worker-port=0", "--max-worker-port=0"]  # any free ones: the default range may hold ours
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("DP_BENCH_")}
    start = [Path(sys.executable).parent / "ray", "start", *options]
    with (Path(home) / "log").open("w") as log:
        head = subprocess.Popen(start, cwd=home, env=theirs, stdout=log, stderr=log, start_new_session=True)
        try:
            until(lambda: "Ray runtime started" in (Path(home) / "log").read_text() or head.poll() is not None)
            assert head.poll() is None, (Path(home) / "log").read_text()
            monkeypatch.setenv("RAY_ADDRESS", address)
            yield head.pid
        finally:
            head.terminate()
            head.wait(PATIENCE)
            for left in session(head.pid):
                os.kill(left, signal.SIGKILL)
            until(lambda: not session(head.pid))
            shutil.rmtree(home)


@pytest.mark.slow(reason="starts a Ray cluster")
def test_ray_loses_a_worker_and_nothing_else(
    ray_cluster: int, undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = Sweep(command(Path("runs"), "ray_cluster"), tmp_path / "log")
    worker = sweep.worker(tmp_path / "runs")
    assert worker in session(ray_cluster), "the cluster does the work"
    assert len(session(sweep.pid)) == 1
    os.kill(worker, signal.SIGKILL)
    assert sweep.end() == 0, sweep.log.read_text()
    assert contents(tmp_path / "runs") == undisturbed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "runs"]


@pytest.mark.slow(reason="starts a Ray cluster")
def test_ray_is_started_for_a_sweep_and_stopped_after_it(
    undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="the extra ray is not installed")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    home = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    try:
        options = ["hydra.launcher.ray.init.num_cpus=2", f"+hydra.launcher.ray.init._temp_dir={home}", "strategy=no_dp"]
        with started(command(tmp_path / "runs", "ray_local", *options)) as sweep:
            told = sweep.communicate(timeout=PATIENCE)[1]
        assert sweep.returncode == 0, told
        until(lambda: not session(sweep.pid))
    finally:
        shutil.rmtree(home)
    found = contents(tmp_path / "runs")
    assert found == {name: content for name, content in undisturbed.items() if "/no_dp/" in name}


@pytest.mark.slow(reason="trains a sweep in submitit's processes")
def test_submitit_loses_a_process_and_nothing_else(
    undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="the extra slurm is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 1)  # how long a slow disk is given
    sweep = Sweep(command(Path("runs"), "slurm_local", "strategy=online"), tmp_path / "log")
    worker = sweep.worker(tmp_path / "runs")
    assert worker != sweep.pid
    os.kill(worker, signal.SIGKILL)
    assert sweep.end() == 0, sweep.log.read_text()
    found = {f"smoke/{name}": content for name, content in contents(tmp_path / "runs" / "smoke").items()}
    assert found == {name: content for name, content in undisturbed.items() if "/online/" in name}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "runs"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [".submitit", "smoke"]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_slurm_is_asked_for_an_array_with_one_task_per_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no SLURM here: what it would be told, by way of an sbatch that keeps the script and refuses it."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="the extra slurm is not installed")
    refuse = f'cp "$1" {tmp_path}/script; echo "no such partition" >&2; exit 1'
    for name, does in {"srun": "exit 0", "sbatch": refuse}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    options = ["hydra.launcher.partition=long", "hydra.launcher.timeout_min=30", "threads=2"]
    sweep = Sweep(command(Path("runs"), "slurm", *options), tmp_path / "log")
    assert sweep.end() == 1
    assert "dp-bench: no job could be started (FailedJobError: " in sweep.log.read_text()
    script = (tmp_path / "script").read_text()
    for option in ("array=0-3%4", "cpus-per-task=2", "job-name=dp_bench", "mem=4GB", "partition=long", "time=30"):
        assert f"#SBATCH --{option}\n" in script
    assert f"{tmp_path}/runs/.submitit/%A_%a" in script

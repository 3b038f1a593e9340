"""A run: the same bits every time, wherever it is killed; nothing repeated, nothing hidden."""

import hashlib
import io
import json
import os
import random
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from running import POINT, carry_out, contents, data_of, in_a_child, smoke

import dp_bench.experiment.store
import dp_bench.files.atomic
import dp_bench.files.checksummed
from dp_bench import cli
from dp_bench.errors import UserError
from dp_bench.experiment.record import Evaluation
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.files.checksummed import read_checksummed, write_checksummed
from dp_bench.strategies import STRATEGIES
from dp_bench.training.checkpoint import checkpoint_of, parameters_of, resume
from dp_bench.training.provenance import source_commit
from dp_bench.training.run import run
from dp_bench.training.trainer import Training, noise_key

pytestmark = pytest.mark.usefixtures("without_data")
CPU = torch.device("cpu")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_runs_of_one_spec_are_bit_identical(strategy: str, tmp_path: Path) -> None:
    spec = smoke(strategy)[0]
    dataset = data_of(spec)
    results = [carry_out(spec, tmp_path / name, dataset, keep="all") for name in ("a", "b")]
    assert results[0] == results[1]
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert a == b
    kept = sorted(Path(name).name for name in a)
    assert kept == ["metrics.csv", "result.json", "spec.json", *(f"step{s:05d}.pt" for s in (0, 2, 4, 6))]


@pytest.mark.parametrize(
    "dataset_name",
    [
        pytest.param("mnist", marks=pytest.mark.slow(reason="trains the CNN")),
        pytest.param("fashion_mnist", marks=pytest.mark.slow(reason="trains the autoencoder")),
        "ag_news",
    ],
)
@pytest.mark.slow(reason="trains small models")
def test_every_task_trains(dataset_name: str, tmp_path: Path) -> None:
    spec = smoke("no_dp", "train.epochs=1", "train.evaluate_every=10", dataset=dataset_name)[0]
    result = carry_out(spec, tmp_path, data_of(spec))
    rows = (tmp_path / spec.folder / "metrics.csv").read_text().splitlines()
    metric = {"fashion_mnist": "mse"}.get(dataset_name, "accuracy")
    assert rows[0] == f"step,{metric},clip,lr,epsilon"
    assert [row.split(",")[0] for row in rows[1:]] == ["0", "10", "20"]
    first, last = (float(rows[i].split(",")[1]) for i in (1, -1))
    assert result.status == "finished"
    assert last < 0.6 * first if metric == "mse" else last > first + 0.3
    assert result.final == Evaluation(20, last)


@pytest.mark.slow(reason="kills and restarts a run before each file")
def test_killed_before_any_file_is_renamed_it_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill at every single write: before the temporary file exists, and between it and its renaming."""
    spec = smoke("online")[0]
    dataset = data_of(spec)
    carry_out(spec, tmp_path / "whole", dataset, keep="best")
    expected = contents(tmp_path / "whole")
    real = dp_bench.files.atomic.write_atomically
    written: list[str] = []

    def counted(path: Path, content: bytes, **how: Any) -> None:
        written.append(path.name)
        real(path, content, **how)

    def write_with(writer: Callable[..., None]) -> None:
        for module in (dp_bench.experiment.store, dp_bench.files.checksummed):
            monkeypatch.setattr(module, "write_atomically", writer)

    write_with(counted)
    carry_out(spec, tmp_path / "counted", dataset, keep="best")
    assert {"spec.json", "checkpoint.pt", "metrics.csv", "best.pt", "result.json"} <= set(written)
    assert len(written) > 10

    for deadly in range(1, len(written) + 1):
        for half_written in (False, True):
            root = tmp_path / f"killed {deadly} {half_written}"
            seen = 0

            def lethal(
                path: Path, content: bytes, deadly: int = deadly, half_written: bool = half_written, **how: Any
            ) -> None:
                nonlocal seen
                seen += 1
                if seen == deadly:
                    if half_written:
                        (path.parent / f".{path.name}.x.tmp").write_bytes(content[: len(content) // 2])
                    os._exit(9)
                real(path, content, **how)

            write_with(lethal)
            assert in_a_child(lambda root=root: carry_out(spec, root, dataset, keep="best")) == 9
            write_with(real)
            carry_out(spec, root, dataset, keep="best")
            assert contents(root) == expected


@pytest.mark.slow(reason="kills and restarts runs")
@pytest.mark.parametrize("strategy", ["online", "fixed_quantile", "no_dp", "ada_sig", "sla_clip", "dc_sgd_e"])
def test_killed_at_random_moments_it_ends_the_same(strategy: str, tmp_path: Path) -> None:
    spec = smoke(strategy, "train.epochs=2")[0]
    dataset = data_of(spec)
    carry_out(spec, tmp_path / "whole", dataset)
    moments = random.Random(strategy)
    killed = 0
    for _ in range(25):
        killed += in_a_child(lambda: carry_out(spec, tmp_path / "killed", dataset), moments.uniform(0.01, 0.15)) == -9
    assert killed >= 3
    carry_out(spec, tmp_path / "killed", dataset)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.slow(reason="trains small models")
def test_a_run_whose_checkpoints_cannot_be_written_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written in the background; training must not continue as if they were there."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write_checkpoint", full)
    spec = smoke("online")[0]
    with pytest.raises(OSError, match="No space left"):
        carry_out(spec, tmp_path, data_of(spec))
    assert RunFolder(tmp_path, spec).result() is None


@pytest.mark.slow(reason="trains small models")
def test_no_model_is_written_before_the_checkpoint_that_has_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a kill on a slow disk would leave noise of a key that is lost, and the run would draw other noise again."""
    written: list[str] = []
    write_checkpoint, keep_model = RunFolder.write_checkpoint, RunFolder.keep_model

    def slowly(self: RunFolder, payload: bytes) -> None:
        time.sleep(0.05)
        write_checkpoint(self, payload)
        written.append("checkpoint")

    def note(self: RunFolder, name: str, payload: bytes) -> None:
        keep_model(self, name, payload)
        written.append(name)

    monkeypatch.setattr(RunFolder, "write_checkpoint", slowly)
    monkeypatch.setattr(RunFolder, "keep_model", note)
    spec = smoke("online")[0]
    carry_out(spec, tmp_path, data_of(spec), keep="all")
    assert written == [name for step in (0, 2, 4, 6) for name in (f"step{step:05d}", "checkpoint")]


@pytest.mark.slow(reason="trains small models")
def test_a_finished_run_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke("online")[0]
    result = carry_out(spec, tmp_path, data_of(spec))
    monkeypatch.setattr(Training, "advance", lambda self: pytest.fail("trained again"))
    assert carry_out(spec, tmp_path, data_of(spec)) == result


@pytest.mark.slow(reason="trains small models")
def test_a_run_that_runs_in_another_process_is_left_alone(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    dataset = data_of(spec)
    with RunFolder(tmp_path, spec).claimed() as ours:
        assert ours
        assert carry_out(spec, tmp_path, dataset) is None
    assert carry_out(spec, tmp_path, dataset) is not None


def interrupted(spec, root: Path, dataset, keep: str = "none") -> Path:
    """A run that stopped after its third evaluation."""

    class Stop(Exception):
        pass

    def stop(step: int, row: object) -> None:
        if step == 4 and row is not None:
            raise Stop

    with pytest.raises(Stop):
        run(spec, root, dataset, stop, keep)
    return root / spec.folder / "checkpoint.pt"


@pytest.mark.slow(reason="trains small models")
def test_resuming_on_another_machine_is_refused_with_the_reason(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    dataset = data_of(spec)
    checkpoint = interrupted(spec, tmp_path, dataset)
    before = checkpoint.read_bytes()
    for change, reason in [
        ({"threads": 2}, "made with threads = 2, .*, got 1;"),
        ({"micro_batch": 7}, "made with micro_batch = 7, .*, got 1024;"),
    ]:
        other = replace(spec, machine=replace(spec.machine, **change))
        with pytest.raises(UserError, match=reason):
            carry_out(other, tmp_path, dataset)
    torch.set_num_threads(1)
    assert checkpoint.read_bytes() == before


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-100] + bytes(100), lambda b: b"", lambda b: b[1:]])
@pytest.mark.slow(reason="trains small models")
def test_a_damaged_checkpoint_is_never_believed(damage, tmp_path: Path) -> None:
    spec = smoke("online")[0]
    dataset = data_of(spec)
    checkpoint = interrupted(spec, tmp_path, dataset)
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    with pytest.raises(UserError, match=r"checkpoint\.pt: expected a whole file, got a checksum that does not fit"):
        carry_out(spec, tmp_path, dataset)
    checkpoint.unlink()
    carry_out(spec, tmp_path, dataset)
    carry_out(spec, tmp_path / "whole", dataset)
    assert contents(tmp_path / spec.folder) == contents(tmp_path / "whole" / spec.folder)


@pytest.mark.slow(reason="trains small models")
def test_secure_runs_differ_share_initial_weights_and_resume(tmp_path: Path) -> None:
    spec = smoke("online", "seed=secure")[0]
    dataset = data_of(spec)
    first, second = (Training(spec, dataset, CPU) for _ in range(2))
    assert first.key != second.key
    assert len(first.key) == 64
    assert torch.equal(first.model.params, second.model.params)
    assert "seed=secure" in str(spec.folder)
    interrupted(spec, tmp_path, dataset)
    resumed = Training(spec, dataset, CPU)
    resume(resumed, RunFolder(tmp_path, spec).checkpoint())
    rest = Training(spec, dataset, CPU)
    resume(rest, RunFolder(tmp_path, spec).checkpoint())
    assert resumed.key == rest.key
    for training in (resumed, rest):
        training.advance()
    assert torch.equal(resumed.model.params, rest.model.params)
    carry_out(spec, tmp_path, dataset)
    assert not (tmp_path / spec.folder / "checkpoint.pt").exists(), "the key must be forgotten with it"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.slow(reason="trains small models")
def test_seeds_set_initial_weights_and_runs_set_batches_and_noise(strategy: str) -> None:
    """Runs with one seed start alike; no two runs share a batch or a noise vector."""
    other_point = {"adam_wosm": "strategy.clip=1"}.get(strategy, "strategy.lr=3.16")
    a, other_seed = smoke(strategy)
    b = smoke(strategy, other_point)[0]
    dataset = data_of(a)
    one, seeded, two = (Training(spec, dataset, CPU) for spec in (a, other_seed, b))
    assert torch.equal(one.model.params, two.model.params)
    assert not torch.equal(one.model.params, seeded.model.params)
    draws = [(t._draw().tolist(), t.noise.uniform(10_000, torch.float32)) for t in (one, seeded, two)]
    for i, (batch, noise) in enumerate(draws):
        for batch_, noise_ in draws[i + 1 :]:
            assert batch != batch_
            assert abs(torch.corrcoef(torch.stack([noise, noise_]))[0, 1]) < 0.05  # five standard deviations


@pytest.mark.slow(reason="trains small models")
def test_diverging_runs_end_early_are_charged_and_recorded(tmp_path: Path) -> None:
    spec = smoke("online", "strategy.update_rule=additive", "strategy.clip_lr=1e9", "train.epochs=3")[0]
    result = carry_out(spec, tmp_path, data_of(spec))
    assert result.status == "diverged"
    assert "clipping threshold" in result.reason or result.reason == "parameters are not finite"
    assert result.final.step < spec.steps
    assert result.steps_charged == spec.steps
    assert result.epsilon_run == spec.allocation.epsilon_run


@pytest.mark.parametrize(("clip", "reason"), [(0.0, "threshold is 0"), (float("nan"), "nan"), (float("inf"), "inf")])
@pytest.mark.slow(reason="trains small models")
def test_an_invalid_threshold_is_divergence(clip: float, reason: str, tmp_path: Path) -> None:
    spec = smoke("online")[0]
    training = Training(spec, data_of(spec), CPU)
    training.state = training.state._replace(clip=torch.tensor(clip, dtype=torch.float64))
    training.evaluate(0.0)
    assert reason in training.divergence()


@pytest.mark.slow(reason="trains the autoencoder")
def test_ending_worse_than_the_start_is_divergence(tmp_path: Path) -> None:
    spec = smoke("fixed_threshold", "strategy.lr=31.6", "strategy.clip=100", dataset="fashion_mnist")[0]
    result = carry_out(spec, tmp_path, data_of(spec))
    assert result.status == "diverged"
    assert result.reason == "the metric is worse than at step 0"
    assert result.steps_charged == spec.steps
    assert result.epsilon_grid == pytest.approx(3, rel=1e-3)


@pytest.mark.slow(reason="trains small models")
def test_best_and_final_are_what_the_rows_say(tmp_path: Path) -> None:
    spec = smoke("adam_wosm", "train.epochs=2")[0]
    result = carry_out(spec, tmp_path, data_of(spec), keep="best")
    rows = [line.split(",") for line in (tmp_path / spec.folder / "metrics.csv").read_text().splitlines()[1:]]
    metric = [float(row[1]) for row in rows]
    assert result.best == Evaluation(int(rows[metric.index(max(metric))][0]), max(metric))
    assert result.final == Evaluation(spec.steps, metric[-1])
    epsilons = [float(row[4]) for row in rows]
    assert epsilons[0] == 0
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] == result.epsilon_run
    training = Training(spec, data_of(spec), CPU)
    kept = torch.load(tmp_path / spec.folder / "best.pt", weights_only=True)
    training.model.module.load_state_dict(kept)
    training.evaluate(0.0)
    assert training.rows[-1]["accuracy"] == max(metric)


@pytest.mark.parametrize("dataset", ["mnist", "fashion_mnist", "ag_news"])
@pytest.mark.slow(reason="trains small models")
def test_a_kept_model_is_no_larger_than_its_parameters(dataset: str) -> None:
    spec = smoke("no_dp", f"dataset={dataset}")[0]
    training = Training(spec, data_of(spec), CPU)
    assert len(parameters_of(training)) < 4 * training.model.params.numel() + 20_000


def test_a_kept_model_has_the_checksums_that_a_checkpoint_does_without() -> None:
    spec = smoke("no_dp")[0]
    training = Training(spec, data_of(spec), CPU)
    payloads = checkpoint_of(training), parameters_of(training)
    damaged = [zipfile.ZipFile(io.BytesIO(payload)).testzip() for payload in payloads]
    assert damaged[0] is not None
    assert damaged[1] is None


@pytest.mark.parametrize(("first", "then", "lacking"), [("none", "best", False), ("none", "all", True)])
@pytest.mark.slow(reason="trains small models")
def test_models_wanted_of_a_run_that_was_half_done(first: str, then: str, lacking: bool, tmp_path: Path) -> None:
    spec = smoke("online")[0]
    dataset = data_of(spec)
    interrupted(spec, tmp_path, dataset, first)
    result = carry_out(spec, tmp_path, dataset, then)
    folder = RunFolder(tmp_path, spec)
    best_came_later = result.best.step > 4
    assert folder.lacks_models(then) is (lacking or not best_came_later)
    assert (folder.path / "best.pt").exists() is (then == "best" and best_came_later)


@pytest.mark.parametrize("keep", ["best", "all"])
@pytest.mark.slow(reason="trains small models")
def test_a_run_that_kept_its_models_from_the_start_lacks_none(keep: str, tmp_path: Path) -> None:
    spec = smoke("online", "train.epochs=0.35")[0]  # ends between two evaluations
    carry_out(spec, tmp_path, data_of(spec), keep)
    assert not RunFolder(tmp_path, spec).lacks_models(keep)
    assert RunFolder(tmp_path, spec).lacks_models("all" if keep == "best" else "best")


@pytest.mark.slow(reason="trains small models")
def test_a_model_that_is_the_best_no_more_is_not_kept_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept before a kill, then bettered by a session that keeps nothing."""
    spec = smoke("online")[0]
    dataset = data_of(spec)
    monkeypatch.setattr("dp_bench.training.checkpoint.best_row", lambda training: training.rows[-1])  # better each time
    interrupted(spec, tmp_path, dataset, "best")
    folder = RunFolder(tmp_path, spec)
    assert (folder.path / "best.pt").exists()
    carry_out(spec, tmp_path, dataset, "none")
    assert folder.lacks_models("best")


@pytest.mark.slow(reason="trains small models")
def test_a_result_names_the_checksum_of_its_metrics(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    dataset = data_of(spec)
    interrupted(spec, tmp_path, dataset)
    result = carry_out(spec, tmp_path, dataset)
    written = (tmp_path / spec.folder / "metrics.csv").read_bytes()
    assert result.metrics_sha256 == hashlib.sha256(written).hexdigest()


def test_a_protocol_that_lacks_a_key_is_told_from_one_in_which_it_is_null(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, smoke("online", "dataset.limit=null")[0])
    folder.write_spec()
    stored = read_checksummed(folder.path / "spec.json")
    del stored["protocol"]["dataset"]["limit"]
    write_checksummed(folder.path / "spec.json", {k: v for k, v in stored.items() if k != "sha256"})
    with pytest.raises(UserError, match=r"expected dataset\.limit = None, got nothing"):
        folder.check_spec()


@pytest.mark.slow(reason="trains small models")
def test_another_runs_result_is_not_believed(tmp_path: Path) -> None:
    spec, other = smoke("online")[0], smoke("online", "privacy.epsilon=9")[0]
    carry_out(spec, tmp_path, data_of(spec))
    folder = tmp_path / other.folder
    folder.mkdir(parents=True)
    (folder / "result.json").write_bytes((tmp_path / spec.folder / "result.json").read_bytes())
    with pytest.raises(UserError, match="a result of this protocol, got another protocol's"):
        RunFolder(tmp_path, other).result()


@pytest.mark.slow(reason="trains small models")
def test_an_unfinished_runs_checkpoint_is_its_owners_alone(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    assert interrupted(spec, tmp_path, data_of(spec)).stat().st_mode & 0o077 == 0


@pytest.mark.slow(reason="trains small models")
def test_the_training_loss_is_written_nowhere(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    carry_out(spec, tmp_path, data_of(spec), keep="all")
    for name, content in contents(tmp_path).items():
        assert b"loss" not in content, name


@pytest.mark.slow(reason="trains small models")
def test_queries_that_overspend_stop_the_run(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    training = Training(spec, data_of(spec), CPU)
    honest = training.strategy

    class Overspending(type(honest)):
        def queries(self, state):
            return tuple(q._replace(noise_multiplier=self.noise_multiplier) for q in super().queries(state))

    training.strategy = Overspending(**vars(honest))
    with pytest.raises(UserError, match=r"strategy=online: expected queries within .* got 1\.\d+ times as much"):
        training.advance()


@pytest.mark.slow(reason="trains small models")
def test_weights_that_depend_on_other_examples_stop_the_run() -> None:
    spec = smoke("online")[0]
    training = Training(spec, data_of(spec), CPU)
    honest = training.strategy

    class Averaging(type(honest)):
        def queries(self, state):
            return tuple(q._replace(weight=lambda n: (0.1 / n.mean()).expand(len(n))) for q in super().queries(state))

    training.strategy = Averaging(**vars(honest))
    with pytest.raises(UserError, match="got one that other examples change; try it with"):
        training.advance()


@pytest.mark.slow(reason="trains small models")
def test_another_protocol_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    carry_out(spec, tmp_path, data_of(spec))
    changed = replace(spec, allocation=replace(spec.allocation, noise_multiplier=9.0))
    with pytest.raises(UserError, match=r"expected allocation\.noise_multiplier = 9\.0, got 0\.96"):
        carry_out(changed, tmp_path, data_of(spec))


@pytest.mark.parametrize("name", ["result.json", "spec.json"])
@pytest.mark.slow(reason="trains small models")
def test_a_tampered_file_is_named(name: str, tmp_path: Path) -> None:
    spec = smoke("online")[0]
    carry_out(spec, tmp_path, data_of(spec))
    path = tmp_path / spec.folder / name
    content = json.loads(path.read_text())
    content["extra"] = 1
    for text in (json.dumps(content), "{", "[]", ""):
        path.write_text(text)
        with pytest.raises(UserError, match=name.replace(".", r"\.")):
            carry_out(spec, tmp_path, data_of(spec))


def test_a_run_names_its_commit_and_whether_anything_it_depends_on_was_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        return subprocess.run(["git", "-C", tmp_path, *who, *words], capture_output=True, text=True, check=True).stdout

    assert source_commit(tmp_path) is None, "an installed package"
    sources = ["dp_bench/x.py", "conf/x.yaml", "hydra_plugins/x.py", "pyproject.toml", "constraints.txt"]
    for name in (*sources, "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    assert source_commit(tmp_path) is None, "no repository"
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD").strip()
    (tmp_path / "README.md").write_text("2")
    assert source_commit(tmp_path) == commit
    for name in (*sources, "conf/new.yaml"):
        (tmp_path / name).write_text("2")
        assert source_commit(tmp_path) == commit + "+", name
        (tmp_path / name).write_text("1")
    (tmp_path / "conf/new.yaml").unlink()
    assert source_commit(tmp_path) == commit


@pytest.mark.slow(reason="kills and restarts runs")
def test_a_key_does_not_outlive_a_run_that_was_killed_at_its_very_end(tmp_path: Path) -> None:
    """Between the result and the removal of the checkpoint, which holds the key."""
    arguments = ["run", "profile=smoke", "dataset=ag_news", *POINT["online"], "seeds=[0]", "seed=secure"]
    arguments += [f"runs={tmp_path}"]

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name == "checkpoint.pt":
            os.kill(os.getpid(), signal.SIGKILL)

    def killed() -> None:
        with mock.patch.object(Path, "unlink", unlink):
            cli.main(arguments)

    assert in_a_child(killed) == -signal.SIGKILL
    (checkpoint,) = tmp_path.rglob("checkpoint.pt")
    assert (checkpoint.parent / "result.json").exists()
    assert cli.main(arguments) == 0
    assert not checkpoint.exists()


@pytest.mark.slow(reason="trains small models")
def test_the_command_reads_the_result_of_a_finished_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["run", "profile=smoke", "dataset=ag_news", *POINT["online"], "seeds=[0,1]", f"runs={tmp_path}"]
    assert cli.main(arguments) == 0
    read: list[str] = []
    real = dp_bench.experiment.store.read_checksummed
    monkeypatch.setattr(
        dp_bench.experiment.store, "read_checksummed", lambda path: read.append(path.name) or real(path)
    )
    assert cli.main(arguments) == 0
    assert read.count("result.json") == 2  # of two seeds


@pytest.mark.slow(reason="trains small models")
def test_a_refused_resumption_changes_nothing(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    with mock.patch.object(Training, "advance", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        carry_out(spec, tmp_path, data_of(spec))
    before = contents(tmp_path)
    other = replace(spec, machine=replace(spec.machine, threads=2))
    with pytest.raises(UserError, match="threads"):
        carry_out(other, tmp_path, data_of(spec))
    assert contents(tmp_path) == before


@pytest.mark.slow(reason="trains small models")
def test_a_run_that_breaks_between_evaluations_ends_with_a_row_that_shows_it(tmp_path: Path) -> None:
    spec = smoke("fixed_threshold", "grid.also.lr=[1e38]", "strategy.lr=1e38", "strategy.clip=100")[0]
    result = carry_out(spec, tmp_path, data_of(spec))
    assert result.status == "diverged"
    assert result.final.step > 0
    assert result.steps_charged == spec.steps


@pytest.mark.slow(reason="trains small models")
def test_a_protocol_with_a_long_name_has_a_folder() -> None:
    values = ",".join(f"{0.001 * i:.3f}" for i in range(1, 90))
    spec, other = (smoke("online", f"grid.also.lr=[{values},{end}]")[0] for end in ("0.9", "0.95"))
    assert len(spec.variant.encode()) < 255
    assert spec.variant != other.variant


def other_data(spec: RunSpec, **changed: object) -> RunSpec:
    return replace(spec, source=replace(spec.source, **changed))


@pytest.mark.slow(reason="trains small models")
def test_noise_and_batches_are_keyed_by_the_data_too() -> None:
    """Two training sets under one name must not share noise: their releases' difference would have none."""
    spec = smoke("online")[0]
    dataset = data_of(spec)
    drawn = {}
    for name, other in {
        "this": spec,
        "again": spec,
        "another file": other_data(spec, checksums={"train.csv": "0" * 64}),
        "other rows": other_data(spec, train_rows=spec.source.train_rows - 1),
    }.items():
        assert other.folder == spec.folder
        training = Training(other, dataset, torch.device("cpu"))
        drawn[name] = [s.uniform(8, torch.float64).tolist() for s in (training.noise, training.batches)]
    assert drawn["this"] == drawn["again"]
    for name in ("another file", "other rows"):
        assert all(not set(ours) & set(theirs) for ours, theirs in zip(drawn["this"], drawn[name], strict=True)), name


def test_noise_does_not_depend_on_where_the_data_lie_or_on_new_keys_of_the_spec() -> None:
    spec = smoke("online")[0]
    assert noise_key(other_data(spec, where="elsewhere", caveats=("a caveat",))) == noise_key(spec)
    assert noise_key(replace(spec, machine=replace(spec.machine, threads=2))) == noise_key(spec)


@pytest.mark.slow(reason="trains small models")
def test_a_finished_run_is_not_written_again(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    dataset = data_of(spec)
    carry_out(spec, tmp_path, dataset)
    result = tmp_path / spec.folder / "result.json"
    before = result.stat()
    carry_out(spec, tmp_path, dataset)
    assert (result.stat().st_ino, result.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    "change",
    [{"noise_multiplier": 0.3}, {"epsilon_run": 0.1}, {"epsilon_grid": 0.1}],
    ids=lambda change: next(iter(change)),
)
def test_a_run_refuses_an_allocation_that_spends_more_than_it_says(change: dict[str, float], tmp_path: Path) -> None:
    """Else result.json would say 3.0 while metrics.csv ends in the thousands; and nothing may have been written."""
    spec = smoke("online")[0]
    assert spec.allocation is not None
    spec = replace(spec, allocation=replace(spec.allocation, **change))
    with pytest.raises(UserError, match="noise multiplier: expected one that spends") as error:
        carry_out(spec, tmp_path / "runs", data_of(spec))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow(reason="trains small models")
def test_what_a_result_says_is_where_its_curve_ends(tmp_path: Path) -> None:
    spec = smoke("online")[0]
    result = carry_out(spec, tmp_path, data_of(spec))
    last = (tmp_path / spec.folder / "metrics.csv").read_text().splitlines()[-1].split(",")
    assert float(last[-1]) == result.epsilon_run < result.epsilon_grid <= 3


@pytest.mark.parametrize("seeding", ["named", "secure"])
def test_a_damaged_checkpoint_says_what_starting_over_costs(seeding: str, tmp_path: Path) -> None:
    spec = smoke("online", f"seed={seeding}")[0]
    folder = RunFolder(tmp_path, spec)
    folder.path.mkdir(parents=True)
    (folder.path / "checkpoint.pt").write_bytes(b"damaged")
    with pytest.raises(UserError, match="delete it to start over") as error:
        folder.checkpoint()
    assert ("spends the budget again" in str(error.value)) == (seeding == "secure")

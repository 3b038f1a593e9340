"""A run is one type: what is stored of it gives it back, also what older versions stored."""

import dataclasses
import hashlib
import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import small_store, synthetic_spec, write_run

import dp_bench
from dp_bench.data import Source
from dp_bench.errors import UserError
from dp_bench.experiment.archive import read_archive, walk
from dp_bench.experiment.config import AlsoConfig, DatasetConfig, GridConfig, ModelConfig, PrivacyConfig, TrainConfig
from dp_bench.experiment.folder_names import LEVELS, part
from dp_bench.experiment.record import Provenance, Stored, record_of
from dp_bench.experiment.spec import Machine, RunSpec, digest_of
from dp_bench.experiment.store import RunFolder, read_stored
from dp_bench.files.checksummed import write_checksummed
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.allocation import Allocation, Budget
from dp_bench.tasks import TASKS

PACKAGE = Path(dp_bench.__file__).parent
REFERENCE = PACKAGE.parent / "reports" / "reference" / "runs"

COUNTS = st.integers(1, 10**6)
POSITIVE = st.one_of(COUNTS, st.floats(1e-9, 1e9))
VALUES = st.lists(POSITIVE, max_size=3)
POINTS = {"online": ("lr",), "fixed_threshold": ("lr", "clip"), "no_dp": ("lr",)}


@st.composite
def run_specs(draw: Callable[[Any], Any]) -> RunSpec:
    """Of any content that the types allow, sensible or not."""
    strategy = draw(st.sampled_from(sorted(POINTS)))
    budget = Budget(draw(st.floats(0.01, 100)), draw(st.floats(1e-9, 0.1)), draw(st.sampled_from(["rdp", "rdp_wor"])))
    private = strategy != "no_dp"
    sampling = Sampling(512, draw(st.integers(512, 10**6)))
    allocation = Allocation(budget, sampling, draw(COUNTS), draw(COUNTS), *(draw(POSITIVE) for _ in range(3)))
    return RunSpec(
        profile=draw(st.sampled_from(["paper", "smoke"])),
        variant=draw(st.text(st.characters(codec="utf-8"), min_size=1)),
        dataset=DatasetConfig("mnist", draw(COUNTS), draw(st.none() | COUNTS), draw(st.none() | COUNTS)),
        model=ModelConfig(draw(st.booleans()), draw(COUNTS)),
        strategy=strategy,
        hyperparameters={**{name: draw(POSITIVE) for name in POINTS[strategy]}, "update_rule": draw(st.text())},
        grid=GridConfig(
            k=draw(COUNTS),
            lr=draw(VALUES),
            also=AlsoConfig(clip=draw(VALUES)),
            axes=draw(st.dictionaries(st.text(), VALUES, max_size=2)),
            times=draw(COUNTS),
        ),
        privacy=PrivacyConfig(budget.epsilon, budget.delta, budget.accountant) if private else None,
        train=TrainConfig(draw(COUNTS), draw(POSITIVE), draw(COUNTS)),
        source=Source(
            draw(st.sampled_from(["complete", "subset", "stand-in"])),
            "",
            tuple(draw(st.lists(st.text(), max_size=2))),
            draw(st.dictionaries(st.text(), st.text(), max_size=2)),
            draw(COUNTS),
            draw(COUNTS),
        ),
        allocation=allocation if private else None,
        steps=draw(COUNTS),
        seed=draw(COUNTS),
        seeding=draw(st.sampled_from(["named", "secure"])),
        machine=Machine("cpu", draw(COUNTS), draw(COUNTS)),
    )


@given(run_specs())
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_a_spec_is_what_its_json_says(spec: RunSpec) -> None:
    stored = spec.to_json()
    again = RunSpec.from_json(stored)
    assert again == spec
    assert again.to_json() == stored
    assert again.digest() == spec.digest() == digest_of(stored["protocol"])
    assert again.folder == spec.folder


def test_what_a_result_does_not_mean_is_not_stored() -> None:
    spec = synthetic_spec(lr=0.3162)
    there = dataclasses.replace(spec, source=dataclasses.replace(spec.source, where="elsewhere"))
    assert RunSpec.from_json(there.to_json()) == RunSpec.from_json(spec.to_json())


def test_a_spec_from_before_a_key_takes_its_default() -> None:
    stored = synthetic_spec(lr=0.3162).to_json()
    assert not {"emulate_size", "stand_in"} & stored["protocol"]["dataset"].keys()
    assert RunSpec.from_json(stored).dataset.emulate_size is None
    del stored["protocol"]["grid"]["times"], stored["protocol"]["model"]["output_activation"]
    again = RunSpec.from_json(stored)
    assert (again.grid.times, again.model.output_activation) == (1, False)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: p.pop("steps"), "steps: missing"),
        (lambda p: p.update(tomorrow=1), "tomorrow: unknown to this version"),
        (lambda p: p["train"].update(batch_size="512"), "train.batch_size: expected int, got '512'"),
        (lambda p: p["train"].update(batch_size=True), "train.batch_size: expected int, got True"),
        (lambda p: p["train"].update(epochs=None), "train.epochs: expected float, got None"),
        (lambda p: p["grid"].update(lr=[1, "2"]), "grid.lr: expected float, got '2'"),
        (lambda p: p.update(dataset=[]), "dataset: expected DatasetConfig, got []"),
        (lambda p: p["source"].update(kind="other"), "source.kind: expected Literal, got 'other'"),
    ],
)
def test_a_spec_of_another_shape_is_refused(change: Callable[[dict[str, Any]], object], reason: str) -> None:
    stored = synthetic_spec(lr=0.3162).to_json()
    change(stored["protocol"])
    with pytest.raises(ValueError, match=re.escape(reason)):
        RunSpec.from_json(stored)


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="no reference runs are kept in this tree")
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_every_reference_run_is_what_it_says() -> None:
    tree = walk(REFERENCE, "verify")
    found = [stored for name in tree.archives for stored in read_archive(REFERENCE, name)]
    assert len(found) >= 503
    assert not tree.folders
    for stored in found:
        assert isinstance(stored, Stored)
        record = record_of(stored)
        assert record.spec.to_json() == stored.spec
        assert record.result is not None
        assert record.spec.digest() == record.result.digest
        assert record.columns()["step"][-1] == record.result.final.step


def test_the_repository_keeps_few_reports() -> None:
    """One file per data set and variant, the page and its main tables: what can be generated again is not kept."""
    git = ["git", "-C", str(PACKAGE.parent), "ls-files", "reports"]
    try:
        listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a Git repository")
    assert 0 < len(listed) < 150


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_a_record_is_what_was_written(tmp_path: Path) -> None:
    root = small_store(tmp_path)
    spec = synthetic_spec("mnist", "online", 5, 3.0, 1, lr=0.3162)
    record = record_of(read_stored(root, str(spec.folder)))
    assert record.spec == dataclasses.replace(spec, source=dataclasses.replace(spec.source, where=""))
    assert record.result is not None
    assert (record.result.best.step, record.result.best.value, record.result.final.value) == (586, 0.9170, 0.907)
    assert (record.status, record.folder) == ("finished", str(spec.folder))
    assert (record.provenance.host, record.provenance.arithmetic) == ("synthetic", 10)


@pytest.mark.parametrize("odd", [None, 3, [], {}, {"machine": 3, "source": "x", "seconds_of_last_session": "never"}])
def test_provenance_may_be_of_any_shape(odd: object) -> None:
    found = Provenance.from_json(odd)
    assert (found.commit, found.host, found.where, found.finished, found.arithmetic) == ("unknown",) * 2 + ("", "", 9)
    assert math.isnan(found.seconds)


def files_with(pattern: str) -> set[str]:
    return {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if re.search(pattern, path.read_text())}


@pytest.mark.parametrize(
    ("names", "known_to"),
    [
        (r"spec\.json|result\.json|metrics\.csv|provenance\.json|checkpoint\.pt|\.lock|rung.*\.json", "store"),
        (r"selection\.json", "store"),
        (r"trade_off\.csv|trade_off\.json", "trade_off_store"),
        (r"\w*\.jsonl", "archive"),
    ],
)
def test_only_the_store_knows_the_names_of_files(names: str, known_to: str) -> None:
    assert files_with(rf"""["'/](?:{names})["']""") == {f"experiment/{known_to}.py"}


def test_each_other_name_in_a_store_is_known_to_one_file() -> None:
    assert files_with(r"""["'/]audit\.json["']""") == {"testing/results.py"}
    assert files_with(r"""[/,] "trade_off"[,)/ ]""") == {"experiment/trade_off_store.py", "cli.py"}  # a command


def test_only_what_names_folders_and_variants_takes_their_names_apart() -> None:
    rooms = r"^(experiment|training|testing|sweep|report)/"
    folders = files_with(r"""split\("/"|removeprefix\("(k|eps|seed)"\)|parts\[-?\d""")
    assert {name for name in folders if re.match(rooms, name)} == {"experiment/folder_names.py"}
    assert files_with(r"""variant\w*\.(split|replace)\(""") == {"experiment/folder_names.py"}


def test_a_folder_has_the_parts_that_are_told_apart() -> None:
    spec = synthetic_spec(lr=0.3162)
    assert len(spec.folder.parts) == len(LEVELS)
    assert [part(str(spec.folder), level) for level in LEVELS] == list(spec.folder.parts)
    assert part("paper/default", "dataset") == ""


# The steps that were taken are those that were charged


def stored_run(root: Path, **changes: Any) -> tuple[Path, Stored]:
    spec = synthetic_spec(lr=0.3162)
    folder = write_run(root, spec, [0.1, 0.5, 0.9], **changes)
    return folder, read_stored(root, str(spec.folder))


@pytest.mark.parametrize("steps", [586, 2344])
def test_a_run_of_other_steps_than_its_spec_is_not_believed(tmp_path: Path, steps: int) -> None:
    _, stored = stored_run(tmp_path)
    record_of(stored)
    assert stored.result is not None
    protocol = {**stored.spec["protocol"], "steps": steps}
    result = {**stored.result, "digest": digest_of(protocol), "steps_charged": steps}
    forged = dataclasses.replace(stored, spec={**stored.spec, "protocol": protocol}, result=result)
    with pytest.raises(UserError, match=f"evaluations up to step {steps}, as its spec says, got 1172"):
        record_of(forged)
    with pytest.raises(UserError, match="steps_charged: expected the"):
        record_of(dataclasses.replace(forged, result={**result, "steps_charged": 1}))


def test_an_unfinished_run_must_not_have_taken_more_steps_than_its_spec(tmp_path: Path) -> None:
    _, stored = stored_run(tmp_path)
    protocol = {**stored.spec["protocol"], "steps": 586}
    forged = dataclasses.replace(stored, spec={**stored.spec, "protocol": protocol}, result=None)
    with pytest.raises(UserError, match="evaluations up to step 586"):
        record_of(forged)
    record_of(dataclasses.replace(stored, result=None))


def test_only_a_run_that_diverged_may_end_early(tmp_path: Path) -> None:
    _, stored = stored_run(tmp_path)
    assert stored.result is not None
    assert stored.metrics is not None
    metrics = "".join(line + "\n" for line in stored.metrics.splitlines()[:-1])
    checksum = hashlib.sha256(metrics.encode()).hexdigest()
    result = {**stored.result, "metrics_sha256": checksum, "final": {**stored.result["final"], "step": 586}}
    with pytest.raises(UserError, match="evaluations up to step 1172"):
        record_of(dataclasses.replace(stored, result=result, metrics=metrics))
    record_of(dataclasses.replace(stored, result={**result, "status": "diverged"}, metrics=metrics))
    with pytest.raises(UserError, match="metrics: expected the last step of its result"):
        record_of(dataclasses.replace(stored, result={**stored.result, "metrics_sha256": checksum}, metrics=metrics))


def test_a_run_without_noise_that_diverged_is_read(tmp_path: Path) -> None:
    """It charges no steps, whatever it took."""
    spec = synthetic_spec(strategy="no_dp", lr=31.62)
    write_run(tmp_path, spec, [0.3, 0.2], diverged="the metric is worse than at step 0")
    record = record_of(read_stored(tmp_path, str(spec.folder)))
    assert record.result is not None
    assert (record.result.status, record.result.steps_charged) == ("diverged", 0)


def test_run_refuses_a_finished_run_whose_metrics_end_elsewhere(tmp_path: Path) -> None:
    folder, _ = stored_run(tmp_path)
    run = RunFolder(tmp_path, synthetic_spec(lr=0.3162))
    assert run.result() is not None
    lines = (folder / "metrics.csv").read_text().splitlines()
    (folder / "metrics.csv").write_text("\n".join([*lines, lines[-1].replace("1172", "2344", 1)]) + "\n")
    with pytest.raises(UserError, match="metrics: expected what fits the checksum in its result, got something else"):
        run.result()
    result = json.loads((folder / "result.json").read_text())
    metrics = hashlib.sha256((folder / "metrics.csv").read_bytes()).hexdigest()
    forged = {name: value for name, value in result.items() if name != "sha256"} | {"metrics_sha256": metrics}
    write_checksummed(folder / "result.json", forged)
    with pytest.raises(UserError, match=r"metrics: expected the last step of its result, got 1172 and 2344"):
        run.result()


def test_runs_from_before_checksums_of_code_stay_valid(tmp_path: Path) -> None:
    before = synthetic_spec(lr=0.3162)
    now, changed = (dataclasses.replace(before, strategy_code=letter * 64) for letter in "ab")
    assert now.digest() == before.digest()
    assert RunSpec.from_json(now.to_json()).code() == {"strategy_code": "a" * 64}
    for stored, asked in ((before, now), (now, now), (now, before)):
        folder = RunFolder(tmp_path, stored)
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write_spec()
        RunFolder(tmp_path, asked).check_spec()
    with pytest.raises(UserError, match="expected strategy_code = bbb"):
        RunFolder(tmp_path, changed).check_spec()


@pytest.mark.parametrize(
    ("dataset", "declared", "value", "allowed"),
    [
        ("mnist", (-math.inf, math.inf), -3.5, "any finite number, as of a log-likelihood"),
        ("mnist", (-math.inf, math.inf), math.inf, None),
        ("mnist", (0, 1), -3.5, None),
        ("fashion_mnist", (0, 1), 1.5, None),
    ],
)
def test_a_metric_is_in_the_range_that_its_task_declares(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dataset: str,
    declared: tuple[float, float],
    value: float,
    allowed: str | None,
) -> None:
    if dataset == "mnist":
        monkeypatch.setattr(type(TASKS["mnist"]), "metric_range", declared)
    spec = synthetic_spec(dataset, epsilon=3.0, lr=0.3162)
    write_run(tmp_path, spec, [0.1, 0.5])
    stored = read_stored(tmp_path, str(spec.folder))
    assert stored.result is not None
    assert TASKS[dataset].metric_range == declared
    result = {**stored.result, "best": {"step": 0, "value": value}}
    if allowed:
        record_of(dataclasses.replace(stored, result=result))
    else:
        low, high = declared
        with pytest.raises(UserError, match=f"expected a number from {low:g} to {high:g}, got {value}"):
            record_of(dataclasses.replace(stored, result=result))

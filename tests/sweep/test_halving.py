"""Halving: which candidates continue, that no others do, and the same store whatever is killed."""

import contextlib
import os
import random
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from running import a_result, contents, smoke

import dp_bench.sweep.launch
import dp_bench.training.run
from dp_bench.cli import main
from dp_bench.errors import DamagedFile
from dp_bench.experiment.halving import HalvedGrid
from dp_bench.experiment.record import Evaluation, RunResult
from dp_bench.experiment.rerun_command import command
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.privacy.allocators import Rung
from dp_bench.report.load.collect import collect
from dp_bench.training.trainer import Training

pytestmark = pytest.mark.usefixtures("without_data")

HALVING = ["privacy.allocator=halving", "grid.k=3", "privacy.epsilon=3", "train.evaluate_every=2"]
SWEEP = ["profile=smoke", "dataset=ag_news", "strategy=fixed_threshold", *HALVING, "seeds=[0]", "train.epochs=0.9"]


def sweep(root: Path, *more: str) -> int:
    return main(["run", "-m", *SWEEP, f"runs={root}", "hydra/launcher=basic", *more])


def a_run(*overrides: str) -> RunSpec:
    # lr and clip of the middle of a grid of three
    return smoke("fixed_threshold", *HALVING, "strategy.lr=0.316", "strategy.clip=1", *overrides)[0]


def at(value: float, status: str = "stopped") -> RunResult:
    """As of the end of the first rung."""
    return a_result(a_run(), status, value, step=2)


@pytest.fixture
def grid(tmp_path: Path) -> HalvedGrid:
    return HalvedGrid(tmp_path, a_run())


def fill(grid: HalvedGrid, rung: int, values: dict[str, float | tuple[float, str]]) -> None:
    for name, value in values.items():
        for folder in grid.folders[name]:
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.write_rung(rung, at(*value) if isinstance(value, tuple) else at(value))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DP_BENCH_DATA", raising=False)
        root = tmp_path_factory.mktemp("undisturbed")
        assert sweep(root) == 0
        yield root


@pytest.mark.slow(reason="trains small models in a sweep")
def test_the_best_third_continues(grid: HalvedGrid) -> None:
    assert grid.rungs == (Rung(9, 2), Rung(3, 6))
    names = list(grid.folders)
    fill(grid, 0, {name: place / 10 for place, name in enumerate(names)})
    assert grid.members(1) == [names[8], names[7], names[6]]
    assert [grid.next_rung(name) for name in names] == [None] * 6 + [1] * 3


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_rung_waits_for_the_one_below(grid: HalvedGrid) -> None:
    names = list(grid.folders)
    fill(grid, 0, dict.fromkeys(names[:8], 0.5))
    folder = grid.folders[names[8]][0]  # one seed of two
    folder.path.mkdir(parents=True)
    folder.write_rung(0, at(0.9))
    assert grid.members(1) is None
    assert [grid.next_rung(name) for name in names] == [None] * 8 + [0]
    grid.finish_dropped()
    assert not any(folder.done for folders in grid.folders.values() for folder in folders)


@pytest.mark.slow(reason="trains small models in a sweep")
def test_diverged_candidates_come_last_and_ties_go_by_the_grid(grid: HalvedGrid) -> None:
    names = list(grid.folders)
    fill(grid, 0, {**dict.fromkeys(names, 0.5), names[0]: (0.9, "diverged"), names[5]: 0.6})
    assert grid.members(1) == [names[5], names[1], names[2]]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_candidate_without_a_value_is_the_very_last(grid: HalvedGrid) -> None:
    names = list(grid.folders)
    fill(grid, 0, dict.fromkeys(names, (0.1, "diverged")))
    for folder in grid.folders[names[0]]:
        folder.write_rung(0, replace(at(0.0, "diverged"), best=Evaluation(0, None)))
    assert grid.members(1) == names[1:4]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_dropped_runs_are_finished_where_they_stopped(grid: HalvedGrid) -> None:
    names = list(grid.folders)
    fill(grid, 0, {name: place / 10 for place, name in enumerate(names)})
    for folders in grid.folders.values():
        for folder in folders:
            folder.write_checkpoint(b"state")
    grid.finish_dropped()
    grid.finish_dropped()  # again is the same
    for place, name in enumerate(names):
        for folder in grid.folders[name]:
            continues = place >= 6
            assert folder.done is not continues
            assert (folder.checkpoint() is not None) is continues
    assert grid.folders[names[0]][0].result() == grid.folders[names[0]][0].rung(0)


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_sweep_trains_what_its_budget_paid_for(undisturbed: Path, tmp_path: Path, monkeypatch) -> None:
    steps = []
    advance = Training.advance
    monkeypatch.setattr(Training, "advance", lambda self: (steps.append(self.spec.point), advance(self))[1])
    assert sweep(tmp_path) == 0
    runs = collect(tmp_path, "smoke").runs
    allocation = runs[0].spec.allocation
    assert allocation is not None
    assert len(steps) <= allocation.compositions  # runs that diverge end early
    by_point = {run.spec.point: run.result for run in runs}
    assert len(by_point) == 9
    for point, result in by_point.items():
        assert result is not None
        assert steps.count(point) == result.final.step <= result.steps_charged
        assert result.steps_charged in (6, 18)
        if result.status == "stopped":
            assert result.reason == "stopped at rung 1 of 2, step 6 of 18"
    assert sum(result.steps_charged == 18 for result in by_point.values() if result) == 3
    assert not list(tmp_path.rglob("checkpoint.pt"))
    assert contents(tmp_path) == contents(undisturbed)
    assert (len(steps), sweep(tmp_path)) == (len(steps), 0)  # nothing is done twice


@pytest.mark.slow(reason="trains small models in a sweep")
def test_no_rung_starts_before_the_one_below_is_complete(tmp_path: Path, monkeypatch) -> None:
    order = []
    train = dp_bench.training.run._train

    def watched(spec, folder, *arguments):
        order.append(arguments[-1])
        return train(spec, folder, *arguments)

    monkeypatch.setattr(dp_bench.training.run, "_train", watched)
    assert sweep(tmp_path, "strategy=fixed_threshold,online") == 0
    # Online has 3 candidates, of which all go to the end: they are trained with the lowest rung of the other grid.
    assert sorted(order[:12]) == [6] * 9 + [18] * 3
    assert order[12:] == [18] * 3


def started(root: Path) -> int:
    """A sweep in a process of its own."""
    child = os.fork()
    if child == 0:
        os._exit(sweep(root))
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def written(root: Path) -> frozenset[tuple[Path, int]]:
    """What there is, and when it was written."""
    found = set()
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found.add((path, path.stat().st_mtime_ns))
    return frozenset(found)


@pytest.mark.slow(reason="starts a sweep eleven times")
def test_killed_ten_times_the_store_is_the_same(undisturbed: Path, tmp_path: Path) -> None:
    dice = random.Random(5)
    for _ in range(10):
        child, seen, changes = started(tmp_path), written(tmp_path), dice.randint(1, 25)
        while changes > 0 and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            now = written(tmp_path)
            changes, seen = changes - len(now - seen), now
            time.sleep(dice.uniform(0, 0.005))
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL
    assert ended(started(tmp_path)) == 0
    assert contents(tmp_path) == contents(undisturbed)


@pytest.mark.slow(reason="two sweeps in processes of their own")
def test_two_concurrent_sweeps_make_one_store(undisturbed: Path, tmp_path: Path) -> None:
    both = [started(tmp_path) for _ in range(2)]
    assert [ended(child) for child in both] == [0, 0]
    assert contents(tmp_path) == contents(undisturbed)


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_failed_candidate_stops_its_grid(tmp_path: Path, monkeypatch, capsys) -> None:
    train = dp_bench.training.run._train

    def fail(spec, *arguments):
        if spec.point == "lr=0.3162,clip=1":
            raise MemoryError("no memory")
        return train(spec, *arguments)

    monkeypatch.setattr(dp_bench.training.run, "_train", fail)
    assert sweep(tmp_path) == 1
    assert "1 of 9 configurations failed" in capsys.readouterr().err
    assert not list(tmp_path.rglob("result.json"))
    monkeypatch.setattr(dp_bench.training.run, "_train", train)
    assert sweep(tmp_path) == 0


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_finished_grid_is_finished_without_its_rungs_files(undisturbed: Path, tmp_path: Path, monkeypatch) -> None:
    """A store that was made from an archive has results and no rungs."""
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    for file in tmp_path.rglob("rung*.json"):
        file.unlink()
    monkeypatch.setattr(dp_bench.training.run, "_train", None)
    assert sweep(tmp_path) == 0


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_half_done_grid_from_an_archive_resumes(undisturbed: Path, tmp_path: Path) -> None:
    """It has the results of the dropped, no rungs, and nothing of the others."""
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    for run in collect(tmp_path, "smoke").runs:
        if run.status != "stopped":
            shutil.rmtree(tmp_path / run.folder)
    for file in tmp_path.rglob("rung*.json"):
        file.unlink()
    assert sweep(tmp_path) == 0

    def results(root: Path) -> dict[str, bytes]:
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("result.json")}

    assert results(tmp_path) == results(undisturbed)


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_grid_that_cannot_go_on_fails(undisturbed: Path, tmp_path: Path, capsys) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    first, second, *_ = (run for run in collect(tmp_path, "smoke").runs if run.status == "finished")
    (tmp_path / first.folder / "rung0.json").unlink()
    (tmp_path / second.folder / "result.json").unlink()
    assert sweep(tmp_path) == 1
    assert "got runs without their rung*.json; put these files back" in capsys.readouterr().err


def test_a_secret_rung_is_never_trained_again(tmp_path: Path) -> None:
    """It was released when candidates were ranked by it: other noise for it would be a second release."""
    spec = a_run("seed=secure")
    folder = RunFolder(tmp_path, spec)
    folder.path.mkdir(parents=True)
    folder.write_rung(0, a_result(spec, "stopped", 0.5, step=2))
    with pytest.raises(DamagedFile, match="got none: starting over spends the budget again"):
        dp_bench.training.run.run(spec, tmp_path, None, lambda step, row: None, rung=1)


def test_its_command_is_that_of_the_whole_grid() -> None:
    words = shlex.split(command("run", a_run(), [0]))
    assert words[:3] == ["dp-bench", "run", "-m"]
    assert not any(word.startswith(("strategy.lr=", "strategy.clip=")) for word in words)
    assert words[-1] == f"seeds={list(a_run().ranked_seeds)}".replace(" ", "")


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_dropped_candidate_is_never_trained_further(undisturbed: Path, tmp_path: Path, monkeypatch) -> None:
    """Not by its own command either."""
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    dropped = next(run for run in collect(tmp_path, "smoke").runs if run.status == "stopped")
    point = [f"strategy.{name}={value!r}" for name, value in dropped.spec.swept.items()]
    monkeypatch.setattr(dp_bench.training.run, "_train", None)
    alone = ["run", *SWEEP, *point, f"runs={tmp_path}"]
    assert main(alone) == 0
    for file in (tmp_path / dropped.folder).glob("result.json"):
        file.unlink()
    assert main(alone) == 0  # it waits for its grid to finish it
    assert sweep(tmp_path) == 0
    assert contents(tmp_path) == contents(undisturbed)


MISTAKES = {
    "a part of the grid": (["strategy.lr=0.316"], "privacy.allocator: expected all 9 points"),
    "another key swept": (["strategy.momentum=0,0.9"], "privacy.allocator: expected composition where other keys"),
    "an accountant without a proof": (["privacy.accountant=rdp_wor"], "privacy.accountant: expected one that proves"),
    "an allocator that is none": (["privacy.allocator=halfing"], "did you mean `halving`?"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.slow(reason="trains small models in a sweep")
def test_what_cannot_be_halved_is_refused(mistake: str, tmp_path: Path, capsys) -> None:
    more, told = MISTAKES[mistake]
    assert sweep(tmp_path / "runs", *more) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow(reason="trains small models in a sweep")
def test_other_seeds_are_another_search(undisturbed: Path, tmp_path: Path, capsys) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    assert sweep(tmp_path, "seeds=[0,1]") == 2
    assert "this grid was begun with other seeds" in capsys.readouterr().err


@pytest.mark.slow(reason="trains small models in a sweep")
def test_the_plan_tells_the_schedule(capsys, tmp_path: Path) -> None:
    assert main(["plan", *SWEEP, f"runs={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert "halving trains 9 to step 6, 3 to step 18: 90 steps, 5.0 runs' worth instead of 9" in printed
    assert "the test set, which is public" in printed


@pytest.mark.slow(reason="trains small models in a sweep")
def test_composition_is_as_it_was() -> None:
    """Neither name nor protocol tells of a choice at its default."""
    default, chosen = (smoke("online", *more)[0] for more in ([], ["privacy.allocator=composition"]))
    assert default.digest() == chosen.digest()
    assert default.folder == chosen.folder
    plain = default.protocol()
    assert "allocator" not in plain["privacy"]
    assert not {"rungs", "trials"} & plain["allocation"].keys()
    assert "ranked_seeds" not in plain
    assert "privacy.allocator=halving" in a_run().variant
    assert RunSpec.from_json(a_run().to_json()).allocation == a_run().allocation
    assert RunFolder(Path("x"), a_run()).rungs_reached() == 0

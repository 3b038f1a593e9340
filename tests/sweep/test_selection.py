"""Selection: one winner in the store, and nothing that tells how many trials there were."""

import functools
import os
import random
import re
import secrets
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import dp_accounting as dpa
import pytest
from running import a_result, contents, smoke

import dp_bench.sweep.selection
import dp_bench.training.run
from dp_bench.cli import main
from dp_bench.experiment.archive import archive
from dp_bench.experiment.record import Evaluation
from dp_bench.experiment.selected import SelectedGrid, Trial
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RELEASED_NOTHING, RunFolder
from dp_bench.files import system
from dp_bench.privacy.accountants import RDP_ORDERS
from dp_bench.privacy.selection import Trials
from dp_bench.report.load.collect import collect
from dp_bench.report.tables.store_totals import total_table
from dp_bench.sweep.selection import Tried, best_of

pytestmark = pytest.mark.usefixtures("without_data")

SELECTION = ["privacy.allocator=selection", "seed=secure", "seeds=[0]", "grid.k=3"]
SWEEP = [
    *("profile=smoke", "dataset=ag_news", "strategy=fixed_threshold", *SELECTION, "privacy.epsilon=3"),
    *("train.evaluate_every=2", "train.epochs=0.5"),
]
KEY = "00" * 32


def sweep(root: Path, *more: str) -> int:
    return main(["run", "-m", *SWEEP, f"runs={root}", "hydra/launcher=basic", *more])


@functools.cache
def a_run(*overrides: str) -> RunSpec:
    return smoke("fixed_threshold", *SELECTION, "strategy.lr=0.316", "strategy.clip=1", *overrides)[0]


@pytest.fixture
def draws(monkeypatch) -> Callable[[int], None]:
    """Fixes the number of trials."""
    return lambda number: monkeypatch.setattr(Trials, "draw", lambda trials: number)


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """The points of the trials, in their order."""
    points: list[str] = []
    train = dp_bench.training.run._train
    monkeypatch.setattr(
        dp_bench.training.run, "_train", lambda spec, *rest: (points.append(spec.point), train(spec, *rest))[1]
    )
    return points


@pytest.mark.slow(reason="trains small models in a sweep")
def test_one_winner_is_kept_and_read(tmp_path: Path, draws, trained: list[str], capsys) -> None:
    draws(5)
    assert sweep(tmp_path) == 0
    assert len(trained) == 5
    (run,) = collect(tmp_path, "smoke").runs
    assert run.spec.point in trained
    assert run.spec.allocation is not None
    assert run.spec.allocation.trials == Trials("logarithmic", 9)
    assert run.spec.allocation.allocator == "selection"
    assert run.result is not None
    assert run.result.epsilon_grid == pytest.approx(run.spec.allocation.epsilon_grid)
    before = contents(tmp_path)
    capsys.readouterr()
    # As if it had been killed just after the release: the folders above it say when that was.
    above = [tmp_path / parent for parent in PurePosixPath(run.folder).parents]
    for folder in above:
        os.utime(folder)
    assert sweep(tmp_path) == 0  # a finished search is not repeated
    assert all(folder.stat().st_mtime % 86400 == 0 for folder in above)
    assert len(trained) == 5
    assert contents(tmp_path) == before
    assert "the winner, all that may be released, is in" in capsys.readouterr().err
    assert archive(tmp_path, tmp_path.parent / "kept", ["smoke"]).added == 1
    assert main(["show", run.spec.point, "--runs", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "the winner of a secret, logarithmic number of trials" in shown
    assert "a second release" in shown


def facts(root: Path) -> list[tuple[str, int, float, int]]:
    """What a look at a store tells without opening a file."""
    found = []
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.stat()
        size = 0 if path.is_dir() else status.st_size
        found.append((str(path.relative_to(root)), size, status.st_mtime, status.st_mode))
    return found


@pytest.mark.slow(reason="trains small models in a sweep")
def test_what_is_kept_does_not_tell_the_number_of_trials(tmp_path: Path, draws, monkeypatch, capfd) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda n=32: KEY)  # else the winners differ
    best = sorted_points(monkeypatch, tmp_path / "all")
    kept, told, insides = [], [], []
    for number in (1, 12):
        root = tmp_path / f"k{number:02d}"
        order = iter([best[0], *random.Random(number).choices(best, k=11)])
        monkeypatch.setattr(
            dp_bench.sweep.selection.secrets,
            "choice",
            lambda candidates, order=order: {spec.point: spec for spec in candidates}[next(order)],
        )
        draws(number)
        capfd.readouterr()
        assert sweep(root) == 0
        out, err = capfd.readouterr()
        kept.append(facts(root))
        told.append((out + err).replace(root.name, "ROOT"))
        insides.append({path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()})
    assert kept[0] == kept[1]
    assert insides[0] == insides[1]  # provenance included
    assert told[0] == told[1]
    assert all(mtime % 86400 == 0 for _, _, mtime, _ in kept[0])
    (provenance,) = (text.decode() for path, text in insides[0].items() if path.name == "provenance.json")
    assert "seconds" not in provenance
    assert re.search(r'"finished": "\d{4}-\d\d-\d\d"', provenance)


def sorted_points(monkeypatch, root: Path) -> list[str]:
    """The grid's points, the one that wins against all others first."""
    results = []
    trial = dp_bench.training.run.run_trial

    def kept(spec, *rest):
        result = trial(spec, *rest)
        results.append(Tried(spec, Trial(), result))
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Trials, "draw", lambda trials: 9)
        patch.setattr(dp_bench.training.run, "run_trial", kept)
        patch.setattr(dp_bench.sweep.selection.secrets, "choice", lambda candidates: candidates[len(results)])
        assert sweep(root) == 0
    return [tried.spec.point for tried in sorted(results, key=dp_bench.sweep.selection.rank)]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_trial_that_prints_is_not_heard(tmp_path: Path, draws, monkeypatch, capsys) -> None:
    train = dp_bench.training.run._train

    def loud(spec, *rest):
        print("a trial of", spec.point)
        return train(spec, *rest)

    monkeypatch.setattr(dp_bench.training.run, "_train", loud)
    draws(3)
    assert sweep(tmp_path) == 0
    out, err = capsys.readouterr()
    assert "a trial of" not in out + err
    assert len(err.splitlines()) == 2


def tried(point: int, value: float | None, status: str = "finished") -> Tried:
    spec = SelectedGrid(Path("x"), a_run()).candidates[point]
    result = a_result(spec, status, value or 0.0)
    return Tried(spec, Trial(), replace(result, best=Evaluation(1, value)))


def test_the_best_wins_and_what_diverged_comes_last() -> None:
    trials = [tried(0, 0.9, "diverged"), tried(1, None), tried(2, 0.4), tried(3, 0.5), tried(4, 0.5)]
    order = iter(trials)
    assert best_of(5, [trials[0].spec], lambda spec: next(order)) == trials[3]
    order = iter(trials[:1])
    assert best_of(1, [trials[0].spec], lambda spec: next(order)) == trials[0]
    assert best_of(0, [trials[0].spec], lambda spec: next(order)) is None


def test_candidates_are_drawn_with_replacement_from_all() -> None:
    candidates = SelectedGrid(Path("x"), a_run()).candidates
    drawn: list[str] = []
    same = tried(0, 0.5)
    best_of(300, candidates, lambda spec: (drawn.append(spec.point), same)[1])
    assert set(drawn) == {spec.point for spec in candidates}
    assert len(candidates) == 9


@pytest.mark.slow(reason="trains small models in a sweep")
def test_every_trial_has_randomness_of_its_own(tmp_path: Path, draws, monkeypatch) -> None:
    keys = []
    training = dp_bench.training.run.Training

    def watched(*arguments):
        made = training(*arguments)
        keys.append(made.key)
        return made

    monkeypatch.setattr(dp_bench.training.run, "Training", watched)
    draws(4)
    assert sweep(tmp_path) == 0
    assert len(set(keys)) == 4


@pytest.mark.slow(reason="trains small models in a sweep")
def test_no_trials_release_nothing_once(tmp_path: Path, draws, trained: list[str], capsys) -> None:
    draws(0)
    poisson = "privacy.selection.distribution=poisson"
    for _ in range(2):
        assert sweep(tmp_path, poisson) == 0
        assert "nothing is released: that is the outcome, and the budget is spent" in capsys.readouterr().err
        draws(3)  # not drawn again
    assert trained == []
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.name == RELEASED_NOTHING
    assert file.stat().st_mtime % 86400 == 0
    RunFolder(tmp_path, other := smoke("online", "seeds=[0]")[0]).write_spec()  # a run that has begun
    (total,) = total_table(collect(tmp_path, "smoke")).rows
    assert total[1] == 2
    kept = tmp_path.parent / "kept_nothing"
    archive(tmp_path, kept, ["smoke"])
    RunFolder(kept, other).write_spec()
    (archived,) = total_table(collect(kept, "smoke")).rows
    assert archived == total


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_search_that_fails_says_no_more_than_that(tmp_path: Path, draws, monkeypatch, capsys) -> None:
    def fail(spec, *rest):
        raise MemoryError(spec.point)

    monkeypatch.setattr(dp_bench.training.run, "_train", fail)
    draws(2)
    assert sweep(tmp_path) == 1
    told = capsys.readouterr().err
    assert "a trial ended with MemoryError; nothing was released" in told
    assert "lr=" not in told
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_killed_it_starts_over(tmp_path: Path, draws) -> None:
    draws(10_000)
    child = os.fork()
    if child == 0:
        os._exit(sweep(tmp_path))
    while not tmp_path.exists():
        time.sleep(0.01)
    time.sleep(2)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert list(tmp_path.rglob("*")) == []
    draws(2)
    assert sweep(tmp_path) == 0
    assert len(collect(tmp_path, "smoke").runs) == 1


@pytest.mark.slow(reason="trains small models in a sweep")
def test_killed_before_it_is_put_into_place_it_starts_over(tmp_path: Path, draws, monkeypatch) -> None:
    """The winner is staged whole, and appears in one rename."""
    draws(1)
    seen = []

    def die(path: Path, target: Path) -> None:
        seen.append(sorted(entry.name for entry in path.rglob("*")))
        shutil.copytree(path.parents[7], tmp_path / "smoke" / ".left")
        raise OSError(28, "No space left on device")

    rename = system.rename
    monkeypatch.setattr(
        system, "rename", lambda path, target: (die if target.name == "seed0" else rename)(path, target)
    )
    assert sweep(tmp_path) == 1
    assert seen == [["metrics.csv", "provenance.json", "result.json", "spec.json"]]
    (tmp_path / "smoke" / ".left").rename(tmp_path / "smoke" / ".selection")  # as after SIGKILL
    assert not [path for path in tmp_path.rglob("seed0") if ".selection" not in str(path)]
    monkeypatch.setattr(system, "rename", rename)
    assert sweep(tmp_path) == 0
    assert not (tmp_path / "smoke" / ".selection").exists()
    assert len(collect(tmp_path, "smoke").runs) == 1


def test_the_noise_is_what_repeat_and_select_asks_for() -> None:
    allocation = a_run().allocation
    assert allocation is not None
    assert allocation.trials is not None

    def spent(nu: float) -> float:
        step = dpa.PoissonSampledDpEvent(allocation.sampling.rate, dpa.GaussianDpEvent(nu))
        run = dpa.SelfComposedDpEvent(step, allocation.steps)
        event = dpa.dp_event.RepeatAndSelectDpEvent(run, 9, 0)
        return float(dpa.rdp.RdpAccountant(RDP_ORDERS).compose(event).get_epsilon(1e-5))

    assert spent(allocation.noise_multiplier) <= 3 < spent(allocation.noise_multiplier * 0.999)


MISTAKES = {
    "named noise": (["seed=named"], "seed: expected secure"),
    "several seeds": (["seeds=[0,1]"], "add seeds=[0]"),
    "a part of the grid": (["strategy.lr=0.316"], "privacy.allocator: expected all 9 points of a grid for selection"),
    "another key swept": (["strategy.momentum=0,0.9"], "privacy.allocator: expected composition where other keys"),
    "an accountant without a proof": (["privacy.accountant=pld"], "privacy.accountant: expected one that proves"),
    "batches of fixed size": (["train.sampling=fixed_size"], "train.sampling: expected poisson"),
    "no such distribution": (["privacy.selection.distribution=normal"], "privacy.selection.distribution: expected one"),
    "too small a mean": (["privacy.selection.mean=1"], "privacy.selection.mean: expected the expected number"),
    "a tracker": (["tracker=tensorboard"], "tracker: expected none with privacy.allocator=selection"),
    "another allocator": (
        ["privacy.allocator=composition", "privacy.selection.mean=5"],
        "privacy.selection: expected privacy.allocator=selection with it",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.slow(reason="trains small models in a sweep")
def test_what_cannot_be_accounted_for_is_refused(mistake: str, tmp_path: Path, capsys) -> None:
    more, told = MISTAKES[mistake]
    assert sweep(tmp_path / "runs", *more) == 2
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow(reason="trains small models in a sweep")
def test_a_trial_alone_is_refused(tmp_path: Path, capsys) -> None:
    alone = ["run", *SWEEP, "strategy.lr=0.316", "strategy.clip=1", f"runs={tmp_path / 'runs'}"]
    assert main(alone) == 2
    assert "use dp-bench run -m" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    with pytest.raises(ValueError, match="got one of its trials"):
        dp_bench.training.run.run(a_run(), tmp_path, None, lambda step, row: None)  # type: ignore[arg-type]


@pytest.mark.slow(reason="trains small models in a sweep")
def test_the_plan_says_what_is_spent_and_expected(tmp_path: Path, capsys) -> None:
    assert main(["plan", *SWEEP, f"runs={tmp_path}", "privacy.selection.mean=4"]) == 0
    printed = capsys.readouterr().out
    (row,) = (line for line in printed.splitlines() if line.startswith("ag_news/fixed_threshold"))
    assert "4 expected" in row
    assert " 3.000 " in row
    assert "logarithmic with mean 4, drawn with replacement: 4.0 runs' worth expected" in printed
    assert "1 selection, 0 done" in printed


@pytest.mark.slow(reason="trains small models in a sweep")
def test_other_allocators_are_as_they_were() -> None:
    """Neither name nor protocol tells of a choice at its default; and one search has one name."""
    for allocator in ("composition", "halving"):
        plain = smoke("online", f"privacy.allocator={allocator}")[0]
        assert "selection" not in plain.protocol()["privacy"]
        assert not {"trials", "pool"} & plain.protocol()["allocation"].keys()
        assert "selection" not in plain.variant
    assert a_run("privacy.selection.mean=9") == a_run()
    assert "privacy.selection.mean=7" in a_run("privacy.selection.mean=7").variant
    assert RunSpec.from_json(a_run().to_json()).allocation == a_run().allocation

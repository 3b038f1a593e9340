"""`dp-bench status` and `dp-bench show`, on synthetic stores."""

from pathlib import Path

import pytest
from report_helpers import small_store, synthetic_spec, write_run

from dp_bench import cli
from dp_bench.errors import UserError
from dp_bench.experiment.store import RunFolder
from dp_bench.report.commands import show, status
from dp_bench.report.load.collect import collect


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.5, 0.9], clip=[0.1, 0.2, 0.3])
    write_run(tmp_path, synthetic_spec(lr=0.3162, seed=1), [0.1, 0.5, 0.4], diverged="nothing is finite")
    for seed in (2, 3):
        folder = RunFolder(tmp_path, synthetic_spec(lr=0.3162, seed=seed))
        folder.path.mkdir(parents=True)
        folder.write_spec()
    return tmp_path


def test_status_tells_running_from_stopped(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = RunFolder(store, synthetic_spec(lr=0.3162, seed=2))
    with running.claimed():
        (row,) = status.rows(store, collect(store, "paper").runs)
        found = dict(zip(status.COLUMNS, row, strict=True))
        assert {name: found[name] for name in ("done", "running", "stopped", "diverged")} == {
            **{"done": "2", "running": "1", "stopped": "1", "diverged": "1"}
        }
        assert found["best"] == "90.00"
        assert found["time left"].endswith("min")
    (row,) = status.rows(store, collect(store, "paper").runs)
    assert row[5:7] == ["-", "2"]
    assert cli.main(["status", "--runs", str(store)]) == 0
    assert "paper: 4 runs" in capsys.readouterr().out


def test_show_says_what_was_asked_reached_and_spent(store: Path) -> None:
    text = show.text(show.find(store, "mnist/online/k5"), store)
    for words in (
        "Online on MNIST (CNN), one point of a grid of k = 5 with ε = 3, seed 0: ρ = 0.3162",
        "test accuracy (%): best 90.00 at step 1172",
        "accuracy  ▁▅█  0.1 to 0.9",
        "C_t  ▁▅█  0.1 to 0.3",
        "5 candidates of 1,172 steps",
        "seeds are not charged",
        "repeat: dp-bench run profile=paper dataset=mnist strategy=online strategy.lr=0.316227766017 grid.k=5",
        "commit 0123456 (arithmetic 10)",
    ):
        assert words in text, words
    path = str(RunFolder(store, synthetic_spec(lr=0.3162, seed=2)).path)
    unfinished = show.text(show.find(*show.place(Path("runs"), path)), store)
    assert "status: unfinished, not running" in unfinished
    assert "resume: dp-bench run" in unfinished
    assert "'seeds=[2]'" in unfinished


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_name_that_fits_several_points_or_none_is_refused(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    with pytest.raises(UserError, match=r"PATH\|NAME: expected one run in .*, got mnist, which fits \d+ points"):
        show.find(store, "mnist")
    with pytest.raises(UserError) as refused:
        show.find(store, "mnist/online/k5/eps3")
    assert "points (mnist/online/k5/eps3/lr=" in str(refused.value)  # names that can be typed, without their variant
    with pytest.raises(UserError, match="which fits none; give more of its name"):
        show.find(store, "cifar")
    assert cli.main(["show", "--runs", str(tmp_path / "none"), "x"]) == 2
    assert cli.main(["status", "--runs", str(tmp_path / "none")]) == 2


def test_a_whole_name_is_not_taken_for_the_beginning_of_others(tmp_path: Path) -> None:
    for clip in (1.0, 10.0, 100.0):
        write_run(tmp_path, synthetic_spec("mnist", "fixed_threshold", lr=0.3162, clip=clip), [0.1, 0.9])
    assert show.find(tmp_path, "fixed_threshold/k5/eps3/lr=0.3162,clip=1").spec.hyperparameters["clip"] == 1
    with pytest.raises(UserError, match="fits 3 points"):
        show.find(tmp_path, "fixed_threshold/k5/eps3/lr=0.3162,clip")

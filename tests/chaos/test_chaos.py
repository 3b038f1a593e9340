"""A fixed sample of the faults that `make chaos` injects, and every one into what is quick."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaos import walk
from faults import Disk
from scenarios import prepared

from dp_bench.files import system

QUICK = ("report", "archive", "caches", "data fetch")


@pytest.mark.slow(reason="a hundred processes that are killed, and as many that do the work again")
@pytest.mark.usefixtures("without_data")
def test_a_sample_of_all_faults() -> None:
    with prepared() as scenarios:
        outcome = walk(scenarios, lambda number: number % 41 == 0)
    assert outcome.clean, "\n".join(outcome.problems)
    assert set(outcome.points) == {scenario.name for scenario in scenarios}
    assert min(outcome.points.values()) > 10  # each has calls to fail
    assert outcome.injected.total() > 60


@pytest.mark.usefixtures("without_data")
@pytest.mark.slow(reason="walks through faults")
def test_some_faults_of_the_quick_ones() -> None:
    with prepared() as scenarios:
        outcome = walk([s for s in scenarios if s.name in QUICK], lambda number: number % 41 == 0)
    assert outcome.clean, "\n".join(outcome.problems)
    assert outcome.killed > 3
    assert outcome.told > 1


@pytest.mark.parametrize("synced", [False, True])
def test_what_a_loss_of_power_takes(synced: bool, tmp_path: Path) -> None:
    """A name is lost unless its folder was synced: of a new folder, a new file, a renamed one, and of two swapped."""
    folder, disk = tmp_path / "folder", Disk()

    def follow(name: str, path: Path, act: Callable[[], Any], content: bytes | Path | None = None) -> None:
        disk.follow(name, path, act, content)
        if synced:
            disk.follow("fsync", path, lambda: None, None)
            disk.follow("fsync folder", path.parent, lambda: None, None)

    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        (tmp_path / side / side).write_text("whole")
    follow("mkdir", folder, folder.mkdir)
    follow("open", tmp_path / "new", lambda: (tmp_path / "new").write_text("whole"))
    follow("rename", tmp_path / "new", lambda: (tmp_path / "new").rename(tmp_path / "file"), tmp_path / "file")
    follow("link", tmp_path / "linked", lambda: (tmp_path / "linked").hardlink_to(tmp_path / "file"))
    follow("exchange", tmp_path / "a", lambda: system._exchange(tmp_path / "a", tmp_path / "b"), tmp_path / "b")
    disk.lose(names=True)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    kept = {"folder", "file", "linked", "a/b", "b/a"} if synced else {"a/a", "b/b"}
    assert found == {"a", "b", *kept}
    assert not synced or (tmp_path / "file").read_text() == "whole"

"""What is fetched: verified before it is kept, and never seen by halves."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from data_helpers import TRAIN_IMAGES, bringing, describe, gzipped, sha256, start_python, use_origins, write_files

from dp_bench.errors import UserError
from dp_bench.files.system import intercepted


def cached_names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache/data").glob("*"))


def test_it_is_verified_before_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]
) -> None:
    bad = {**tiny, TRAIN_IMAGES: b"a login page"}
    use_origins(monkeypatch, "mnist", {"official": bringing(bad), "packages": bringing(tiny)})
    with pytest.raises(UserError, match=f"what official sent: .* not kept: .*{sha256(b'a login page')}"):
        describe("mnist", stand_in=True)
    assert cached_names(tmp_path) == []


def test_an_interrupted_fetch_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]
) -> None:
    def interrupted(folder: Path) -> None:
        write_files(folder, tiny)
        raise KeyboardInterrupt

    use_origins(monkeypatch, "mnist", {"official": interrupted})
    with pytest.raises(KeyboardInterrupt):
        describe("mnist", stand_in=True)
    assert cached_names(tmp_path) == []


@pytest.mark.slow(reason="starts a process, or reads large files")
def test_what_a_killed_process_left_is_not_taken_for_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]
) -> None:
    code = (
        "import os, signal\n"
        "from dataclasses import replace\n"
        "from dp_bench.tasks import TASKS\n"
        "def killed(folder):\n"
        "    (folder / 'train-images-idx3-ubyte').write_bytes(b'half of it')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "mnist = TASKS['mnist']\n"
        "mnist.collections = (replace(mnist.collections[0], origins={'official': killed}),)\n"
        "mnist.describe()"
    )
    assert start_python(code).returncode == -signal.SIGKILL
    assert cached_names(tmp_path) != []
    use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})
    assert describe("mnist").kind == "complete"
    assert cached_names(tmp_path) == ["mnist"], "nothing else will ever clear it"


def test_what_another_process_is_fetching_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]
) -> None:
    def slow(folder: Path) -> None:
        write_files(folder, tiny)
        child = os.fork()  # which fetches the same, and sees what this process is doing
        if child == 0:
            use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})
            os._exit(0 if describe("mnist").kind == "complete" else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert sorted(path.name for path in folder.iterdir()) == sorted(tiny)

    use_origins(monkeypatch, "mnist", {"official": slow})
    assert describe("mnist").kind == "complete"
    assert cached_names(tmp_path) == ["mnist"]


def test_it_appears_as_a_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]) -> None:
    """The moment before the rename all files are under the temporary name and none under the final one."""
    seen = []

    def watched(name: str, path: Path, act: Callable[[], Any], content: Any) -> Any:
        if name == "rename" and path.is_dir():
            seen.append((sorted(child.name for child in path.iterdir()), content.exists()))
        return act()

    use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})
    with intercepted(watched):
        describe("mnist")
    assert seen == [(sorted([*tiny, "origin.txt"]), False)]
    assert cached_names(tmp_path) == ["mnist"]


def test_a_source_that_brings_only_part_is_passed_over(monkeypatch: pytest.MonkeyPatch, tiny: dict[str, bytes]) -> None:
    part = {TRAIN_IMAGES: tiny[TRAIN_IMAGES]}
    use_origins(monkeypatch, "mnist", {"official": bringing(part), "packages": bringing(tiny)})
    assert describe("mnist").where == "cache, from packages"


def test_another_process_was_quicker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]) -> None:
    def slow(folder: Path) -> None:
        write_files(tmp_path / "cache/data/mnist", gzipped(tiny))
        write_files(folder, tiny)

    use_origins(monkeypatch, "mnist", {"official": slow})
    assert describe("mnist").kind == "complete"
    assert (tmp_path / "cache/data/mnist" / f"{TRAIN_IMAGES}.gz").exists()
    assert cached_names(tmp_path) == ["mnist"]


def test_after_a_user_deleted_the_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]
) -> None:
    """As the message on a damaged file tells them to; what is left of the folder is not in the way."""
    use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})
    describe("mnist")
    for name in tiny:
        (tmp_path / "cache/data/mnist" / name).unlink()
    assert describe("mnist").where == "cache, from official"


def test_something_in_the_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, bytes]) -> None:
    write_files(tmp_path / "cache/data/mnist", {"notes.txt": b"mine"})
    use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})
    with pytest.raises(UserError, match=r"cache/data/mnist: expected .*, got something in their way"):
        describe("mnist", stand_in=True)


def test_a_cache_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: Path, tiny: dict[str, bytes]
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "file/cache"))
    use_origins(monkeypatch, "mnist", {"official": bringing(tiny)})
    with pytest.raises(UserError, match="cannot be written"):
        describe("mnist")
    write_files(own / "mnist", tiny)
    assert describe("mnist").where == "$DP_BENCH_DATA"

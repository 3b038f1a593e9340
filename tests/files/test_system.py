"""The seam: nothing else in the package writes, and what is written is durable, obeys the umask and follows no link."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from dp_bench.errors import UserError
from dp_bench.files import system
from dp_bench.files.atomic import write_atomically

PACKAGE = Path(__file__).parents[2] / "dp_bench"
WRITES = re.compile(
    r"\.(write_text|write_bytes|unlink|rename|replace|rmtree|mkdir|touch|symlink_to)\((?!\"|')|"
    r"open\([^)]*\"[wax]b?\"|fcntl|mkstemp|mkdtemp|os\.(open|remove|rename|replace|link|fsync)\("
)
# What fetches into a folder that is moved into place as a whole, and a pipe.
MAY = {"data/origins.py", "cli.py", "files/system.py"}


def test_no_other_module_changes_files() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in MAY
        for line in path.read_text().splitlines()
        if (match := WRITES.search(line.replace("system.", "SEAM_"))) and "replace(" not in match[0]
    }
    assert found == set()


def calls_of(path: Path, **options: Any) -> list[str]:
    names = []

    def listed(name: str, path: Path, act: Any, content: Any) -> Any:
        names.append(name)
        return act()

    with system.intercepted(listed):
        write_atomically(path, b"content", **options)
    return names


def test_a_durable_file_is_synced_before_its_rename_and_its_folder_after(tmp_path: Path) -> None:
    assert calls_of(tmp_path / "x") == ["open", "write", "fsync", "rename", "fsync folder"]
    assert calls_of(tmp_path / "y", durable=False) == ["open", "write", "rename"]
    assert calls_of(tmp_path / "new" / "x")[:2] == ["mkdir", "fsync folder"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_new_files_obey_the_umask(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "x", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode


def test_a_link_is_neither_read_nor_locked(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="a link: not followed"):
        system.read(tmp_path / "link", follow=False)
    with pytest.raises(UserError, match="expected a file, got a link"), system.opened_lock(tmp_path / "link", True):
        pass
    assert (tmp_path / "secret").read_text() == "secret"
    write_atomically(tmp_path / "link", b"own")  # which replaces the link, not what it leads to
    assert (tmp_path / "secret").read_text() == "secret"


def test_folders_are_exchanged(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    system.exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one/other").exists()
    assert (tmp_path / "other/one").exists()

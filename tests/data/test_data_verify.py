"""What is cached of verified files, and how the official GloVe is known."""

import json
import os
import time
import zipfile
from pathlib import Path

import pytest
from data_helpers import TRAIN_IMAGES, describe, write_files

from dp_bench.data import files
from dp_bench.data.files import look_in, unpacked_bytes
from dp_bench.errors import UserError
from dp_bench.files import checksummed as checksummed
from dp_bench.tasks import command
from dp_bench.tasks.ag_news import GLOVE


class TestWhatIsCached:
    @pytest.fixture
    def reads(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names of the files that are read in full from now on."""
        names: list[str] = []

        def counted(path: Path, member: str = "") -> bytes:
            names.append(path.name)
            return unpacked_bytes(path, member)

        monkeypatch.setattr(files, "unpacked_bytes", counted)
        monkeypatch.setattr(files, "_RACY_SECONDS", -1.0)
        return names

    def test_unchanged_files_are_not_read_again(self, own: Path, tiny: dict[str, bytes], reads: list[str]) -> None:
        write_files(own / "mnist", tiny)
        first = describe("mnist")
        assert sorted(reads) == sorted(tiny)
        assert describe("mnist") == first
        assert len(reads) == 4

    def test_a_change_that_hides_its_time_is_noticed(self, own: Path, tiny: dict[str, bytes], reads: list[str]) -> None:
        write_files(own / "mnist", tiny)
        describe("mnist")
        path = own / "mnist" / TRAIN_IMAGES
        before = path.stat()
        time.sleep(0.02)  # More than the tick of the file system's clock.
        path.write_bytes(bytes(len(tiny[TRAIN_IMAGES])))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        with pytest.raises(UserError, match="damaged"):
            describe("mnist")

    @pytest.mark.parametrize("damage", [b"", b"rubbish", b"0" * 64 + b"\n{}"])
    def test_damage_costs_only_time(
        self, own: Path, tmp_path: Path, tiny: dict[str, bytes], reads: list[str], damage: bytes
    ) -> None:
        write_files(own / "mnist", tiny)
        first = describe("mnist")
        for memory in (tmp_path / "cache/verified").iterdir():
            memory.write_bytes(damage)
        assert describe("mnist") == first
        assert len(reads) == 8
        assert describe("mnist") == first
        assert len(reads) == 8

    def test_a_wrong_memory_never_condemns_a_good_file(
        self, own: Path, tmp_path: Path, tiny: dict[str, bytes], reads: list[str]
    ) -> None:
        write_files(own / "mnist", tiny)
        first = describe("mnist")
        for memory in (tmp_path / "cache/verified").iterdir():
            entry = json.loads(checksummed.read_checksummed_bytes(memory) or b"")
            entry["fingerprints"]["sha256"] = "0" * 64
            checksummed.write_checksummed_bytes(memory, json.dumps(entry).encode())
        assert describe("mnist") == first
        assert len(reads) == 8

    def test_a_file_changed_just_now_is_not_cached(
        self, own: Path, tiny: dict[str, bytes], reads: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "_RACY_SECONDS", 60.0)
        write_files(own / "mnist", tiny)
        describe("mnist")
        describe("mnist")
        assert len(reads) == 8

    def test_the_command_reads_everything_again(self, own: Path, tiny: dict[str, bytes], reads: list[str]) -> None:
        write_files(own / "mnist", tiny)
        describe("mnist")
        assert command.main(["mnist"]) == 0
        assert len(reads) == 8


class TestOfficialGlove:
    """Known by its words and the first numbers of "the"; nothing here has the official file, so one is generated."""

    THE = b"the 0.418 0.24968 -0.41242 0.1217 0.34527" + b" 0" * 45

    def official(self, words: int = 400_000, the: bytes = THE, last: bytes = b"last" + b" 0.5" * 50) -> bytes:
        middle = [b"word" + b" 0" * 50] * (words - 2)
        return b"\n".join([the, *middle, last]) + b"\n"

    @pytest.mark.parametrize("place", ["glove/glove.6B.zip", "glove.6B.zip", "glove.6B.50d.txt"])
    @pytest.mark.slow(reason="starts a process, or reads large files")
    def test_it_is_recognised(self, place: str, tmp_path: Path) -> None:
        path = tmp_path / "own" / place
        path.parent.mkdir(parents=True)
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                archive.writestr("glove.6B.100d.txt", "not this one")
                archive.writestr("glove.6B.50d.txt", self.official())
        else:
            path.write_bytes(self.official())
        found = look_in(tmp_path / "own", GLOVE)
        assert found is not None
        assert found[1]["vectors"].version.kind == "complete"

    @pytest.mark.parametrize(
        "change",
        [
            {"words": 399_999},
            {"the": THE.replace(b"0.34527", b"0.34528")},
            {"last": b"last" + b" 0.5" * 49},
            {"last": b"last" + b" 0.5" * 51},
        ],
        ids=["a word short", "other numbers", "a number short", "a number too many"],
    )
    @pytest.mark.slow(reason="starts a process, or reads large files")
    def test_anything_else_is_refused(self, change: dict, tmp_path: Path) -> None:
        write_files(tmp_path / "own/glove", {"glove.6B.50d.txt": self.official(**change)})
        with pytest.raises(UserError, match=r"expected words 400,000 words of 50 numbers, .*got sha256 .* / words "):
            look_in(tmp_path / "own", GLOVE)

    def test_an_archive_without_the_member_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "own").mkdir()
        with zipfile.ZipFile(tmp_path / "own/glove.6B.zip", "w") as archive:
            archive.writestr("glove.6B.100d.txt", "not this one")
        with pytest.raises(UserError, match="got an archive that cannot be unpacked"):
            look_in(tmp_path / "own", GLOVE)

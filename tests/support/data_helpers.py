"""What the tests of dp_bench.data share: no network, a cache of their own, a tiny data set, the real one if there."""

import gzip
import hashlib
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_bench.data import Collection, File, Source, Version, fetch
from dp_bench.data.files import Fetcher
from dp_bench.data.origins import Unavailable
from dp_bench.data.tensors import Dataset
from dp_bench.tasks import TASKS

# Read before any test changes the environment.
_REAL_DATA = Path(os.environ.get("DP_BENCH_DATA") or Path(__file__).parents[3] / "shared" / "data")

TRAIN_IMAGES = "train-images-idx3-ubyte"

needs_real_data = pytest.mark.skipif(
    not (_REAL_DATA / "glove/glove.50d.txt.gz").is_file(), reason=f"no shared data (see its README) in {_REAL_DATA}"
)


def use_real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DP_BENCH_DATA", str(_REAL_DATA))
    return _REAL_DATA


def isolate(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Nothing of the user's is read, nothing is fetched."""
    monkeypatch.setenv("DP_BENCH_CACHE", str(cache))
    monkeypatch.delenv("DP_BENCH_DATA", raising=False)
    monkeypatch.delenv("DP_BENCH_OFFLINE", raising=False)
    monkeypatch.setattr(fetch, "_failures", {})
    for name in TASKS:
        use_origins(monkeypatch, name, {"nowhere": not_there("this test has no network")})


def describe(name: str, **options: Any) -> Source:
    return TASKS[name].describe(options)


def load(name: str, **options: Any) -> Dataset:
    return TASKS[name].load(options)


def use_origins(monkeypatch: pytest.MonkeyPatch, name: str, origins: Mapping[str, Fetcher]) -> None:
    """Make missing files of a task come from these."""
    task = TASKS[name]
    monkeypatch.setattr(task, "collections", tuple(replace(c, origins=origins) for c in task.collections))


def not_there(reason: str) -> Callable[[Path], None]:
    def fetcher(folder: Path) -> None:
        raise Unavailable(reason)

    return fetcher


def bringing(contents: dict[str, bytes]) -> Callable[[Path], None]:
    return lambda folder: write_files(folder, contents)


def gzipped(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}


def run_python(code: str) -> str:
    """What a fresh interpreter prints."""
    ran = start_python(code)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def start_python(code: str) -> subprocess.CompletedProcess[str]:
    # From the project's root, where dp_bench is found installed or not.
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def tiny_files() -> dict[str, bytes]:
    """The four files of an MNIST of 20 + 8 images, by name."""
    values = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": idx_bytes(values.integers(0, 256, (20, 28, 28))),
        "train-labels-idx1-ubyte": idx_bytes(values.integers(0, 10, 20)),
        "t10k-images-idx3-ubyte": idx_bytes(values.integers(0, 256, (8, 28, 28))),
        "t10k-labels-idx1-ubyte": idx_bytes(values.integers(0, 10, 8)),
    }


def use_tiny_mnist(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Make dp_bench take the tiny files for all of MNIST."""
    contents = tiny_files()
    roles = zip(("train", "train_labels", "test", "test_labels"), contents.items(), strict=True)
    files = {
        role: File((name,), (Version("complete", "sha256", sha256(content), 20 if "train" in role else 8),))
        for role, (name, content) in roles
    }
    collection = Collection("mnist", ("mnist", "MNIST/raw"), files, TASKS["mnist"].collections[0].origins)
    monkeypatch.setattr(TASKS["mnist"], "collections", (collection,))
    return contents


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_files(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def one_version(content: bytes) -> File:
    """A file that is named after its content, known as a subset of one row."""
    name = content.decode()
    return File((name,), (Version("subset", "sha256", sha256(content), 1, f"only a {name}"),))

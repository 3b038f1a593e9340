"""Tensors kept in the cache and mapped from there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dp_bench.data import tensor_cache as module
from dp_bench.data.tensor_cache import Tensors, shared


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tensors"


NUMBERS = {"name": "numbers"}


def made() -> Tensors:
    return {"x": torch.arange(1_000_000, dtype=torch.float32).view(1000, 1000), "y": torch.arange(1000)}


def never() -> Tensors:
    raise AssertionError("it was made again")


def equal(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


needs_maps = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what is mapped")


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


@needs_maps
def test_made_once_and_mapped_from_then_on(cache: Path) -> None:
    first = shared(NUMBERS, made)
    (path,) = cache.glob("*.pt")
    assert equal(first, made())
    assert is_mapped(path)
    assert equal(shared(NUMBERS, never), made())


@needs_maps
@pytest.mark.slow(reason="starts a process, or reads large files")
def test_another_process_maps_the_same_file(cache: Path) -> None:
    ours = shared(NUMBERS, made)
    code = (
        "from dp_bench.data.tensor_cache import shared; from pathlib import Path; "
        "t = shared({'name': 'numbers'}, None); "
        "print(float(t['x'].sum()), Path('/proc/self/maps').read_text().count('.pt'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    total, maps = done.stdout.split()
    assert float(total) == float(ours["x"].sum())
    assert int(maps) > 0


def test_writing_to_the_tensors_changes_nothing_on_disk(cache: Path) -> None:
    shared(NUMBERS, made)["x"].fill_(7)
    assert equal(shared(NUMBERS, never), made())


@pytest.mark.parametrize("origin", [{"name": "other"}, {"name": "numbers", "rows": 1}, {}])
def test_something_else_is_made_of_its_own(origin: dict[str, object]) -> None:
    shared(NUMBERS, made)
    assert equal(shared(origin, lambda: {"z": torch.ones(1)}), {"z": torch.ones(1)})


def test_another_format_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    shared(NUMBERS, made)
    monkeypatch.setattr(module, "_FORMAT", module._FORMAT + 1)
    assert equal(shared(NUMBERS, lambda: {"z": torch.ones(1)}), {"z": torch.ones(1)})


def spoiled(cache: Path, how: str) -> None:
    (path,) = cache.glob("*.pt")
    content = bytearray(path.read_bytes())
    if how == "a bit":
        content[len(content) // 2] ^= 1
    path.write_bytes(content[:-1000] if how == "truncated" else b"" if how == "empty" else content)
    record = path.with_suffix(".json")
    if how == "no record":
        record.unlink()
    if how == "another's record":
        content = json.loads(record.read_bytes())
        record.write_text(json.dumps({**content, "origin": {"name": "other"}}))
    if how == "an older record":
        content = json.loads(record.read_bytes())
        record.write_text(json.dumps({**content, "format": content["format"] - 1}))
    if how == "missing":
        path.unlink()


@pytest.mark.parametrize(
    "how", ["a bit", "truncated", "empty", "no record", "another's record", "an older record", "missing"]
)
def test_what_is_not_as_it_was_written_is_made_again(cache: Path, how: str) -> None:
    shared(NUMBERS, made)
    spoiled(cache, how)
    assert equal(shared(NUMBERS, made), made())
    assert equal(shared(NUMBERS, never), made())


def test_a_cache_that_cannot_be_written_costs_only_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "file"))
    assert equal(shared(NUMBERS, made), made())


def test_a_full_disk_costs_only_memory(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """torch's writer raises an error of its own when the file cannot grow."""
    import resource
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        assert equal(shared(NUMBERS, made), made())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert not list(cache.iterdir()), "half a file stays"

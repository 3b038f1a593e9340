"""Damaged and hostile files in the cache cost time, and are never an error nor believed."""

import hashlib
import json
from pathlib import Path

import pytest
import torch

from dp_bench.data.files import File, Version, identify
from dp_bench.data.tensor_cache import is_made_by, path_of, remove, shared
from dp_bench.files.checksummed import write_checksummed_bytes

CONTENT = b"some images"
ORIGIN = {"name": "numbers"}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("dp_bench.data.files._RACY_SECONDS", -1.0)
    return tmp_path / "cache"


def verified(path: Path) -> tuple[File, Path]:
    """A file that was identified, and where that is cached."""

    path.write_bytes(CONTENT)
    file = File((path.name,), (Version("complete", "sha256", hashlib.sha256(CONTENT).hexdigest(), 1),))
    identify(path, file)
    (entry,) = (path.parent / "cache" / "verified").iterdir()
    return file, entry


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"1", b"[]", b"{}", b'"text"', b'{"signature": 3}', b"\xff\xfe", b"[" * 100_000, b"{"],
)
def test_a_cached_verification_of_another_shape_is_read_again(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "images"
    file, entry = verified(path)
    before = identify(path, file)
    for write in (write_checksummed_bytes, Path.write_bytes):  # with a checksum that fits, and without one
        write(entry, content)
        assert identify(path, file) == before


@pytest.mark.parametrize("fingerprints", [3, [], {"sha256": 3}, {"sha256": ["a"]}, None, {"md5": {}}])
def test_fingerprints_of_another_type_are_read_again(fingerprints: object, tmp_path: Path) -> None:
    path = tmp_path / "images"
    file, entry = verified(path)
    stored = json.loads(entry.read_bytes().partition(b"\n")[2])
    write_checksummed_bytes(entry, json.dumps({**stored, "fingerprints": fingerprints}).encode())
    assert identify(path, file).fingerprints == stored["fingerprints"]


def test_a_folder_in_place_of_a_cached_verification(tmp_path: Path) -> None:
    path = tmp_path / "images"
    file, entry = verified(path)
    before = identify(path, file)
    entry.unlink()
    entry.mkdir()
    assert identify(path, file) == before


def made() -> dict[str, torch.Tensor]:
    return {"x": torch.zeros(3, 4), "y": torch.arange(3)}


@pytest.mark.parametrize("content", [b"", b"not torch's", [1, 2], {"x": 3}, torch.zeros(2)])
def test_tensors_of_another_kind_are_made_again_though_their_record_fits(content: object) -> None:

    shared(ORIGIN, made)
    path = path_of(ORIGIN)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    record = json.loads(path.with_suffix(".json").read_bytes())
    record["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(json.dumps(record))
    assert not is_made_by(path, made)
    assert torch.equal(shared(ORIGIN, made)["x"], torch.zeros(3, 4))


def test_a_folder_in_place_of_tensors_is_passed_over_and_can_be_removed() -> None:
    path = path_of(ORIGIN)
    path.mkdir(parents=True)
    assert torch.equal(shared(ORIGIN, made)["y"], torch.arange(3))
    remove(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "other",
    [
        {"x": -torch.zeros(3, 4), "y": torch.arange(3)},  # -0.0 == 0.0, and 1 / -0.0 is not 1 / 0.0
        {"x": torch.zeros(4, 3), "y": torch.arange(3)},
        {"x": torch.zeros(3, 4, dtype=torch.float64), "y": torch.arange(3)},
        {"x": torch.zeros(3, 4)},
    ],
)
def test_cached_tensors_are_compared_bit_by_bit(other: dict[str, torch.Tensor]) -> None:
    shared(ORIGIN, lambda: other)
    assert not is_made_by(path_of(ORIGIN), made)
    assert is_made_by(path_of(ORIGIN), lambda: other)


def test_nan_is_itself_bit_by_bit() -> None:
    tensors = {"x": torch.full((3,), torch.nan)}
    shared(ORIGIN, lambda: tensors)
    assert is_made_by(path_of(ORIGIN), lambda: tensors)

"""Every test of the data starts with an empty cache and no data of its own."""

from pathlib import Path

import pytest
from data_helpers import isolate, use_tiny_mnist


@pytest.fixture(autouse=True)
def _isolated_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "cache")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    return use_tiny_mnist(monkeypatch)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that $DP_BENCH_DATA names."""
    monkeypatch.setenv("DP_BENCH_DATA", str(tmp_path / "own"))
    return tmp_path / "own"

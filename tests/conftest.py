"""No test reaches the network or the user's cache; real data are used where they lie next to the project."""

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["DP_BENCH_OFFLINE"] = "1"
    os.environ["DP_BENCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start: others use the cores already


@pytest.fixture
def without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine that has no data set: synthetic data is all there is."""
    monkeypatch.delenv("DP_BENCH_DATA", raising=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that `make check` leaves out says why."""
    for item in items:
        for mark in item.iter_markers("slow"):
            if not mark.kwargs.get("reason"):
                raise pytest.UsageError(f'{item.nodeid}: expected @pytest.mark.slow(reason="..."), got no reason')

"""What a step costs: this process's own time, the fastest of several, cached as long as it means the same."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import smoke

from dp_bench.sweep import step_times as cost

pytestmark = pytest.mark.usefixtures("without_data")


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Forgets what this process knows, but not what is cached in the cache."""
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path))
    return lambda: monkeypatch.setattr(cost, "_known", {})


def test_waiting_for_others_costs_nothing() -> None:
    assert cost._timed(lambda: time.sleep(0.3)) < 0.1


def test_the_fastest_of_several_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluations, steps = [0.3, 0.1, 0.2], [9.0, 2.0]  # three make up half a second; twice at least
    times = iter([*evaluations, *steps])
    monkeypatch.setattr(cost, "_timed", lambda work: next(times))
    assert cost._measure(smoke("online")[0]) == {"step": 2.0, "tested": 0.1 / 400}
    assert list(times) == []


@pytest.mark.slow(reason="trains small models in a sweep")
def test_it_is_measured_once_until_it_means_something_else(
    forgotten: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []
    monkeypatch.setattr(cost, "_measure", lambda spec: measured.append(spec) or {"step": 1.0, "tested": 0.0})
    spec = smoke("online")[0]
    for _ in range(2):
        forgotten()
        assert cost.seconds(spec) == spec.steps
    assert len(measured) == 1
    forgotten()
    monkeypatch.setattr(cost, "_FORMAT", cost._FORMAT + 1)
    cost.seconds(spec)
    assert len(measured) == 2

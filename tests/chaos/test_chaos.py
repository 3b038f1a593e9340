"""A fixed sample of the faults that `make chaos` injects, and every one into what is quick."""

import pytest
from chaos import walk
from scenarios import prepared

QUICK = ("report", "archive", "caches", "data fetch")


@pytest.mark.slow(reason="a hundred processes that are killed, and as many that do the work again")
@pytest.mark.usefixtures("without_data")
def test_a_sample_of_all_faults() -> None:
    with prepared() as scenarios:
        outcome = walk(scenarios, lambda number: number % 41 == 0)
    assert outcome.clean, "\n".join(outcome.problems)
    assert set(outcome.points) == {scenario.name for scenario in scenarios}
    assert min(outcome.points.values()) > 10  # each has calls to fail
    assert outcome.injected.total() > 60


@pytest.mark.usefixtures("without_data")
def test_some_faults_of_the_quick_ones() -> None:
    with prepared() as scenarios:
        outcome = walk([s for s in scenarios if s.name in QUICK], lambda number: number % 41 == 0)
    assert outcome.clean, "\n".join(outcome.problems)
    assert outcome.killed > 3
    assert outcome.told > 1

"""What could not be carried out is refused before any work, by the key that asks for it."""

import dataclasses
import math

import pytest

from dp_bench.errors import UserError
from dp_bench.experiment import grid
from dp_bench.experiment.config import Config, DatasetConfig, strategy_schema
from dp_bench.experiment.resolve import specs
from dp_bench.experiment.validation import check
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.accounting import exact
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.calibration import allocate


def config(**changes: object) -> Config:
    made = Config(dataset=DatasetConfig("mnist", stand_in=True), strategy=strategy_schema("online")(lr=0.316))
    for key, value in changes.items():
        group, _, name = key.partition("__")
        if name:
            setattr(made, group, dataclasses.replace(getattr(made, group), **{name: value}))
        else:
            setattr(made, group, value)
    return made


def _checked_specs(chosen: Config) -> None:
    check(chosen)
    specs(chosen, fetch=False)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("train.epochs", {"train__epochs": 1e30}),
        ("train.epochs", {"train__epochs": 1e308}),
        ("train.epochs", {"train__epochs": 1e-300}),
        ("train.epochs", {"grid__times": 10**60}),
        ("train.batch_size", {"train__batch_size": 10**9}),
        ("grid.k", {"grid__k": 10**9}),
        ("grid.k", {"grid__k": 10**30}),
        ("privacy.epsilon", {"privacy__epsilon": 1e-200}),
        ("privacy.epsilon", {"privacy__epsilon": 1e300}),
        ("privacy.delta", {"privacy__delta": 5e-324}),
        ("micro_batch", {"micro_batch": 10**20}),
        ("seeds", {"seeds": [10**30]}),
    ],
)
def test_absurd_numbers_are_refused_by_their_key_in_one_line(key: str, changes: dict[str, object]) -> None:
    with pytest.raises(UserError) as error:
        _checked_specs(config(**changes))
    message = str(error.value)
    assert message.startswith(f"{key}: expected ")
    assert ", got " in message
    assert "; " in message
    assert "\n" not in message
    assert len(message) < 300


def test_a_grid_of_too_many_points_is_refused_before_they_are_listed() -> None:
    axis = grid.log_spaced(1e-2, 1e2, 900)
    with pytest.raises(UserError, match=r"grid: expected at most 100,000 points, got 810,000; lower grid.k"):
        grid.points({"lr": axis, "clip": axis})


@pytest.mark.parametrize("accountant", ["pld", "prv"])
def test_a_slow_accountant_is_not_asked_for_a_huge_budget(accountant: str) -> None:
    with pytest.raises(UserError, match=f"privacy.epsilon: expected at most 50 with {accountant}"):
        allocate(Budget(5000.0, 1e-5, accountant), Sampling(50, 1000), 5, 100)


def test_two_budgets_never_look_alike_nor_share_a_folder() -> None:
    budgets = [3.0, 2.9999999, math.nextafter(3.0, 4), math.nextafter(3.0, 2)]
    assert len({exact(epsilon) for epsilon in budgets}) == len(budgets)
    assert [float(exact(epsilon)) for epsilon in budgets] == budgets
    (run,) = specs(config(seeds=[0]), fetch=False)
    assert run.privacy is not None
    names = {
        str(dataclasses.replace(run, privacy=dataclasses.replace(run.privacy, epsilon=epsilon)).folder)
        for epsilon in budgets
    }
    assert len(names) == len(budgets)
    assert str(run.grid_folder).endswith("/eps3")

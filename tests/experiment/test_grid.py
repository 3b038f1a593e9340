"""Grids: their values, names and counts; and the best hyperparameters that the paper prints are members of them."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_bench.errors import UserError
from dp_bench.experiment.config import AlsoConfig, GridConfig
from dp_bench.experiment.grid import log_spaced, point_name, points, snap, widen
from dp_bench.experiment.resolve import axes_of
from dp_bench.strategies import STRATEGIES

LR = (10**-2.5, 10**1.5)
PAPERS = ("online", "fixed_threshold", "fixed_quantile", "adam_wosm", "no_dp")


def paper_axes(strategy, k, **also):
    return axes_of(strategy, GridConfig(k=k, also=AlsoConfig(**also)))


# Rows as printed, in the order of the four epsilons; None if every run diverged. Columns that the paper marks with a
# star, or should have (FIDELITY: FixedThreshold on MNIST k=9, FixedQuantile on AG News k=5), are 1000 times too large.
STARRED = {
    ("mnist", 5, "fixed_threshold"),
    ("mnist", 9, "fixed_threshold"),
    *((d, k, "fixed_quantile") for d in ("mnist", "ag_news") for k in (5, 7, 9)),
}
BEST = {
    ("mnist", 5, "online"): [(0.316,), (0.316,), (3.162,), (3.162,)],
    ("mnist", 5, "fixed_threshold"): [(3162.0, 0.01), (3.162, 10.0), (3.162, 10.0), (3.162, 10.0)],
    ("mnist", 5, "fixed_quantile"): [(3.162, 0.5), (3.162, 0.7), (3.162, 0.7), (3.162, 0.7)],
    ("mnist", 5, "adam_wosm"): [(10.0,), (10.0,), (10.0,), (10.0,)],
    ("mnist", 5, "no_dp"): [(0.003162,)],
    ("mnist", 7, "online"): [(0.3162,), (1.467,), (1.467,), (1.467,)],
    ("mnist", 7, "fixed_threshold"): [(0.01467, 1.0), (0.003162, 4.64), (6.812, 0.010), (6.812, 0.010)],
    ("mnist", 7, "fixed_quantile"): [(3.162, 0.5), (3.162, 0.7), (3.162, 0.7), (3.162, 0.7)],
    ("mnist", 7, "adam_wosm"): [(21.54,), (21.54,), (21.54,), (21.54,)],
    ("mnist", 7, "no_dp"): [(0.003162,)],
    ("mnist", 9, "online"): [(0.316,), (1.00,), (1.00,), (1.00,)],
    ("mnist", 9, "fixed_threshold"): [(100.0, 0.1), (3.162, 3.162), (3162.0, 0.01), (3.162, 10.0)],
    ("mnist", 9, "fixed_quantile"): [(3.162, 0.5), (3.162, 0.5), (3.162, 0.7), (3.162, 0.7)],
    ("mnist", 9, "adam_wosm"): [(10.0,), (10.0,), (31.62,), (31.62,)],
    ("mnist", 9, "no_dp"): [(0.003162,)],
    ("fashion_mnist", 5, "online"): [(0.316,), (3.162,), (3.162,), (3.162,)],
    ("fashion_mnist", 5, "fixed_threshold"): [(0.0316, 0.01), (3.162, 0.01), (0.3162, 0.10), (31.62, 0.01)],
    ("fashion_mnist", 5, "fixed_quantile"): [None, (0.316, 0.3), (3.162, 0.1), (3.162, 0.1)],
    ("fashion_mnist", 5, "adam_wosm"): [(0.01,), (0.01,), (0.01,), (0.01,)],
    ("fashion_mnist", 5, "no_dp"): [(0.003162,)],
    ("fashion_mnist", 7, "online"): [(0.3162,), (1.467,), (1.467,), (1.467,)],
    ("fashion_mnist", 7, "fixed_threshold"): [(0.0681, 0.010), (1.467, 0.010), (6.812, 0.010), (1.467, 0.0464)],
    ("fashion_mnist", 7, "fixed_quantile"): [None, (0.3162, 0.3), (1.467, 0.1), (1.467, 0.3)],
    ("fashion_mnist", 7, "adam_wosm"): [(0.01,), (0.01,), (0.0464,), (0.01,)],
    ("fashion_mnist", 7, "no_dp"): [(0.01467,)],
    ("fashion_mnist", 9, "online"): [(0.100,), (1.000,), (3.162,), (3.162,)],
    ("fashion_mnist", 9, "fixed_threshold"): [(0.0316, 0.01), (0.100, 0.01), (0.3162, 0.10), (1.000, 0.10)],
    ("fashion_mnist", 9, "fixed_quantile"): [None, (0.316, 0.3), (1.000, 0.1), (1.000, 0.3)],
    ("fashion_mnist", 9, "adam_wosm"): [(0.0100,), (0.0100,), (0.0316,), (0.0316,)],
    ("fashion_mnist", 9, "no_dp"): [(0.003162,)],
    ("ag_news", 5, "online"): [(0.0316,), (0.3162,), (0.3162,), (0.3162,)],
    ("ag_news", 5, "fixed_threshold"): [(3.162, 0.01), (3.162, 0.01), (3.162, 0.01), (3.162, 0.01)],
    ("ag_news", 5, "fixed_quantile"): [(3.162, 0.5), (3.162, 0.7), (3.162, 0.7), (3.162, 0.7)],
    ("ag_news", 5, "adam_wosm"): [(0.01,), (0.01,), (0.01,), (0.01,)],
    ("ag_news", 5, "no_dp"): [(0.003162,)],
    ("ag_news", 7, "online"): [(0.06812,), (0.06812,), (0.06812,), (0.06812,)],
    ("ag_news", 7, "fixed_threshold"): [(1.467, 0.01), (1.467, 0.010), (1.467, 0.010), (0.03162, 0.0464)],
    ("ag_news", 7, "fixed_quantile"): [(3.162, 0.5), (3.162, 0.5), (3.162, 0.7), (3.162, 0.7)],
    ("ag_news", 7, "adam_wosm"): [(0.01,), (0.01,), (0.01,), (0.01,)],
    ("ag_news", 7, "no_dp"): [(0.003162,)],
    ("ag_news", 9, "online"): [(0.1,), (0.1,), (0.1,), (0.1,)],
    ("ag_news", 9, "fixed_threshold"): [(1.000, 0.01), (0.316, 0.0316), (0.100, 0.1), (0.316, 0.0316)],
    ("ag_news", 9, "fixed_quantile"): [(3.162, 0.5), (3.162, 0.5), (3.162, 0.7), (3.162, 0.7)],
    ("ag_news", 9, "adam_wosm"): [(0.0100,), (0.0100,), (0.0100,), (0.0316,)],
    ("ag_news", 9, "no_dp"): [(0.003162,)],
}
MISPRINT = ("ag_news", 7, "fixed_threshold", 3)


def test_every_best_hyperparameter_of_the_paper_is_in_its_grid_but_for_the_misprint():
    outside = []
    for (dataset, k, strategy), rows in BEST.items():
        axes = paper_axes(strategy, k)
        for i, row in enumerate(rows):
            if row is None:
                continue
            scale = 1e-3 if (dataset, k, strategy) in STARRED else 1.0
            printed = dict(zip(axes, (row[0] * scale, *row[1:]), strict=True))
            try:
                snapped = {name: snap(value, axes[name], name) for name, value in printed.items()}
            except UserError:
                outside.append((dataset, k, strategy, i))
            else:
                assert snapped in points(axes)
    assert outside == [MISPRINT]
    assert sum(row is not None for (*_, s), rows in BEST.items() for row in rows if s != "no_dp") == 3 * 47


def test_the_misprint_is_corrected_by_one_digit():
    lr = paper_axes("fixed_threshold", 7)["lr"]
    with pytest.raises(UserError):
        snap(0.03162, lr, "lr")
    assert snap(0.3162, lr, "lr") == pytest.approx(10**-0.5)


@pytest.mark.parametrize("k", [5, 7, 9])
def test_points_per_strategy(k):
    counts = {strategy: len(points(paper_axes(strategy, k))) for strategy in PAPERS}
    assert counts == {"online": k, "fixed_threshold": k**2, "fixed_quantile": 5 * k, "adam_wosm": k, "no_dp": k}


def test_runs_of_the_whole_paper():
    seeds, epsilons, datasets = 5, 4, 3
    configurations = 0
    for k in (5, 7, 9):
        for strategy in PAPERS:
            configurations += len(points(paper_axes(strategy, k))) * (1 if strategy == "no_dp" else epsilons)
    assert configurations * seeds * datasets == 18_435


def test_the_papers_axes():
    assert log_spaced(1e-2, 1e2, 5) == (0.01, 0.1, 1.0, 10.0, 100.0)
    assert log_spaced(10**-2.5, 10**1.5, 5) == pytest.approx(
        (0.00316228, 0.0316228, 0.316228, 3.16228, 31.6228), rel=1e-5
    )
    assert log_spaced(1e-2, 1e2, 7) == pytest.approx((0.01, 0.0464159, 0.215443, 1, 4.64159, 21.5443, 100), rel=1e-5)
    assert paper_axes("fixed_quantile", 9)["quantile"] == (0.1, 0.3, 0.5, 0.7, 0.9)


def test_a_value_shared_by_two_granularities_is_the_same_float():
    assert set(log_spaced(*LR, 5)) < set(log_spaced(*LR, 9))
    assert log_spaced(*LR, 7)[3] in log_spaced(*LR, 5)


def test_values_do_not_depend_on_the_last_bits_of_a_power():
    assert all(float(f"{value:.12g}") == value for k in (5, 7, 9) for value in log_spaced(*LR, k))


@given(low=st.floats(1e-6, 1e3), factor=st.floats(1.5, 1e6), k=st.integers(2, 50))
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_log_spaced_in_general(low, factor, k):
    values = log_spaced(low, low * factor, k)
    assert len(values) == k
    assert values[0] == pytest.approx(low, rel=1e-9)
    assert values[-1] == pytest.approx(low * factor, rel=1e-9)
    ratio = factor ** (1 / (k - 1))
    assert all(after / before == pytest.approx(ratio, rel=1e-9) for before, after in itertools.pairwise(values))


@pytest.mark.parametrize("k", [1, 0, -3])
def test_fewer_than_two_values_are_refused(k):
    with pytest.raises(UserError, match=rf"at least 2.*got {k}"):
        log_spaced(1, 10, k)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (2, 1), (1, 1), (1, math.inf), (math.nan, 1)])
def test_impossible_ranges_are_refused(low, high):
    with pytest.raises(UserError, match="0 < low < high"):
        log_spaced(low, high, 5)


@given(index=st.integers(0, 8), digits=st.integers(3, 12))
def test_snap_returns_the_member_that_is_meant(index, digits):
    candidates = paper_axes("online", 9)["lr"]
    assert snap(float(f"{candidates[index]:.{digits}g}"), candidates, "lr") == candidates[index]


def test_snap_takes_the_nearest_of_two():
    assert snap(1.004, [1.0, 1.005], "lr") == 1.005


@pytest.mark.parametrize("value", [0.315, 0.32, 0.2, 1e9, -0.316, 0.0, math.nan, math.inf])
def test_snap_refuses_what_is_not_in_the_grid(value):
    with pytest.raises(UserError) as error:
        snap(value, log_spaced(*LR, 5), "lr")
    message = str(error.value)
    assert "0.003162, 0.03162, 0.3162, 3.162, 31.62" in message
    assert f"grid.also.lr=[{value:g}]" in message
    assert "\n" not in message


def test_widen():
    assert widen((1.0, 10.0), (3.0, 0.5)) == (0.5, 1.0, 3.0, 10.0)
    assert widen((1.0, 10.0), (1.004, 10.01)) == (1.0, 10.0)
    assert widen((0.99,), (0.995, 0.999)) == (0.99, 0.995, 0.999)


def test_listed_values_are_all_kept():
    listed = GridConfig(axes={"lr": [0.999, 0.9991, 0.99, 0.99]})
    assert axes_of("online", listed) == {"lr": (0.99, 0.999, 0.9991)}


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_widen_refuses_impossible_values(value):
    with pytest.raises(UserError, match="positive and finite"):
        widen((1.0,), (value,))


def test_a_widened_grid_contains_its_new_value_and_counts_it():
    axes = paper_axes("fixed_threshold", 5, lr=[0.2], clip=[])
    assert snap(0.2, axes["lr"], "lr") == 0.2
    assert len(points(axes)) == 6 * 5


def test_axes_keep_their_order_and_choices_are_sorted():
    chosen = GridConfig(k=2, lr=[1, 10], quantile=[0.9, 0.1], also=AlsoConfig(quantile=[0.5]))
    assert list(axes_of("fixed_quantile", chosen).items()) == [("lr", (1.0, 10.0)), ("quantile", (0.1, 0.5, 0.9))]


def test_axes_refuse_what_is_not_swept_and_what_has_no_values(monkeypatch):
    with pytest.raises(UserError, match=r"grid\.also\.clip: expected .*sweeps \(lr\)"):
        paper_axes("online", 5, clip=[0.5])
    monkeypatch.setattr(STRATEGIES["online"], "swept", ("momentum",))
    with pytest.raises(UserError, match="expected values for momentum"):
        paper_axes("online", 5)
    with pytest.raises(UserError, match="expected values for lr"):
        points({"lr": ()})


def test_points_in_a_fixed_order():
    assert points({"lr": (1.0, 2.0), "clip": (0.1, 0.2)}) == [
        {"lr": 1.0, "clip": 0.1},
        {"lr": 1.0, "clip": 0.2},
        {"lr": 2.0, "clip": 0.1},
        {"lr": 2.0, "clip": 0.2},
    ]
    assert points({}) == [{}]


def test_point_name():
    assert point_name({"lr": 0.31622, "clip": 1.0}) == "lr=0.3162,clip=1"
    assert point_name({"lr": 1e-5, "clip": 123456.0}) == "lr=1e-05,clip=1.235e05"
    assert point_name({}) == "fixed"


@given(
    k=st.integers(2, 12),
    lr=st.lists(st.floats(1e-8, 1e8), max_size=6),
    quantile=st.lists(st.floats(1e-4, 1 - 1e-4), max_size=6),
)
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_names_are_unique_and_usable_as_folders_in_any_widened_grid(k, lr, quantile):
    grid = points(paper_axes("fixed_quantile", k, lr=lr, quantile=quantile))
    names = [point_name(point) for point in grid]
    assert len(set(names)) == len(names)
    assert not set("".join(names)) & set("/\\+ '\"*?[]")
    for name, point in zip(names, grid, strict=True):
        read = dict(part.split("=") for part in name.split(","))
        assert {n: float(v) for n, v in read.items()} == pytest.approx(point, rel=1e-3)


@pytest.mark.parametrize("values", [(1.0, 1.00001), (2.0, 2.0)])
def test_values_that_print_alike_are_refused(values):
    with pytest.raises(UserError, match="that differ in their first four digits"):
        points({"lr": values})

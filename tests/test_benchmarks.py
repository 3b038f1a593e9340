"""The benchmark measures what it says: the same arithmetic in all contenders, honest rows, computed verdicts.

No time is asserted: a test machine is busy.
"""

import argparse
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import bench  # noqa: E402
import collecting  # noqa: E402
import contenders  # noqa: E402
import figure  # noqa: E402
import floor  # noqa: E402
import growth  # noqa: E402
import job as jobs  # noqa: E402
import operations  # noqa: E402
import options  # noqa: E402
import step  # noqa: E402
import step_tables  # noqa: E402
import targets  # noqa: E402
import together  # noqa: E402
import truth  # noqa: E402
import versions  # noqa: E402
import whole_run  # noqa: E402
from contenders import (  # noqa: E402
    COMPILED,
    COPY,
    FIXED_THRESHOLD,
    GHOST,
    ONLINE,
    PLAIN,
    SAME_LAYOUT,
    SGEMM,
    WITH_NOISE,
    Job,
    SameLayout,
)
from workers import FailedError, Worker  # noqa: E402

from dp_bench.mechanism.clipping import FlatModel, clipped_sums  # noqa: E402
from dp_bench.mechanism.clipping.flat import flattened  # noqa: E402
from dp_bench.report.render.markdown import markdown  # noqa: E402
from dp_bench.strategies.no_dp import NoDP  # noqa: E402
from dp_bench.tasks import TASKS  # noqa: E402

pytestmark = pytest.mark.slow(reason="measures in worker processes")

ROWS = 2000
LR = 1e-3  # at which a wrong update shows, unlike at the benchmark's


@pytest.fixture(scope="module")
def measured() -> list[step.Row]:
    return step.measure("bag_of_words", 1, 2, (PLAIN, SAME_LAYOUT, "unknown", ONLINE, SGEMM, COPY), rows=ROWS)


def synthetic_row(contender: str, **numbers: float) -> step.Row:
    row = {"model": "cnn", "threads": 1, "contender": contender, "reason": None}
    return {**row, "ms": 100.0, "ms_low": 90.0, "ms_high": 110.0, **numbers}


@pytest.fixture
def synthetic_rows() -> list[step.Row]:
    return [
        synthetic_row(PLAIN, ratio_plain=1.0, peak_ratio=1.0),
        synthetic_row(FIXED_THRESHOLD, ratio_plain=0.7, ratio_same_layout=1.0, peak_ratio=0.4, sgemm_fraction=0.5),
        synthetic_row(ONLINE, ratio_plain=0.8, ratio_same_layout=1.1, peak_ratio=1.3, sgemm_fraction=0.4),
        synthetic_row("Opacus hooks", ratio_plain=8.0, peak_ratio=9.0),
        synthetic_row("Opacus ew", ratio_plain=6.0, peak_ratio=9.0),
        synthetic_row(GHOST, ratio_plain=2.0, peak_ratio=2.0),
        synthetic_row(COMPILED, ratio_plain=1.6, peak_ratio=2.0),
        synthetic_row(floor.FLOOR, ratio_plain=0.3),
    ]


@pytest.mark.parametrize("model", list(jobs.DATASETS))
def test_the_baselines_and_the_engine_have_the_same_gradient(model: str) -> None:
    way = TASKS[jobs.DATASETS[model]].recipe()
    data = contenders.synthetic(contenders.spec_for(Job(PLAIN, model, 1), "no_dp"), 6)
    x, y = data.train_x, data.train_y
    torch.manual_seed(0)
    module = way.build()
    way.losses(module(x), y).sum().backward()
    plain = torch.cat([flattened(p.grad[None])[0] for p in module.parameters()])

    def rebuilt() -> torch.nn.Sequential:
        torch.manual_seed(0)
        return way.build()

    same = replace(way, build=rebuilt)
    second = SameLayout(same, micro_batch=4).summed_gradient(x, y)
    no_dp = NoDP(lr=1.0, noise_multiplier=0.0, batch_size=6)
    model_ = FlatModel(rebuilt())
    ours = clipped_sums(model_, way.losses, x, y, no_dp.queries(no_dp.init(model_.params)), micro_batch=4)["gradient"]
    scale = plain.abs().max()
    torch.testing.assert_close(second / scale, plain / scale, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours / scale, plain / scale, rtol=1e-4, atol=1e-5)


def test_the_baseline_with_its_momentum_in_place_trains_as_sgd_does() -> None:
    models = [torch.nn.Linear(3, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    usual = torch.optim.SGD(models[0].parameters(), lr=LR, momentum=contenders.MOMENTUM)
    ours = contenders.sgd(models[1], LR)
    for _ in range(3):
        for model, optimiser in zip(models, (usual, ours), strict=True):
            optimiser.zero_grad()
            model(torch.ones(4, 3)).square().sum().backward()
            optimiser.step()
    assert torch.equal(models[0].weight, models[1].weight)


def test_the_second_baseline_trains_as_sgd_does() -> None:
    way = TASKS["ag_news"].recipe({"words": 2})
    x, y = torch.rand(8, 100), torch.randint(4, (8,))
    torch.manual_seed(1)
    training = SameLayout(way, micro_batch=3, lr=LR)
    torch.manual_seed(1)
    module = way.build()
    optimiser = torch.optim.SGD(module.parameters(), lr=LR, momentum=contenders.MOMENTUM)
    for _ in range(3):
        training.update(x, y, 8)
        optimiser.zero_grad()
        way.losses(module(x), y).mean().backward()
        optimiser.step()
    plain = torch.cat([flattened(p.detach()[None])[0] for p in module.parameters()])
    torch.testing.assert_close(training.model.params, plain)


def test_the_baseline_with_noise_draws_as_many_vectors_as_online() -> None:
    job = Job(ONLINE, "bag_of_words", 1)
    vectors = len(contenders.spec_for(job, "online").build_strategy().multipliers())
    assert contenders.CONTENDERS[WITH_NOISE].keywords == {"noises": vectors}
    training = SameLayout(contenders.recipe_of(job), micro_batch=8, lr=LR)
    before = training.model.params.clone()
    training.update(torch.rand(0, 1250), torch.randint(4, (0,)), 1, vectors)  # of an empty batch only noise is left
    noise = (before - training.model.params) / (LR * contenders.CLIP)
    assert noise.var() == pytest.approx(vectors, rel=0.05)


def test_a_row_for_each_contender(measured: list[step.Row]) -> None:
    rows = {row["contender"]: row for row in measured}
    assert list(rows) == [PLAIN, SAME_LAYOUT, "unknown", ONLINE, SGEMM, COPY, floor.FLOOR]
    for name in (PLAIN, SAME_LAYOUT, ONLINE):
        row = rows[name]
        assert row["reason"] is None
        assert row["turns"] >= 1
        assert 0 < row["ms_low"] <= row["ms"] <= row["ms_high"]
        assert row["ratio_plain"] > 0
        assert row["ratio_same_layout"] > 0
        assert row["sgemm_fraction"] > 0
        assert row["peak_mb"] is None or row["peak_mb"] > 0
    assert rows[PLAIN]["ratio_plain"] == rows[SAME_LAYOUT]["ratio_same_layout"] == 1
    assert rows[SGEMM]["sgemm_fraction"] == 1
    assert rows[ONLINE]["clipped"] == pytest.approx(truth.CLIPPED_SHARE["bag_of_words"], abs=truth.SHARE_TOLERANCE)
    assert rows[PLAIN]["clipped"] is None
    assert rows[COPY]["gb_per_second"] > 0
    assert 0 < rows[floor.FLOOR]["sgemm_fraction"] < 1, "its memory traffic takes time as well"
    json.dumps(measured)


def test_a_failing_contender_is_reported_and_the_rest_survive(measured: list[step.Row]) -> None:
    failed = next(row for row in measured if row["contender"] == "unknown")
    assert "unknown" in failed["reason"]
    assert "ms" not in failed
    table = markdown(step_tables.steps_table(measured))
    assert f"unknown does not run the bag_of_words: {failed['reason']}" in table


def test_a_worker_that_dies_says_so() -> None:
    with Worker(Job(SGEMM, "cnn", 1)) as worker:
        worker.ready()
        assert worker.steps(2) > 0
        worker._process.kill()
        with pytest.raises(FailedError, match="exit code -9"):
            worker.steps(1)


def test_another_checkout_takes_the_steps_of_its_own_code(tmp_path: Path) -> None:
    """A copy of the tree whose FixedThreshold cannot be built: only its worker fails."""
    for name in ("benchmarks", "dp_bench", "conf"):
        shutil.copytree(BENCHMARKS.parent / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    job = Job(FIXED_THRESHOLD, "bag_of_words", 1, batch=16, rows=64)
    ours, theirs = versions.compare(job, tmp_path, repetitions=1)
    assert ours.keys() == theirs.keys() == set(range(4))
    assert min(*ours.values(), *theirs.values()) > 0
    strategy = tmp_path / "dp_bench/strategies/fixed_threshold.py"
    strategy.write_text(strategy.read_text().replace("def queries", "def other_queries"))
    with pytest.raises(FailedError, match="queries"):
        versions.compare(job, tmp_path, repetitions=1)


def test_long_steps_are_compared_with_their_own_rounds() -> None:
    assert step.ratio({0: 6.0, 3: 8.0}, {0: 2.0, 1: 100.0, 2: 100.0, 3: 4.0}) == 2.5
    assert step.ratio({0: 1.0}, {}) is None
    assert step.quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert step.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)


def test_useful_operations_are_those_of_the_layers() -> None:
    weights = [1250 * 128, 128 * 128, 128 * 4]
    # Forward, weight gradients, and input gradients of all layers but the first.
    assert contenders.useful_flops("bag_of_words") == 2 * 512 * (2 * sum(weights) + sum(weights[1:]))


def test_targets_are_computed(synthetic_rows: list[step.Row]) -> None:
    judged = {j.what: j for j in targets.judged_steps(synthetic_rows)}
    assert judged["Online / plain"].met is False
    assert judged["FixedThreshold / plain"].met is True
    assert judged["Online / plain, our layout"].met is True
    assert judged["peak memory, the larger of ours / plain"].met is False
    assert judged["Online, fraction of sgemm speed"].met is False
    # The fastest of the modes that have per-example gradients, and ghost clipping by itself.
    assert judged["Opacus' fastest per-example mode / Online"].measured == pytest.approx(7.5)
    assert judged["Opacus' fastest per-example mode / Online"].met is True
    assert judged["Opacus' ghost clipping / Online"].measured == pytest.approx(2.5)
    assert judged["Opacus' ghost clipping / Online"].met is False
    assert judged[f"strongest rival ({COMPILED}) / Online"].measured == pytest.approx(2.0)
    assert judged[f"strongest rival ({COMPILED}) / Online"].met is True
    synthetic_rows[2]["ratio_plain"] = 0.52
    assert next(j for j in targets.judged_steps(synthetic_rows) if j.what == "Online / plain").met is True


def test_what_was_not_measured_is_neither_met_nor_missed(synthetic_rows: list[step.Row]) -> None:
    judged = targets.judged_steps([row for row in synthetic_rows if row["contender"] != GHOST])
    ghost = next(j for j in judged if "ghost" in j.what)
    assert ghost.met is None
    assert "not measured" in markdown(targets.targets_table([ghost]))


def test_the_headline_names_the_strongest_rival_and_the_floor(synthetic_rows: list[step.Row]) -> None:
    table = step_tables.headline_table(synthetic_rows)
    assert COMPILED in table.rows[0]
    text = markdown(table)
    assert floor.FLOOR in text
    assert "0.300" in text
    without = [row for row in synthetic_rows if row["contender"] not in contenders.RIVALS]
    assert "not measured" in markdown(step_tables.headline_table(without))


def test_exponents() -> None:
    assert growth.exponent([1, 2, 4], [3, 6, 12]) == pytest.approx(1)
    assert growth.exponent([1, 10, 100], [5, 500, 50000]) == pytest.approx(2)


def test_a_whole_run_and_everything_written(
    synthetic_rows: list[step.Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for times in ("_STEPS", "_EVALUATIONS", "_CHECKPOINTS"):
        monkeypatch.setattr(whole_run, times, 2)
    whole = whole_run.measure(1, ROWS, 15, tmp_path)
    assert (whole["steps"], whole["evaluations"]) == (59, 3)
    assert whole["ratio"] > 0
    assert whole["checkpoint_share"] > 0
    assert not list(tmp_path.iterdir()), "the temporary folder stays"
    results = {
        "machine": bench._machine(),
        "load_before": [3.0],
        "models": ["cnn", "bag_of_words"],
        "minutes": 1.0,
        "steps": synthetic_rows,
        "growth": [
            {"model": "cnn", "against": "batch size", "sizes": [1, 2], "ms": [1, 3], "exponent": 1.0}
            | {"exponent_of_the_last_two": 1.58},
            collecting.measure(1, [20, 40]),
        ],
        "together": [{"model": "cnn", "ratio": 1.9, "ratios": [1.8, 2.0]}],
        "whole_run": whole,
    }
    bench.write(results, tmp_path)
    written = json.loads((tmp_path / "bench.json").read_text())
    verdicts = {t["what"]: t["met"] for t in written["targets"]}
    assert verdicts["exponent of time in parameters"] is None
    assert verdicts["exponent of time in runs"] is not None
    places = {(t["what"], t["where"].split(",")[0]): t["met"] for t in written["targets"]}
    assert places["throughput of two processes / one", "cnn"] is True
    assert places["throughput of two processes / one", "bag_of_words"] is None, "it was not measured"
    assert "not quiet" in (tmp_path / "bench.md").read_text()
    assert all((tmp_path / name).stat().st_size > 0 for name in ("bench.png", "bench.pdf"))


def test_the_figure_stands_a_part(synthetic_rows: list[step.Row]) -> None:
    assert len(figure.draw(synthetic_rows, []).axes) == 4


def test_a_part_that_fails_is_named_and_the_others_run(
    synthetic_rows: list[step.Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "measure", lambda model, *_: synthetic_rows if model == "cnn" else {}["no model"])
    monkeypatch.setattr(growth, "batch_growth", lambda *_: {}["no process"])
    monkeypatch.setattr(together, "measure", lambda model, *_: {"model": model, "ratio": 1.9, "ratios": [1.9]})
    monkeypatch.setattr(collecting, "measure", lambda *_: {}["no store"])
    results = bench.measure(["cnn", "autoencoder"], [1], 3, tmp_path)
    assert results["failed"].keys() == {
        "steps, autoencoder, 1",
        "growth, cnn",
        "growth, autoencoder",
        "collecting results",
    }
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["steps"] == synthetic_rows
    assert [t["ratio"] for t in written["together"]] == [1.9, 1.9, 1.9]
    assert "not measured" in (tmp_path / "bench.md").read_text()


@pytest.mark.parametrize("wrong", ["0", "-3", "1.5", "many", ""])
def test_an_invalid_number_of_times_is_refused(wrong: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"found {wrong}, expected a whole number from 1 on"):
        options.positive(wrong)
    arguments = options.parser("", 3)
    options.add_threads(arguments)
    found = arguments.parse_args(["--repetitions=2", "--threads", "1", "4"])
    assert (found.repetitions, found.threads) == (2, [1, 4])


def test_operations_of_a_step_by_the_shapes_they_work_on() -> None:
    table = operations.measure(Job(ONLINE, "bag_of_words", 1, rows=ROWS), 3)
    calls = {(name, shapes): float(count) for name, shapes, count, *_ in table.rows}
    assert calls["aten::addmm", "128 Bx1250 1250x128"] == 1, "the first layer, once a step whatever the batch's size"
    assert sum(float(share) for *_, share in table.rows) <= 100.1

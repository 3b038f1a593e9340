"""The clipping trade-off: right by hand, all C together as one by one, and the training none the wiser."""

import csv
import io
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from running import carry_out, contents, data_of, smoke
from torch import nn

import dp_bench.training.trainer
from dp_bench import cli
from dp_bench.files.checksummed import read_checksummed
from dp_bench.mechanism.clipping import FlatModel
from dp_bench.mechanism.noise import normal
from dp_bench.mechanism.rng import rng
from dp_bench.privacy.rounding import ROUNDING
from dp_bench.report.build import build
from dp_bench.report.chart import Chart
from dp_bench.report.load.collect import collect
from dp_bench.report.render import pictures
from dp_bench.tasks.base import Recipe
from dp_bench.testing import one_by_one
from dp_bench.training import trade_off
from dp_bench.training.checkpoint import parameters_of
from dp_bench.training.trade_off import LABEL, Measurement, Observed, Row, measure
from dp_bench.training.trainer import Training, noise_key

pytestmark = pytest.mark.usefixtures("without_data")
CPU = torch.device("cpu")
# A model of 23,684 parameters and 101 steps: enough for the first of the paper's t.
SMALL = ["dataset.words=1", "dataset.limit=200", "train.batch_size=20", "train.epochs=10.1", "train.evaluate_every=50"]
ONLINE = ["profile=smoke", "dataset=ag_news", "strategy=online", "strategy.lr=0.316"]


def unseen(step: int, row: dict | None) -> None:
    pass


def by_hand(noise_multiplier: float) -> Observed:
    """Two examples with the gradients (3, 4) and (0, 1), whatever the parameters; both are in every batch."""
    spec = smoke("fixed_threshold")[0]
    training = Observed(spec, data_of(spec), CPU)
    training.model = FlatModel(nn.Sequential(nn.Linear(2, 1, bias=False)))
    training.recipe = Recipe(nn.Sequential, lambda out, y: out[:, 0] * y, lambda out, y: out)
    training.train_x, training.train_y = torch.tensor([[3.0, 4.0], [0.0, 0.5]]), torch.tensor([1.0, 2.0])
    training.strategy = replace(training.strategy, noise_multiplier=noise_multiplier)
    return training


def observed(*overrides: str, strategy: str = "online") -> Observed:
    spec = smoke(strategy, "dataset.words=1", *overrides)[0]
    return Observed(spec, data_of(spec), CPU)


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(a.double() @ b.double() / a.double().norm() / b.double().norm())


def test_without_noise_by_hand() -> None:
    rows = by_hand(0.0).trade_off([0.1, 1.0, 10.0], draws=2)
    # C = 0.1 clips both, to (0.06, 0.08) and (0, 0.1); C = 1 the first, to (0.6, 0.8); C = 10 none: (3, 5) is true.
    bias = (3 * 1 + 5 * 3) / math.hypot(1, 3) / math.hypot(3, 5)
    assert [row.cosine for row in rows] == pytest.approx([bias, bias, 1.0])
    assert [row.sd for row in rows] == pytest.approx([0, 0, 0], abs=1e-9)
    assert [(row.t, row.C) for row in rows] == [(0, 0.1), (0, 1.0), (0, 10.0)]


def test_with_noise_by_hand() -> None:
    training = by_hand(0.7)
    (row,) = training.trade_off([2.0], draws=3)
    clipped, true = torch.tensor([3 * 2 / 5, 4 * 2 / 5 + 1]), torch.tensor([3.0, 5.0])
    generator = rng(noise_key(training.spec), "trade-off noise t=0 C=2.0")
    found = [cosine(clipped + normal(clipped, (1 + ROUNDING) * 0.7 * 2, generator), true) for _ in range(3)]
    assert len(set(found)) == 3
    assert row.cosine == pytest.approx(sum(found) / 3)
    assert row.sd == pytest.approx(torch.tensor(found).double().std().item())


@pytest.mark.parametrize("strategy", ["online", "fixed_quantile"])
@pytest.mark.slow(reason="trains small models")
def test_it_is_sanitised_as_the_strategy_would(strategy: str) -> None:
    """Against plain autograd on the batch that the next step draws, with the noise of the strategy's own query."""
    training = observed(strategy=strategy)
    (row,) = training.trade_off([0.05], draws=2)
    members = training._draw()
    parts = one_by_one(training.model, training.recipe.losses, training.train_x[members], training.train_y[members])
    gradients = torch.cat([g for _, part in parts for g in part.tensors], dim=1)
    norms = gradients.norm(dim=1, keepdim=True)
    assert (norms > 0.05).any()
    clipped = (gradients * (0.05 / norms).clamp(max=1)).sum(0)
    (own, *_) = training.strategy.queries(training.state)
    generator = rng(training.key, "trade-off noise t=0 C=0.05")
    noisy = [clipped + normal(clipped, (1 + ROUNDING) * own.noise_multiplier * 0.05, generator) for _ in range(2)]
    assert row.cosine == pytest.approx(sum(cosine(g, gradients.sum(0)) for g in noisy) / 2, rel=1e-4)


def test_no_noise_and_a_huge_threshold_is_the_true_gradient() -> None:
    training = observed()
    training.strategy = replace(training.strategy, noise_multiplier=0.0)
    (row,) = training.trade_off([1e9], draws=2)
    assert row.cosine == pytest.approx(1, abs=1e-9)
    assert row.sd == pytest.approx(0, abs=1e-9)


@pytest.mark.slow(reason="trains small models")
def test_all_thresholds_together_are_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    training = observed()
    passes = []
    real = dp_bench.training.trainer.clipped_sums

    def counted(*args, **options):
        passes.append(len(args[4]))
        return real(*args, **options)

    monkeypatch.setattr(dp_bench.training.trainer, "clipped_sums", counted)
    together = training.trade_off(trade_off.CLIPS, draws=3)
    assert passes == [len(trade_off.CLIPS) + 1]
    alone = [row for clip in trade_off.CLIPS for row in training.trade_off([clip], draws=3)]
    for a, b in zip(together, alone, strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-6)


def test_the_range_and_the_steps_are_the_papers() -> None:
    assert (trade_off.CLIPS[0], trade_off.CLIPS[-1]) == pytest.approx((1e-2, 1e2))
    assert list(trade_off.CLIPS) == sorted(trade_off.CLIPS)
    assert (trade_off.STEPS, trade_off.DRAWS) == ((100, 250, 500, 750, 950), 20)


@pytest.mark.parametrize("strategy", ["online", "fixed_threshold", "fixed_quantile", "adam_wosm"])
def test_training_is_not_disturbed(strategy: str) -> None:
    spec = smoke(strategy, "dataset.words=1")[0]
    dataset = data_of(spec)
    plain, looked_at = Training(spec, dataset, CPU), Observed(spec, dataset, CPU)
    for _ in range(4):
        assert looked_at.trade_off([0.1, 1.0], draws=2) == looked_at.trade_off([0.1, 1.0], draws=2)
        plain.advance()
        looked_at.advance()
    assert torch.equal(plain.model.params, looked_at.model.params)
    assert plain.batches.state() == looked_at.batches.state()
    assert plain.noise.state() == looked_at.noise.state()


@pytest.mark.slow(reason="trains small models")
def test_it_measures_the_training_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke("online", "dataset.words=1")[0]
    dataset = data_of(spec)
    carry_out(spec, tmp_path, dataset, keep="all")
    seen: dict[int, bytes] = {}
    real = Observed.trade_off

    def watched(self: Observed, clips: list[float], draws: int) -> list[Row]:
        seen[self.step] = parameters_of(self)
        return real(self, clips, draws)

    monkeypatch.setattr(Observed, "trade_off", watched)
    shown: list[int] = []
    found = measure(spec, dataset, [2, 4], [0.1, 1.0], 2, lambda step, row: shown.append(step))
    assert [(row.t, row.C) for row in found.rows] == [(2, 0.1), (2, 1.0), (4, 0.1), (4, 1.0)]
    assert shown == [0, 1, 2, 3, 4]
    for step, parameters in seen.items():
        ours, theirs = (
            torch.load(io.BytesIO(content))
            for content in (parameters, (tmp_path / spec.folder / f"step{step:05d}.pt").read_bytes())
        )
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_training_that_diverges_is_measured_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke("online", "dataset.words=1")[0]
    judged: list[int] = []

    def divergence(self: Training) -> str | None:
        judged.append(self.step)
        return "the test metric is not finite" if self.step > 2 else None

    monkeypatch.setattr(Training, "divergence", divergence)
    found = measure(spec, data_of(spec), [2, 5], [1.0], 2, unseen)
    assert [row.t for row in found.rows] == [2]
    assert found.diverged == "step 4: the test metric is not finite"
    assert judged == [0, 2, 4]  # where a run of this profile is evaluated, and nowhere else


@pytest.mark.slow(reason="trains, measures and draws a report")
def test_the_command_from_training_to_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*ONLINE, *SMALL, "seeds=[3,1]"]
    spec = smoke("online", *SMALL, "seeds=[3]")[0]
    carry_out(spec, tmp_path / "runs", data_of(spec))
    before = contents(tmp_path)
    assert cli.main(["trade-off", *words]) == 0
    told = capfd.readouterr()
    assert f"{LABEL}; kept in runs/smoke/trade_off/ag_news" in told.out
    assert "generated stand-in, not data" in told.out
    assert "step 100 of 100" in told.err
    after = contents(tmp_path)
    folder = "runs/smoke/trade_off/ag_news"
    assert after.keys() - before.keys() == {f"{folder}/trade_off.csv", f"{folder}/trade_off.json"}
    assert before == {name: after[name] for name in before}  # the run itself is as it was

    rows = list(csv.DictReader(io.StringIO(after[f"{folder}/trade_off.csv"].decode())))
    assert list(rows[0]) == ["t", "C", "cosine", "sd"]
    assert {row["t"] for row in rows} == {"100"}
    assert [float(row["C"]) for row in rows] == list(trade_off.CLIPS)
    assert all(-1 <= float(row["cosine"]) <= 1 for row in rows)
    facts = read_checksummed(tmp_path / folder / "trade_off.json")
    assert (facts["label"], facts["run"], facts["seed"], facts["draws"]) == (LABEL, str(spec.folder), 3, 20)
    assert facts["noise_multiplier"] == pytest.approx(1.01 * spec.allocation.noise_multiplier)
    assert facts["protocol"] == spec.protocol()
    assert "commit" in facts

    (chart,) = trade_off_charts(tmp_path)
    assert chart.panels[0].title == f"AG News ({LABEL})"
    assert [series.label for series in chart.panels[0].series] == ["t = 100"]
    assert chart.panels[0].series[0].y == tuple(float(row["cosine"]) for row in rows)
    for part in ("NOT PRIVATE: it reads true gradients", "Online, ρ = 0.3162, k = 5, ε = 3", "seed 3", "stand-in"):
        assert part in chart.text
    pictures.save(chart, tmp_path)
    assert (tmp_path / "trade_off.png").read_bytes().startswith(b"\x89PNG")

    # A figure never goes by the configuration of other data.
    (tmp_path / folder / "trade_off.csv").write_text("t,C,cosine,sd\n100,1,0.5,0.1\n")
    assert trade_off_charts(tmp_path) == []


def trade_off_charts(folder: Path) -> list[Chart]:
    report = build(collect(folder / "runs", "smoke"), None, ())
    return [chart for chapter in report.chapters for chart in chapter.charts() if chart.name.startswith("trade_off")]


MISTAKES = {
    "too few steps": (
        [],
        "train.epochs: expected more than 100 steps, the first to be measured, got 0.3, which is 6 steps",
    ),
    "no noise": (
        ["strategy=no_dp", "strategy.lr=0.00316"],
        "strategy: expected a private one, as there is nothing to trade without noise, got no_dp",
    ),
    "several configurations": (["-m"], "-m: expected one configuration, got a sweep"),
    "several by another word": (["hydra.mode=MULTIRUN"], "got a sweep"),
    "two values": (["privacy.epsilon=3,5"], "privacy.epsilon"),
    "unknown key": (["steps=[1]"], "steps"),
    "value outside the grid": (["strategy.lr=0.5"], "grid.also.lr=[0.5]"),
    "missing data": ([*SMALL, "dataset.stand_in=false"], "DP_BENCH_DATA"),
    "a folder that cannot be": ([*SMALL, "runs=/proc/nowhere"], "/proc/nowhere"),
}


@pytest.mark.parametrize(("words", "named"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.slow(reason="trains small models")
def test_a_mistake_is_one_line_and_exit_code_2_and_nothing_is_written(
    words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Training, "advance", lambda self: pytest.fail("trained"))
    assert cli.main(["trade-off", *ONLINE, *words]) == 2
    told = capfd.readouterr().err.strip()
    assert named in told
    assert told.startswith("dp-bench: ")
    assert len(told.splitlines()) == 1, told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="trains small models")
def test_one_that_diverges_in_its_first_step_is_a_mistake_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    diverged = Measurement([], "step 50: parameters are not finite")
    monkeypatch.setattr(trade_off, "measure", lambda *arguments: diverged)
    assert cli.main(["trade-off", *ONLINE, *SMALL]) == 2
    expected = "expected a run that reaches step 100, got one that diverged at step 50: parameters are not finite"
    assert expected in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="trains small models")
def test_an_interrupted_one_promises_no_more_than_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Training) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Training, "advance", interrupted)
    assert cli.main(["trade-off", *ONLINE, *SMALL]) == 130
    assert "interrupted; nothing was written" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_is_quick_and_says_that_it_is_not_private() -> None:
    code = (
        "import sys; from dp_bench.cli import main; main(['trade-off', '--help']);"
        "assert not {'torch', 'hydra', 'omegaconf'} & set(sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for text in ("usage: dp-bench trade-off", "NOT PRIVATE: it reads true gradients", "examples:", "strategy.lr=0.316"):
        assert text in told

"""Steps and noise of a larger data set on a part of it: the paper's setting, and never called private."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from report_helpers import synthetic_spec, write_run
from running import POINT, carry_out, composed, data_of, smoke

from dp_bench.errors import UserError
from dp_bench.experiment.plan import Job
from dp_bench.experiment.resolve import specs
from dp_bench.experiment.spec import RunSpec
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.accounting import epsilon
from dp_bench.privacy.calibration import allocate, true_epsilon
from dp_bench.privacy.guarantee import guarantee
from dp_bench.report.build import build
from dp_bench.report.load.collect import collect
from dp_bench.sweep.ledger import ledger
from dp_bench.training.job import _introduction
from dp_bench.training.run import _epsilons
from dp_bench.training.trainer import Training

SIZE = 120_000


def emulating(*overrides: str) -> RunSpec:
    """One run on synthetic data that emulates a larger set; of the verify profile, as nothing else may."""
    chosen = ["dataset=ag_news", "strategy=online", *POINT["online"], "dataset.stand_in=true", "dataset.limit=2000"]
    return specs(composed("profile=verify", *chosen, f"dataset.emulate_size={SIZE}", *overrides))[0]


@pytest.mark.slow(reason="calibrates a budget of its own")
def test_steps_and_noise_are_those_of_the_larger_set_and_batches_come_from_what_is_there() -> None:
    spec = emulating()
    assert spec.source.train_rows == 2000
    assert spec.steps == round(10 * SIZE / 512)
    assert spec.allocation == allocate(spec.allocation.budget, Sampling(512, SIZE), 5, spec.steps)
    training = Training(spec, data_of(spec), torch.device("cpu"))
    sizes = [len(training._draw()) for _ in range(200)]
    assert sum(sizes) / len(sizes) == pytest.approx(512, abs=10)  # not 512 * 2000 / 120000


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_the_true_epsilon_is_that_of_the_rows_that_are_there() -> None:
    spec = emulating()
    true = true_epsilon(spec.allocation, 2000)
    nu = spec.allocation.noise_multiplier
    assert true.run == epsilon("rdp", nu, Sampling(512, 2000), spec.steps, 1e-5)
    assert true.grid == epsilon("rdp", nu, Sampling(512, 2000), 5 * spec.steps, 1e-5)
    assert true.run > 10 * spec.allocation.epsilon_run
    assert _epsilons(spec, [0, spec.steps]) == [0.0, true.run]  # metrics.csv never shows less than was spent


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_it_says_so_wherever_an_epsilon_is_shown(tmp_path: Path) -> None:
    spec = replace(emulating("train.epochs=0.01"), machine=smoke("online")[0].machine)
    words = "emulated: epsilon is the paper's setting, not a guarantee for this data"
    true = f"{true_epsilon(spec.allocation, 2000).grid:.3f} per grid"
    assert carry_out(spec, tmp_path, data_of(spec)).no_guarantee.startswith(words)
    for shown in ("\n".join(_introduction(spec)), ledger([Job((), (spec,), tmp_path)], [])):
        assert "NOT private" in shown
        assert words in shown
        assert true in shown
    assert guarantee(smoke("online")[0].allocation, smoke("online")[0].source.train_rows).holds


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_no_epsilon_is_called_true_where_its_accountant_proves_nothing() -> None:
    spec = emulating("privacy.accountant=rdp_wor")
    assert guarantee(spec.allocation, 2000).words == (
        "emulated: epsilon is the paper's setting, not a guarantee for this data; "
        "rdp_wor: epsilon is not a guarantee; for comparison with the paper only"
    )


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_the_report_never_counts_it_as_private(tmp_path: Path) -> None:
    honest = synthetic_spec("ag_news", "online", profile="verify", variant="data=subset", kind="subset", lr=0.3162)
    source = replace(honest.source, train_rows=62_069)
    budget = honest.allocation.budget
    variant = f"dataset.emulate_size={SIZE},data=subset"
    emulated = replace(
        honest, variant=variant, source=source, allocation=allocate(budget, Sampling(512, SIZE), 5, honest.steps)
    )
    steps = round(10 * 62_069 / 512)
    honest = replace(honest, source=source, steps=steps, allocation=allocate(budget, Sampling(512, 62_069), 5, steps))
    for seed in range(2):  # more runs of the emulated one: the other still comes first
        write_run(tmp_path, replace(emulated, seed=seed), [0.25, 0.86])
    write_run(tmp_path, honest, [0.25, 0.85])
    main, other = build(collect(tmp_path, "verify"), None, ()).chapters
    assert not any("NOT PRIVATE" in text for text in main.banners)
    true = f"{true_epsilon(emulated.allocation, 62_069).grid:.2f}"
    assert any("emulated: ε is the paper's setting" in text and true in text for text in other.banners)
    for chart in other.charts():
        if "ε" in chart.text and not chart.name.startswith("deviations"):
            assert "emulated: ε is the paper's setting" in chart.text, chart.name
    (ledger_table,) = [table for table in other.tables() if table.name == "privacy_ag_news"]
    assert "rdp (emulated: not private)" in ledger_table.cells[0]
    assert f"{true_epsilon(emulated.allocation, 62_069).grid:.3f}" in ledger_table.cells[0]
    best = [table for table in other.tables() if table.name.startswith("best_")]
    assert best
    assert all("emulated" in " ".join((table.caption, *table.footnotes)) for table in best)
    assert all(true in words for table in best for words in table.guarantees)


@pytest.mark.parametrize("profile", ["paper", "quick", "smoke"])
def test_it_is_refused_outside_verify(profile: str) -> None:
    with pytest.raises(UserError, match="expected profile=verify"):
        composed(f"profile={profile}", "dataset=ag_news", *POINT["online"], f"dataset.emulate_size={SIZE}")


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_it_is_refused_where_there_is_nothing_to_emulate() -> None:
    with pytest.raises(UserError, match="expected more than the 2000 training rows"):
        emulating("dataset.emulate_size=2000")


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_a_run_without_it_keeps_the_digest_it_had() -> None:
    assert "emulate_size" not in smoke("online")[0].protocol()["dataset"]
    assert emulating().protocol()["dataset"]["emulate_size"] == SIZE

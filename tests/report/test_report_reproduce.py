"""What a newcomer is shown: full protocols are judged, reduced and synthetic ones never, the reference comes first."""

from dataclasses import replace
from pathlib import Path

import pytest
from report_helpers import PROVENANCE, synthetic_spec, write_run

from dp_bench.experiment.config import DatasetConfig, TrainConfig
from dp_bench.experiment.record import RunRecord
from dp_bench.report.analysis.scorecard import NOT_JUDGED, NOT_RUN, REPRODUCED, rankings, section_scores
from dp_bench.report.build import build
from dp_bench.report.commands import repeat, reproduce
from dp_bench.report.load.collect import collect
from dp_bench.report.load.sections import sections
from dp_bench.report.tables.scorecard import headline
from dp_bench.tasks import TASKS
from dp_bench.training.trainer import ARITHMETIC


def judged(runs: tuple[RunRecord, ...]) -> dict[str, set[str]]:
    """The verdicts of each data set that was run."""
    found: dict[str, set[str]] = {}
    for section in sections(runs):
        for score in section_scores(section):
            if score.verdict != NOT_RUN:
                found.setdefault(score.cell.dataset, set()).add(score.verdict)
    return found


@pytest.fixture
def full(tmp_path: Path) -> RunRecord:
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9119])
    return collect(tmp_path, "paper").runs[0]


def test_only_the_full_protocol_is_judged(full: RunRecord) -> None:
    spec = full.spec
    assert judged((full,)) == {"mnist": {REPRODUCED}}
    for reduced in (
        replace(spec, dataset=replace(spec.dataset, limit=6000)),
        replace(spec, train=replace(spec.train, epochs=1.6)),
        replace(spec, train=replace(spec.train, batch_size=128)),
        replace(spec, source=replace(spec.source, kind="stand-in")),
    ):
        run = replace(full, spec=reduced)
        assert judged((run,)) == {"mnist": {NOT_JUDGED}}
        (section,) = sections([run])
        scores = section_scores(section)
        assert all(score.deviations is None and score.gain is None for score in scores)
        assert "none of these is judged" in headline(scores)
        assert {ranking.verdict for ranking in rankings(scores)} == {NOT_RUN}
    assert isinstance(spec.dataset, DatasetConfig)
    assert TrainConfig().epochs == 10, "what full means"


def test_synthetic_data_stand_in_no_table_of_real_data(tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec("mnist", lr=0.3162), [0.1, 0.9])
    write_run(tmp_path, synthetic_spec("ag_news", kind="stand-in", variant="data=stand-in", lr=0.3162), [0.1, 0.9])
    made = sections(collect(tmp_path, "paper").runs)
    assert [set(section.variants) for section in made] == [{"mnist"}, {"ag_news"}]
    alone = [run for run in collect(tmp_path, "paper").runs if run.spec.dataset.name == "ag_news"]
    assert [section.slug for section in sections(alone)] == [""]


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_page_opens_with_the_reference(tmp_path: Path) -> None:
    write_run(tmp_path / "kept", synthetic_spec(profile="verify", lr=0.3162), [0.1, 0.91])
    for profile in ("quick", "verify"):
        write_run(tmp_path / "runs", synthetic_spec("ag_news", profile=profile, lr=0.3162), [0.1, 0.5])
    here = collect(tmp_path / "runs", "quick,verify")
    assert {run.spec.profile for run in here.runs} == {"quick", "verify"}
    report = build(here, None, [], collect(tmp_path / "kept", "verify"))
    first, *rest = report.chapters
    assert (first.folder, first.from_here) == ("reference", False)
    assert all(chapter.from_here for chapter in rest)
    assert {cell.grid.key.dataset: cell.from_here for cell in report.cells} == {"mnist": False, "ag_news": True}
    assert report.counts["runs done"] == "1"


def test_ag_news_is_trained_in_full_where_it_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    source = synthetic_spec("ag_news", lr=0.3162).source
    full, reduced = reproduce.sweeps(source)
    assert "profile=verify" in full
    assert not any("emulate" in word for word in full)
    assert "dataset=mnist,fashion_mnist" in reduced
    part, _ = reproduce.sweeps(replace(source, kind="subset"))
    assert "dataset.emulate_size=120000" in part
    (alone,) = reproduce.sweeps(None)
    assert {"dataset=mnist,fashion_mnist,ag_news", "profile=quick"} <= set(alone)
    monkeypatch.setenv("DP_BENCH_OFFLINE", "1")
    monkeypatch.setenv("DP_BENCH_DATA", "/nowhere")
    monkeypatch.setenv("DP_BENCH_CACHE", "/nowhere")
    assert reproduce._source() is None
    assert "ag_news" in TASKS


@pytest.mark.parametrize(
    ("arithmetic", "seconds", "words"),
    [(9, 1.0, "made by arithmetic 9 and this is"), (ARITHMETIC, 1e4, "took less than 120 s")],
)
def test_why_no_run_is_repeated(tmp_path: Path, arithmetic: int, seconds: float, words: str) -> None:
    origin = {**PROVENANCE, "machine": {"arithmetic": arithmetic}, "seconds_of_last_session": seconds}
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9], provenance=origin)
    answer = repeat.same_bits(collect(tmp_path, "paper").runs)
    assert answer.startswith("this machine gives the same bits: no, because ")
    assert words in answer


@pytest.mark.slow(reason="trains a run twice")
def test_the_same_bits_are_recognized_and_others_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dp_bench import cli

    monkeypatch.setenv("DP_BENCH_OFFLINE", "1")
    monkeypatch.setenv("DP_BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / "cache"))
    chosen = ["profile=smoke", "dataset=ag_news", "strategy=online", "strategy.lr=0.3162", "grid.k=5", "seeds=[0]"]
    assert cli.main(["run", *chosen, f"runs={tmp_path / 'runs'}", "quiet=true"]) == 0
    (run,) = collect(tmp_path / "runs", "smoke").runs
    assert repeat.same_bits([run]).startswith("this machine gives the same bits: yes (smoke/")
    head, *rows = run.metrics.splitlines()
    other = replace(run, metrics="\n".join([head, rows[0], rows[1].replace(",0.", ",0.9", 1), *rows[2:]]) + "\n")
    other = replace(other, provenance=replace(run.provenance, versions={**run.provenance.versions, "torch": "1.0"}))
    answer = repeat.compared(other)
    assert "no, because" in answer
    assert f"differs from step {rows[1].partition(',')[0]} on" in answer
    assert "torch 1.0 there" in answer


def test_the_table_at_the_end_has_full_and_reduced_apart_and_no_other_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeat, "compared", lambda run: "this machine gives the same bits: yes")
    for variant in ("default", "strategy.momentum=0"):
        spec = synthetic_spec(profile="verify", variant=variant, lr=0.3162)
        write_run(tmp_path / "kept", spec, [0.1, 0.9119])
    reduced = synthetic_spec(profile="quick", lr=0.3162)
    reduced = replace(reduced, dataset=replace(reduced.dataset, limit=6000), variant="dataset.limit=6000")
    write_run(tmp_path / "runs", reduced, [0.1, 0.5])
    reproduce._summary(tmp_path / "runs", ["quick"], tmp_path / "kept")
    head, *rows, answer = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["from", "data"]
    assert [row.split() for row in rows] == [
        ["reference", "MNIST", "full", "1", "1", "-", "-", "-"],
        ["this", "machine", "MNIST", "reduced", "1", "-", "-", "-", "1"],
    ]
    assert answer.startswith("this machine gives the same bits: ")

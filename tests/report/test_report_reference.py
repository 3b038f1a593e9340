"""What is kept for good: the runs behind a report, the commands that give them again, and the table in the README."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from report_helpers import small_store, synthetic_spec, write_run
from running import composed

from dp_bench.errors import UserError
from dp_bench.experiment.resolve import specs
from dp_bench.report import names
from dp_bench.report.commands.report import make_report
from dp_bench.report.load.collect import collect
from dp_bench.report.load.sections import sections
from dp_bench.report.outputs import appendix, picture, readme
from dp_bench.report.tables.commands import commands_table

PROJECT = Path(__file__).parents[2]
REFERENCE = PROJECT / "reports" / "reference" / "runs"


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_command_names_the_run_that_it_gives_again(tmp_path: Path) -> None:
    places = {
        "online": {"lr": 0.3162},
        "fixed_threshold": {"lr": 3.162, "clip": 0.01},
        "fixed_quantile": {"lr": 0.003162, "quantile": 0.5},
        "adam_wosm": {"clip": 0.1},
        "no_dp": {"lr": 0.003162},
    }
    for strategy, point in places.items():
        for seed in (0, 3):
            spec = synthetic_spec("mnist", strategy, 9, 7.0, seed, profile="verify", **point)
            write_run(tmp_path, spec, [0.1, 0.9])
    collection = collect(tmp_path, "verify")
    (section,) = sections(collection.runs)
    table = commands_table(section.results)
    assert table is not None
    given = set()
    for *_, command in table.rows:
        program, verb, *overrides = shlex.split(command)
        assert (program, verb) == ("dp-bench", "run")
        given |= {str(spec.folder) for spec in specs(composed(*overrides, "dataset.stand_in=true"))}
    # The data of this machine may be others than those of the synthetic runs; the variant says so.
    expected = {folder.split("/", 2)[2] for folder in (run.folder for run in collection.runs)}
    assert {folder.split("/", 2)[2] for folder in given} == expected


def test_a_variant_is_repeated_as_it_was(tmp_path: Path) -> None:
    variant = "strategy.momentum=0,data=subset"
    spec = synthetic_spec(variant=variant, profile="verify", kind="subset", lr=0.3162)
    write_run(tmp_path, replace(spec, hyperparameters={**spec.hyperparameters, "momentum": 0.0}), [0.1, 0.9])
    (section,) = sections(collect(tmp_path, "verify").runs)
    table = commands_table(section.results)
    assert table is not None
    ((_, commit, command),) = table.rows
    assert commit == "0123456"
    # A tree with changes is not a commit, and must not pass as one.
    assert names.commit(f"{commit}789+") == f"{commit}+"
    assert " strategy.momentum=0 " in command
    assert "data=subset" not in command


@pytest.mark.slow(reason="writes a whole report")
def test_the_readme_gets_the_table_between_its_marks(tmp_path: Path) -> None:
    runs = small_store(tmp_path / "runs")
    file = tmp_path / "README.md"
    file.write_text(f"before\n{readme.START}\nearlier\n{readme.END}\nafter\n")
    make_report(runs, "paper", tmp_path / "out", readme=file)
    text = file.read_text()
    assert text.startswith(f"before\n{readme.START}\n")
    assert text.endswith(f"{readme.END}\nafter\n")
    assert "earlier" not in text
    assert "| MNIST | Online | 3 | 91.19 ± 0.51 | 91.19 ± 0.51 | reproduced (tuned) | 3 | 2: 2 reproduced |" in text
    assert "| Fashion MNIST | FixedQuantile | 1 | diverged | diverged | reproduced | 3 | 1: 1 reproduced |" in text
    readme.update(file, sections(collect(runs, "paper").runs))
    assert file.read_text() == text


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_other_readings_are_named_and_not_listed(tmp_path: Path) -> None:
    runs = small_store(tmp_path / "runs")
    alone = readme.block(sections(collect(runs, "paper").runs))
    for seed in range(2):
        write_run(
            runs, synthetic_spec("mnist", "online", 5, 3.0, seed, variant="strategy.momentum=0", lr=0.316), [0.1, 0.9]
        )
    both = readme.block(sections(collect(runs, "paper").runs))
    rows, alone_rows = ([line for line in text.splitlines() if line.startswith("|")] for text in (both, alone))
    assert rows == alone_rows
    assert "Other readings of the paper that were run on some of these cells: `strategy.momentum=0`." in both
    assert "Other readings" not in alone


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_a_readme_without_marks_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text("mine")
    with pytest.raises(UserError, match="got no place for the results"):
        readme.update(file, sections(collect(small_store(tmp_path / "runs"), "paper").runs))
    assert file.read_text() == "mine"


@pytest.mark.slow(reason="reads all reference runs")
@pytest.mark.skipif(not REFERENCE.is_dir(), reason="no reference runs are kept in this tree")
def test_the_readme_says_what_the_reference_runs_say() -> None:
    table = readme.block(sections(collect(REFERENCE, "verify").runs))
    assert table in (PROJECT / "README.md").read_text()


@pytest.mark.slow(reason="reads all reference runs")
@pytest.mark.skipif(not REFERENCE.is_dir(), reason="no reference runs are kept in this tree")
def test_the_appendix_says_what_the_reference_runs_say() -> None:
    assert (PROJECT / "docs" / "artifact.md").read_text() == appendix.text(sections(collect(REFERENCE, "verify").runs))


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_appendix_names_claim_command_minutes_and_output(tmp_path: Path) -> None:
    text = appendix.text(sections(collect(small_store(tmp_path), "paper").runs))
    (row,) = (line for line in text.splitlines() if line.startswith("| MNIST, Online, k = 5, ε = 3 |"))
    claim, command, minutes, expected = (cell.strip() for cell in row.strip("| ").split(" | "))
    assert "ε = 3" in claim
    assert "dp-bench run profile=paper dataset=mnist strategy=online" in command
    assert int(minutes) >= 0
    assert expected == "91.19 ± 0.51; published 91.19 ± 0.51: reproduced (tuned)"
    assert "| `make reproduce` |" in text


@pytest.mark.slow(reason="writes a whole report, or simulates searches")
def test_the_picture_has_a_panel_per_data_set_published_beside_ours(tmp_path: Path) -> None:
    runs = small_store(tmp_path / "runs")
    part = {"kind": "subset", "variant": "data=subset"}
    write_run(runs, synthetic_spec("mnist", "online", 5, 3.0, 0, **part, lr=0.316), [0.1, 0.2])
    found = sections(collect(runs, "paper").runs)
    chart = picture.overview(found)
    assert chart is not None
    assert [panel.title for panel in chart.panels] == ["MNIST, k = 5"], "every run of Fashion MNIST diverged"
    online = [one for one in chart.panels[0].series if one.look == "online"]
    assert [one.hollow for one in online] == [False, True]
    assert max(online[0].y) > 90, "of the main protocol"
    picture.write(tmp_path / "docs" / "results.png", found)
    assert (tmp_path / "docs" / "results.png").read_bytes().startswith(b"\x89PNG")


def test_the_reference_page_stays_small() -> None:
    assert (REFERENCE.parent / "verify" / "index.html").stat().st_size < 3_000_000

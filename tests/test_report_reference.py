"""What is kept for good: the runs behind a report, the commands that give them again, and the table in the README."""

import shlex
from pathlib import Path

import pandas as pd
import pytest
from report_helpers import made_up_spec, small_store, write_run
from running import composed

from dp_bench.errors import UserError
from dp_bench.report import commands, readme
from dp_bench.report.collect import collect
from dp_bench.report.command import make_report
from dp_bench.report.keep import copy_runs
from dp_bench.report.results import sections
from dp_bench.spec import specs

PROJECT = Path(__file__).parent.parent
REFERENCE = PROJECT / "reports" / "reference" / "runs"


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
            spec = made_up_spec("mnist", strategy, 9, 7.0, seed, profile="verify", **point)
            write_run(tmp_path, spec, [0.1, 0.9])
    collection = collect(tmp_path, "verify")
    (section,) = sections(collection.runs)
    table = commands.table(section.results, section.runs)
    given = set()
    for *_, command in table.rows:
        program, verb, *overrides = shlex.split(command)
        assert (program, verb) == ("dp-bench", "run")
        given |= {str(spec.folder) for spec in specs(composed(*overrides, "dataset.stand_in=true"))}
    # The data of this machine may be others than those of the made-up runs; the variant says so.
    expected = {folder.split("/", 2)[2] for folder in collection.runs["folder"]}
    assert {folder.split("/", 2)[2] for folder in given} == expected


def test_a_variant_is_repeated_as_it_was(tmp_path: Path) -> None:
    variant = "strategy.momentum=0,privacy.delta=1e-06,data=subset"
    write_run(tmp_path, made_up_spec(variant=variant, profile="verify", lr=0.3162), [0.1, 0.9])
    (section,) = sections(collect(tmp_path, "verify").runs)
    ((_, commit, command),) = commands.table(section.results, section.runs).rows
    assert commit == "0123456"
    assert commands.short(f"{commit}789+") == f"{commit}+"  # a tree with changes is no commit, and must not pass as one
    assert "strategy.momentum=0 privacy.delta=1e-06 " in command
    assert "data=subset" not in command


def test_kept_runs_make_the_same_report(tmp_path: Path) -> None:
    runs = small_store(tmp_path / "runs")
    unfinished = made_up_spec(lr=0.3162, seed=9)
    write_run(runs, unfinished, [0.1, 0.2])
    (runs / unfinished.folder / "result.json").unlink()
    (runs / unfinished.folder / "checkpoint.pt").write_bytes(b"large")
    kept = tmp_path / "kept"
    copy_runs(collect(runs, "paper"), kept)
    assert not list(kept.rglob("*.pt"))
    before, after = collect(runs, "paper").runs, collect(kept, "paper").runs
    done = before[before["status"] != "unfinished"].reset_index(drop=True)
    assert len(before) == len(done) + 1
    pd.testing.assert_frame_equal(after, done, check_dtype=False)


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


def test_other_readings_are_named_and_not_listed(tmp_path: Path) -> None:
    runs = small_store(tmp_path / "runs")
    alone = readme.block(sections(collect(runs, "paper").runs))
    for seed in range(2):
        write_run(
            runs, made_up_spec("mnist", "online", 5, 3.0, seed, variant="strategy.momentum=0", lr=0.316), [0.1, 0.9]
        )
    both = readme.block(sections(collect(runs, "paper").runs))
    rows, alone_rows = ([line for line in text.splitlines() if line.startswith("|")] for text in (both, alone))
    assert rows == alone_rows
    assert "Other readings of the paper that were run on some of these cells: `strategy.momentum=0`." in both
    assert "Other readings" not in alone


def test_a_readme_without_marks_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text("mine")
    with pytest.raises(UserError, match="found no place for the results"):
        readme.update(file, sections(collect(small_store(tmp_path / "runs"), "paper").runs))
    assert file.read_text() == "mine"


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="no reference runs are kept in this tree")
def test_the_readme_says_what_the_reference_runs_say() -> None:
    table = readme.block(sections(collect(REFERENCE, "verify").runs))
    assert table in (PROJECT / "README.md").read_text()

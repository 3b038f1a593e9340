"""Files from others: stores, reports, archives and configurations that are not to be trusted."""

import hashlib
import json
import random
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from report_helpers import PROVENANCE, synthetic_spec, write_run
from running import composed

from dp_bench.cli import main
from dp_bench.errors import UserError
from dp_bench.experiment.archive import archive
from dp_bench.experiment.conf import configuration_folder, dotted
from dp_bench.experiment.rerun_command import SET_BY_PROFILES, SETS_NOTHING, command
from dp_bench.experiment.resolve import specs
from dp_bench.experiment.spec import RunSpec
from dp_bench.files.checksummed import checksummed_line, read_checksummed, write_checksummed
from dp_bench.files.names import no_formula
from dp_bench.files.swapped import MANIFEST, replaced_folder
from dp_bench.report.load.collect import collect
from dp_bench.report.render.markdown import lines
from dp_bench.report.table import Table


def test_a_report_removes_only_what_it_wrote_and_only_in_its_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    with replaced_folder(tmp_path / "report") as folder:
        (folder / "page").write_text("old")
        (folder / "gone").write_text("old")
    digest = hashlib.sha256(b"mine").hexdigest()
    manifest = tmp_path / "report" / MANIFEST
    planted = f"../outside.txt\n{outside}\n{digest}  ../outside.txt\n{digest}  {outside}\n{digest}  link\n"
    manifest.write_text(manifest.read_text() + planted)
    (tmp_path / "report" / "link").symlink_to(outside)
    (tmp_path / "report" / "notes").write_text("mine")
    with replaced_folder(tmp_path / "report") as folder:
        (folder / "page").write_text("new")
    assert outside.read_text() == "mine"
    found = {path.name for path in (tmp_path / "report").iterdir()}
    assert found == {"page", MANIFEST, "notes", "link"}
    assert (tmp_path / "report" / "page").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_report_that_fails_leaves_its_predecessor(tmp_path: Path) -> None:
    with replaced_folder(tmp_path / "report") as folder:
        (folder / "page").write_text("old")

    def fail() -> None:
        with replaced_folder(tmp_path / "report") as folder:
            (folder / "page").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "report" / "page").read_text() == "old"


def test_a_report_is_not_written_over_runs_or_through_a_link(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", synthetic_spec(lr=0.3162), [0.1, 0.9])
    assert main(["report", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "runs")]) == 2
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "paper").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="expected a folder, got a link"), replaced_folder(tmp_path / "paper"):
        pass


@pytest.mark.parametrize("place", ["/proc/x", "/dev/null", "/dev/null/x"])
def test_a_report_that_cannot_be_written_is_one_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs", synthetic_spec(lr=0.3162), [0.1, 0.9])
    assert main(["report", "--runs", str(tmp_path / "runs"), "--out", place]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert place in line


@pytest.mark.parametrize("profile", ["../../x", "/tmp/x", "a/b", ".", ".hidden", "a\nb"])
def test_names_that_lead_elsewhere(profile: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "paper" / "v").mkdir(parents=True)
    spec = synthetic_spec(lr=0.3162, profile=profile)
    stored = {"folder": str(spec.folder), "spec": spec.to_json(), "result": None, "metrics": "", "provenance": None}
    (tmp_path / "runs" / "paper" / "v" / "mnist.jsonl").write_bytes(checksummed_line(stored))
    outcome = archive(tmp_path / "runs", tmp_path / "kept", ["paper"])
    assert outcome.added == 0
    assert "expected the name of one folder" in outcome.skipped[0].reason
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "runs"]
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("name", ["metrics.csv", "spec.json", "result.json", "provenance.json"])
def test_links_in_a_store_are_not_read(name: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs", synthetic_spec(lr=0.3162), [0.1, 0.9])
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    outcome = archive(tmp_path / "runs", tmp_path / "kept", ["paper"])
    assert (outcome.added, len(outcome.skipped)) == (0, 1)
    assert "link" in outcome.skipped[0].reason


def test_markup_and_formulas_stay_text() -> None:
    table = Table("t", "c", ("a",), (("<script>x</script> [a](http://x) `|\n=1",),))
    assert lines(table)[-1] == r"| \<script>x\</script> [a]\(http://x) \`\| =1 |"
    assert [no_formula(cell) for cell in ("=1+1", "@x", "-2+3+cmd|' /C'!A0", "+x")] == [
        *("'=1+1", "'@x", "'-2+3+cmd|' /C'!A0", "'+x")
    ]
    for number in ("-1.5", "+2e-5", "-inf", "-1.20 +- 0.30", "-1.00 to 2.00", "x=1"):
        assert no_formula(number) == number


def mutations(content: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy in which one value, at any depth, is missing, renamed or another."""
    copy = json.loads(json.dumps(content))
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, dict | list):
                visit(value)

    visit(copy)
    node, key = rng.choice(places)
    other = rng.choice(
        [None, -1, 10**400, 1e308, float("nan"), "", "../x", "é\x00", [], {}, [[]], True, {"a": 1}, "drop"]
    )
    if other == "drop":
        del node[key]
    else:
        node[key] = other
    return dict(copy)


@pytest.mark.parametrize("name", ["spec.json", "result.json"])
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_whatever_a_foreign_store_says_it_is_named_and_skipped_or_believed(name: str, tmp_path: Path) -> None:
    """With a checksum that fits: somebody wrote it on purpose."""
    write_run(tmp_path, synthetic_spec(lr=0.3162, seed=1), [0.1, 0.9])  # a report needs one
    folder = write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    whole, rng = read_checksummed(folder / name), random.Random(19)
    for _ in range(150):
        changed = mutations(whole, rng)
        changed.pop("sha256", None)
        write_checksummed(folder / name, changed)
        found = collect(tmp_path, "paper")
        assert len(found.runs) + len(found.skipped) == 2


@pytest.mark.parametrize("name", ["spec.json", "result.json", "metrics.csv", "provenance.json"])
def test_whatever_is_damaged_is_named_and_skipped(name: str, tmp_path: Path) -> None:
    write_run(tmp_path, synthetic_spec(lr=0.3162, seed=1), [0.1, 0.9])
    folder = write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9])
    whole, rng = (folder / name).read_bytes(), random.Random(19)
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        (folder / name).write_bytes(bytes(damaged[: rng.choice([len(whole), rng.randrange(len(whole))])]))
        found = collect(tmp_path, "paper")
        assert len(found.runs) == (2 if name == "provenance.json" else 1)


PICKS: dict[str, Callable[[random.Random], str]] = {
    "privacy.epsilon": lambda r: repr(r.choice([3, 2.9999999, 0.1 + 0.2, r.uniform(0.5, 9)])),
    "privacy.delta": lambda r: repr(r.uniform(1e-7, 1e-4)),
    "grid.k": lambda r: str(r.randint(2, 9)),
    "grid.lr": lambda r: f"[0.316,{r.uniform(1, 50)!r}]",
    "grid.also.lr": lambda r: f"[{r.uniform(60, 90)!r}]",
    "grid.times": lambda r: str(r.randint(1, 3)),
    "train.epochs": lambda r: repr(r.uniform(0.3, 2)),
    "train.batch_size": lambda r: str(r.randint(50, 200)),
    "train.evaluate_every": lambda r: str(r.randint(1, 50)),
    "dataset.limit": lambda r: r.choice(["1000", "1999"]),
    "dataset.words": lambda r: str(r.randint(5, 30)),
    "strategy.momentum": lambda r: repr(r.choice([0, 0.9, r.random() / 2])),
    "strategy.update_rule": lambda r: r.choice(["additive", "cosine"]),
    "seed": lambda r: "secure",
    "threads": lambda r: "2",
    "micro_batch": lambda r: "64",
}


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize("number", range(12))
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_a_printed_command_chooses_the_same_run(number: int) -> None:
    rng = random.Random(number)
    chosen = [f"{key}={PICKS[key](rng)}" for key in rng.sample(sorted(PICKS), 6)]
    words = [
        "profile=smoke",
        "dataset=ag_news",
        "strategy=online",
        "strategy.lr=0.316",
        "grid.lr=[0.316,3.16]",
        *chosen,
    ]
    first = specs(composed(*words))[0]
    stored = RunSpec.from_json(json.loads(json.dumps(first.to_json())))
    program, verb, *again = shlex.split(command("run", stored, [stored.seed]))
    assert (program, verb) == ("dp-bench", "run")
    (second,) = specs(composed(*again))
    assert second.digest() == first.digest()
    assert second.folder == first.folder
    assert second.machine == first.machine


def test_what_profiles_set_is_always_printed() -> None:
    protocol = ("dataset.", "model.", "privacy.", "grid.", "train.")
    found = {}
    for path in (configuration_folder() / "profile").glob("*.yaml"):
        keys = {key for key in dotted(yaml.safe_load(path.read_text())) if key.startswith(protocol)}
        found[path.stem] = keys - {"dataset.stand_in"}
    assert {name for name, keys in found.items() if not keys} == set(SETS_NOTHING)
    assert set().union(*found.values()) == set(SET_BY_PROFILES)


def test_hosts_and_commits_of_others_stay_text(tmp_path: Path) -> None:
    evil = {**PROVENANCE, "host": "=cmd|'/C'!A0 <img src=x onerror=y>\n| `", "commit": "<b>x"}
    write_run(tmp_path, synthetic_spec(lr=0.3162), [0.1, 0.9], provenance=evil)
    (run,) = collect(tmp_path, "paper").runs
    assert run.provenance.host.startswith("=cmd")
    from dp_bench.report.outputs.frames import frame, harmless

    assert harmless(frame([replace(run)])).host[0].startswith("'=cmd")

"""Runs as text files: nothing is lost, nothing is replaced unasked, and the report reads them as it reads folders."""

import json
import shutil
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
from report_helpers import small_store, synthetic_spec, synthetic_trade_off, write_run

from dp_bench.cli import main
from dp_bench.experiment.archive import Skipped, archive, read_archive
from dp_bench.experiment.record import RunRecord, Stored
from dp_bench.files.checksummed import as_json, checksummed_line, read_checksummed, without_checksum, write_checksummed
from dp_bench.report.load.collect import collect

pytestmark = pytest.mark.slow(reason="composes configurations through Hydra")

MNIST = "paper/default/mnist.jsonl"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return small_store(tmp_path / "runs")


def records(root: Path) -> tuple[RunRecord, ...]:
    return collect(root, "paper").runs


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_an_archive_gives_the_same_report(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    synthetic_trade_off(store / "paper/trade_off/mnist")
    unfinished = write_run(store, synthetic_spec(lr=0.3162, seed=9), [0.1, 0.2])
    (unfinished / "result.json").unlink()
    outcome = archive(store, kept, ["paper"])
    assert (outcome.added, outcome.unfinished, outcome.skipped, outcome.differing) == (102, 1, [], [])
    files = {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()}
    trade_off = {f"paper/trade_off/mnist/trade_off.{suffix}" for suffix in ("csv", "json")}
    assert files == {MNIST, "paper/default/fashion_mnist.jsonl", *trade_off}
    assert records(kept) == tuple(run for run in records(store) if run.result is not None)
    assert collect(kept, "paper").trade_offs == collect(store, "paper").trade_offs
    folders = [json.loads(line)["folder"] for line in lines(kept / MNIST)]
    assert folders == sorted(folders)


def test_a_line_has_every_byte_of_the_files_of_its_folder(store: Path, tmp_path: Path) -> None:
    archive(store, tmp_path / "kept", ["paper"])
    for stored in read_archive(tmp_path / "kept", MNIST):
        assert isinstance(stored, Stored)
        folder = store / stored.folder
        for name, content in (("spec.json", stored.spec), ("result.json", stored.result)):
            write_checksummed(tmp_path / name, content)
            assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
        assert stored.metrics.encode() == (folder / "metrics.csv").read_bytes()
        assert as_json(stored.provenance) == (folder / "provenance.json").read_bytes()


def test_archiving_again_changes_nothing_and_adds_what_is_new(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    archive(store, kept, ["paper"])
    before = lines(kept / MNIST)
    assert archive(store, kept, ["paper"]).kept == 102
    assert lines(kept / MNIST) == before
    shutil.rmtree(store)  # what is archived stays, whatever becomes of the folders
    write_run(store, synthetic_spec(lr=0.3162, seed=7), [0.1, 0.8])
    assert (archive(store, kept, ["paper"]).added, len(records(kept))) == (1, 103)
    after = lines(kept / MNIST)
    assert [line for line in after if line in before] == before, "the others keep their lines and their order"


def test_archives_are_merged(store: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    archive(store, one, ["paper"])
    write_run(tmp_path / "more", synthetic_spec(lr=0.3162, seed=7), [0.1, 0.8])
    archive(tmp_path / "more", other, ["paper"])
    assert archive(one, other, ["paper"]).added == 102
    assert len(records(other)) == 103


def test_a_run_that_differs_is_not_replaced_unless_asked(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    spec = synthetic_spec(lr=0.3162)
    archive(store, kept, ["paper"])
    before = lines(kept / MNIST)
    shutil.rmtree(store / spec.folder)
    write_run(store, spec, [0.1, 0.99])
    outcome = archive(store, kept, ["paper"])
    assert (outcome.differing, lines(kept / MNIST)) == ([str(spec.folder)], before)
    outcome = archive(store, kept, ["paper"], replace=True)
    assert (outcome.replaced, outcome.differing) == (1, [])
    assert records(kept) == records(store)


def test_the_same_run_from_another_machine_is_the_same_run(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    archive(store, kept, ["paper"])
    for path in store.rglob("provenance.json"):
        path.write_text('{"host": "another"}')
    assert (archive(store, kept, ["paper"]).kept, archive(store, kept, ["paper"]).differing) == (102, [])


def test_damage_is_named_and_never_lost_nor_believed(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    archive(store, kept, ["paper"])
    first, second, *rest = lines(kept / MNIST)
    edited = first.replace(b"0.52", b"0.98")
    edited = edited if edited != first else first.replace(b'"status":"finished"', b'"status":"diverged"')
    assert edited != first
    torn = second[: len(second) // 2]
    garbage = b'{"folder":"\xff\xfe"\n'
    (kept / MNIST).write_bytes(b"".join([edited, torn + b"\n", *rest, garbage]))
    collection = collect(kept, "paper")
    assert [item.folder for item in collection.skipped] == [f"{MNIST}, line {n}" for n in (1, 2, len(rest) + 3)]
    assert all("damaged" in item.reason for item in collection.skipped)
    assert len(collection.runs) == 100
    more = tmp_path / "more"
    write_run(more, synthetic_spec(lr=0.3162, seed=7), [0.1, 0.8])
    assert len(archive(more, kept, ["paper"]).skipped) == 3
    assert {edited, torn + b"\n", garbage} <= set(lines(kept / MNIST)), "what cannot be read may still be repaired"
    assert archive(store, kept, ["paper"]).added == 2
    assert len(collect(kept, "paper").skipped) == 1, "nothing says which run the garbage was"


def test_a_damaged_folder_is_not_archived(store: Path, tmp_path: Path) -> None:
    folder = store / synthetic_spec(lr=0.3162).folder
    (folder / "metrics.csv").write_text("step,accuracy\n0,1\n")
    outcome = archive(store, tmp_path / "kept", ["paper"])
    (skipped,) = outcome.skipped
    assert skipped.folder == str(synthetic_spec(lr=0.3162).folder)
    assert skipped.reason.startswith("metrics: expected what fits the checksum")
    assert outcome.added == 101


def test_folders_and_archives_are_read_together(store: Path, tmp_path: Path) -> None:
    complete = records(store)
    kept = tmp_path / "kept"
    archive(store, kept, ["paper"])
    shutil.copytree(store / "paper/default/mnist", kept / "paper/default/mnist")  # in both forms
    collection = collect(kept, "paper")
    assert (collection.runs, collection.skipped) == (complete, ())
    shutil.rmtree(store / "paper/default/mnist/online/k5/eps3")  # in one of them
    shutil.copy(kept / MNIST, store / MNIST)
    assert records(store) == complete
    begun = kept / synthetic_spec(lr=0.3162).folder
    (begun / "result.json").unlink()  # trained anew in its folder, finished in the archive
    assert records(kept) == complete


def test_a_run_that_differs_between_its_folder_and_an_archive_is_named(store: Path, tmp_path: Path) -> None:
    spec = synthetic_spec(lr=0.3162)
    archive(store, tmp_path / "kept", ["paper"])
    shutil.rmtree(store / spec.folder)
    write_run(store, spec, [0.1, 0.99])
    shutil.copy(tmp_path / "kept" / MNIST, store / MNIST)
    collection = collect(store, "paper")
    assert collection.skipped == (
        Skipped(
            str(spec.folder),
            "folder: expected what its line in the archive says, got another run; remove the wrong one",
        ),
    )
    assert len(collection.runs) == 101


def test_a_line_under_another_runs_name_is_not_believed(store: Path, tmp_path: Path) -> None:
    archive(store, tmp_path, ["paper"])
    first, *rest = lines(tmp_path / MNIST)
    content = without_checksum(first)
    renamed = {**content, "folder": content["folder"].replace("seed0", "seed5")}
    (tmp_path / MNIST).write_bytes(b"".join([checksummed_line(renamed), *rest]))
    shutil.rmtree(store)
    (skipped,) = collect(tmp_path, "paper").skipped
    assert skipped.reason.startswith("folder: expected its own run, got that of ")


def test_two_processes_archive_into_one_place(store: Path, tmp_path: Path) -> None:
    kept, sources = tmp_path / "kept", []
    for seed in range(20, 26):
        sources.append(tmp_path / f"source{seed}")
        write_run(sources[-1], synthetic_spec(lr=0.3162, seed=seed), [0.1, 0.8])
    threads = [threading.Thread(target=archive, args=(source, kept, ["paper"])) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {run.spec.seed for run in records(kept)} == set(range(20, 26))


def test_the_command_says_what_it_did(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = str(tmp_path / "kept")
    assert main(["archive", str(store), kept, "--profile", "paper"]) == 0
    assert capsys.readouterr().out.startswith("102 runs added, 0 replaced, 0 already there, 0 unfinished, 0 skipped")
    spec = synthetic_spec(lr=0.3162)
    shutil.rmtree(store / spec.folder)
    write_run(store, spec, [0.1, 0.99])
    assert main(["archive", str(store), kept]) == 1
    assert f"1 runs differ from those in {store} and were not replaced, the first {spec.folder}" in (
        capsys.readouterr().err
    )
    assert main(["archive", str(store), kept, "--replace"]) == 0
    for wrong, reason in (
        ([str(store), str(store / "kept")], "TO: expected a folder outside of"),
        ([str(store), kept, "--profile", "smoke"], "FROM: expected runs of the profile smoke, got"),
        ([str(tmp_path / "nowhere"), kept], "FROM: expected a folder of runs, got"),
    ):
        assert main(["archive", *wrong]) == 2
        assert capsys.readouterr().err.startswith(f"dp-bench: {reason}")


def test_what_is_stored_is_what_was_read(store: Path, tmp_path: Path) -> None:
    archive(store, tmp_path, ["paper"])
    for line, stored in zip(lines(tmp_path / MNIST), read_archive(tmp_path, MNIST), strict=True):
        assert isinstance(stored, Stored)
        assert checksummed_line(asdict(stored)) == line
        assert read_checksummed(store / stored.folder / "spec.json") == stored.spec

"""The total over a data set covers all that the store holds, and says so where it cannot."""

from pathlib import Path
from typing import Any

import pytest
from report_helpers import synthetic_spec, write_run

from dp_bench.errors import JobsFailed
from dp_bench.experiment.archive import archive, main
from dp_bench.experiment.spec import RunSpec
from dp_bench.experiment.store import RunFolder
from dp_bench.privacy.accounting import rounded_up
from dp_bench.privacy.allocation import Allocation
from dp_bench.privacy.calibration import total
from dp_bench.report.load.collect import collect
from dp_bench.report.tables.store_totals import total_table


def shown(root: Path) -> tuple[str, str, str]:
    """Private grids, epsilon and what is not counted, of the only data set."""
    table = total_table(collect(root, "paper"))
    assert table is not None
    ((_, grids, _, epsilon, _, omitted),) = table.cells
    return str(grids), str(epsilon), str(omitted)


def times(count: int) -> str:
    allocation = synthetic_spec(lr=0.3162).allocation
    assert isinstance(allocation, Allocation)
    return rounded_up(total([allocation] * count))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs", synthetic_spec(lr=0.3162), [0.1, 0.9])
    return tmp_path / "runs"


def other(**changes: Any) -> RunSpec:
    return synthetic_spec(lr=0.3162, **changes)


def test_every_profile_and_variant_counts(store: Path) -> None:
    assert shown(store) == ("1", times(1), "")
    write_run(store, other(profile="quick"), [0.1, 0.9])
    write_run(store, other(variant="strategy.momentum=0"), [0.1, 0.9])
    assert shown(store) == ("3", times(3), "")


def test_an_unfinished_run_has_spent(store: Path) -> None:
    spec = other(profile="quick")
    folder = RunFolder(store, spec)
    folder.path.mkdir(parents=True)
    assert shown(store) == ("1", times(1), "")
    folder.write_spec()
    assert shown(store) == ("2", times(2), "")


@pytest.mark.parametrize("name", ["result.json", "metrics.csv"])
def test_a_run_that_is_skipped_has_spent(store: Path, name: str) -> None:
    folder = write_run(store, other(variant="strategy.momentum=0"), [0.1, 0.9])
    (folder / name).write_bytes(b"\x00damaged")
    assert len(collect(store, "paper").skipped) == 1
    assert shown(store) == ("2", times(2), "")


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", b"[" * 100_000, None])
def test_a_spec_that_cannot_be_read_makes_the_total_a_lower_bound(store: Path, damage: bytes | None) -> None:
    folder = write_run(store, other(profile="quick"), [0.1, 0.9])
    if damage is None:
        (folder / "spec.json").unlink()
    else:
        (folder / "spec.json").write_bytes(damage)
    assert shown(store) == (
        "1",
        f"at least {times(1)}",
        "1 run begun of which it cannot be read what they spent",
    )


def test_a_damaged_line_of_an_archive_makes_the_total_a_lower_bound(store: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "more", other(profile="quick"), [0.1, 0.9])
    archive(tmp_path / "more", store, ["quick"])
    assert shown(store) == ("2", times(2), "")
    (file,) = (store / "quick").rglob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"noise_multiplier", b"noise_multiplieR", 1))
    assert shown(store)[:2] == ("1", f"at least {times(1)}")


def test_a_run_in_a_folder_and_in_an_archive_counts_once(store: Path, tmp_path: Path) -> None:
    archive(store, tmp_path / "kept", ["paper"])
    archive(tmp_path / "kept", store / ".." / "both", ["paper"])
    write_run(tmp_path / "both", synthetic_spec(lr=0.3162), [0.1, 0.9])
    assert shown(tmp_path / "both") == ("1", times(1), "")


def secure(root: Path, values: list[float], *, profile: str = "quick", seed: int = 0) -> None:
    write_run(root, other(variant="seed=secure", seeding="secure", profile=profile, seed=seed), values)


def test_what_was_released_twice_with_noise_of_its_own_counts_twice(store: Path, tmp_path: Path) -> None:
    secure(store, [0.1, 0.9])
    for number, value in enumerate([0.7, 0.8, 0.9]):  # the last is the one that the store holds already
        secure(tmp_path / f"elsewhere{number}", [0.1, value])
        archive(tmp_path / f"elsewhere{number}", tmp_path / f"kept{number}", ["quick"])
    lines = [next((tmp_path / f"kept{number}").rglob("*.jsonl")) for number in range(3)]
    into = store / lines[0].relative_to(tmp_path / "kept0")
    into.write_bytes(lines[2].read_bytes())
    assert shown(store) == ("2", times(2), "")
    into.write_bytes(lines[0].read_bytes() + lines[1].read_bytes() + lines[2].read_bytes())
    assert shown(store) == ("4", times(4), "")


def test_no_release_is_forgotten_by_an_archive(store: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    secure(first, [0.1, 0.9])
    secure(second, [0.1, 0.8])
    archive(first, tmp_path / "kept", ["quick"])
    with pytest.raises(JobsFailed, match="released twice"):
        main([str(second), str(tmp_path / "kept"), "--replace"])
    (file,) = (tmp_path / "kept").rglob("*.jsonl")
    assert b"0.9" in file.read_bytes()


def test_a_link_beside_the_profiles_may_hold_runs(store: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere", other(profile="quick"), [0.1, 0.9])
    (store / "quick").symlink_to(tmp_path / "elsewhere" / "quick")
    assert shown(store)[:2] == ("1", f"at least {times(1)}")

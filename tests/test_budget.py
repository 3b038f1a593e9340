"""The allocator never overspends, wastes nothing, and gives the same answer with, without and with a broken cache."""

import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_bench import budget as budget_module
from dp_bench.accounting import Sampling, epsilon
from dp_bench.budget import MULTIPLIER_DIGITS, Allocation, Budget, allocate, seeds_charged, under, warnings_for
from dp_bench.cache import cache_folder, write_atomically
from dp_bench.errors import UserError
from dp_bench.memo import remembered

MNIST, AG_NEWS = Sampling(512, 60_000), Sampling(512, 120_000)
RDP3 = Budget(3.0, 1e-5, "rdp")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path))
    return tmp_path


def entries(folder):
    return sorted((folder / "calibration").glob("*"))


@pytest.fixture
def no_accounting(monkeypatch):
    """From here on, whatever is not in the cache is an error."""

    def refuse(*args, **kwargs):
        raise AssertionError("computed again")

    return lambda: monkeypatch.setattr(budget_module, "epsilon", refuse)


# Calibration


@pytest.mark.parametrize(("candidates", "expected"), [(1, 0.837), (7, 1.358), (35, 2.683), (49, 3.141), (81, 3.994)])
def test_golden_noise_multipliers(candidates, expected):
    allocation = allocate(RDP3, MNIST, candidates, 1172)
    assert allocation.noise_multiplier == pytest.approx(expected, rel=0.005)
    assert 0.9999 * 3 < allocation.epsilon_grid <= 3
    assert allocation.epsilon_run == epsilon("rdp", allocation.noise_multiplier, MNIST, 1172, 1e-5)
    assert (allocation.epsilon_run == allocation.epsilon_grid) == (candidates == 1)


def next_smaller(noise_multiplier):
    return noise_multiplier - 10.0 ** (math.floor(math.log10(noise_multiplier)) - MULTIPLIER_DIGITS + 1)


@pytest.mark.parametrize("accountant", ["rdp", "pld", "prv", "rdp_wor"])
def test_every_accountant_keeps_to_the_budget_and_wastes_nothing(accountant):
    allocation = allocate(Budget(1.0, 1e-5, accountant), Sampling(50, 1000), 5, 100)
    nu = allocation.noise_multiplier
    assert allocation.epsilon_grid == epsilon(accountant, nu, allocation.sampling, 500, 1e-5)
    assert 0.999 < allocation.epsilon_grid <= 1
    assert float(f"{nu:.{MULTIPLIER_DIGITS}g}") == nu
    assert epsilon(accountant, next_smaller(nu), allocation.sampling, 500, 1e-5) > 1


def test_a_tighter_accountant_needs_less_noise():
    rdp, pld = (allocate(Budget(1.0, 1e-5, a), Sampling(50, 1000), 5, 100) for a in ("rdp", "pld"))
    assert pld.noise_multiplier < 0.98 * rdp.noise_multiplier


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=st.floats(0.1, 50.0),
    delta=st.sampled_from([1e-3, 1e-5, 1e-8]),
    batch_size=st.integers(1, 100),
    compositions=st.integers(1, 300_000),
)
def test_any_budget_is_kept_and_the_next_smaller_multiplier_would_not(target, delta, batch_size, compositions):
    sampling = Sampling(batch_size, 1000)
    allocation = allocate(Budget(target, delta, "rdp"), sampling, 1, compositions)
    assert allocation.epsilon_grid <= target
    assert epsilon("rdp", next_smaller(allocation.noise_multiplier), sampling, compositions, delta) > target


def test_more_candidates_or_examples_need_more_noise_and_more_epsilon_less():
    base = allocate(RDP3, MNIST, 7, 1172).noise_multiplier
    assert allocate(RDP3, MNIST, 8, 1172).noise_multiplier > base
    assert allocate(RDP3, Sampling(600, 60_000), 7, 1172).noise_multiplier > base
    assert allocate(Budget(3.1, 1e-5, "rdp"), MNIST, 7, 1172).noise_multiplier < base
    assert allocate(RDP3, MNIST, 14, 586).noise_multiplier == base  # only the number of compositions counts


@pytest.mark.parametrize("budget", [Budget(1e-3, 1e-5, "prv"), Budget(3.0, 1e-16, "pld"), Budget(3.0, 1e-17, "prv")])
def test_targets_that_an_accountant_cannot_reach_are_refused(budget):
    with pytest.raises(UserError, match="accountant") as error:
        allocate(budget, MNIST, 1, 1172)
    assert "\n" not in str(error.value)


# The figures of FIDELITY


# Last but one: nu by Poisson RDP; last: how much more noise sampling without replacement needs.
@pytest.mark.parametrize(
    ("sampling", "compositions", "target", "noise_multiplier", "ratio"),
    [
        (MNIST, 5 * 1172, 3, 1.2070, 1.74),
        (MNIST, 5 * 1172, 9, 0.7230, 1.27),
        (AG_NEWS, 25 * 2344, 3, 1.6960, 1.87),
        (AG_NEWS, 25 * 2344, 9, 0.8733, 1.58),
    ],
)
def test_sampling_without_replacement(sampling, compositions, target, noise_multiplier, ratio):
    assert epsilon("rdp", noise_multiplier, sampling, compositions, 1e-5) == pytest.approx(target, rel=0.001)
    overspent, spent = (
        epsilon("rdp_wor", noise_multiplier * r, sampling, compositions, 1e-5) for r in (ratio - 0.006, ratio + 0.006)
    )
    assert spent < target < overspent


@pytest.mark.parametrize(("target", "charged"), [(3, 7.5), (9, 23)])
def test_what_five_seeds_would_cost(target, charged, no_accounting):
    allocation = allocate(Budget(target, 1e-5, "rdp"), MNIST, 7, 1172)
    first = seeds_charged(allocation, 5)
    assert first == pytest.approx(charged, rel=0.01)
    assert seeds_charged(allocation, 1) == allocation.epsilon_grid
    no_accounting()
    assert seeds_charged(allocation, 5) == first


def test_under_another_accountant(no_accounting):
    allocation = allocate(RDP3, MNIST, 7, 1172)
    pld, prv, rdp = (under(allocation, a) for a in ("pld", "prv", "rdp"))
    assert rdp == (allocation.epsilon_grid, allocation.epsilon_run)
    assert pld.run < pld.grid < 3
    assert prv == pytest.approx(pld, abs=0.02)
    no_accounting()
    assert under(allocation, "pld") == pld


def test_runs_with_other_batches_are_not_the_same_runs():
    fields = {"candidates": 1, "steps": 10, "noise_multiplier": 1.0, "epsilon_grid": 1.0, "epsilon_run": 1.0}
    poisson = Allocation(RDP3, MNIST, **fields)
    fixed_size = Allocation(Budget(3.0, 1e-5, "rdp_wor"), MNIST, **fields)
    for allocation, accountant in [(poisson, "rdp_wor"), (fixed_size, "rdp"), (fixed_size, "pld")]:
        with pytest.raises(UserError, match="fixed size"):
            under(allocation, accountant)
    assert under(fixed_size, "rdp_wor").run > 0
    with pytest.raises(UserError, match="'gdp'"):
        under(poisson, "gdp")


# Checks


@pytest.mark.parametrize("wrong", [0, -1, math.inf, math.nan])
def test_budget_refuses_epsilon(wrong):
    with pytest.raises(UserError, match=f"epsilon must be positive. Found {wrong}"):
        Budget(wrong, 1e-5, "rdp")


@pytest.mark.parametrize("wrong", [0, 1, -1e-5, math.nan])
def test_budget_refuses_delta(wrong):
    with pytest.raises(UserError, match=f"delta must lie between 0 and 1. Found {wrong}"):
        Budget(3, wrong, "rdp")


def test_budget_refuses_unknown_accountants_and_allocate_empty_work():
    with pytest.raises(UserError, match=r"'moments'. Choose one of rdp"):
        Budget(3, 1e-5, "moments")
    with pytest.raises(UserError, match="at least 1 configuration"):
        allocate(RDP3, MNIST, 0, 1)
    with pytest.raises(UserError, match="at least 1 step"):
        allocate(RDP3, MNIST, 1, 0)


def test_a_delta_of_one_over_n_is_warned_of():
    assert warnings_for(RDP3, MNIST) == []
    (warning,) = warnings_for(RDP3, AG_NEWS)
    assert "1e-05" in warning
    assert "120000" in warning
    assert len(warnings_for(Budget(3, 1 / 60_000, "rdp"), MNIST)) == 1


# The cache, around a calibration that takes no time

SMALL = (Budget(2.0, 1e-5, "rdp"), Sampling(10, 1000), 3, 20)


@pytest.fixture
def calibrations(monkeypatch):
    """Calls of a stand-in for the calibration."""
    calls = []

    def smallest_multiplier(budget, sampling, compositions):
        calls.append(compositions)
        return 0.1 + compositions

    monkeypatch.setattr(budget_module, "_smallest_multiplier", smallest_multiplier)
    monkeypatch.setattr(budget_module, "epsilon", lambda accountant, nu, sampling, steps, delta: steps / nu)
    return calls


def test_a_second_call_reads_the_first_ones_answer(cache, calibrations):
    assert allocate(*SMALL) == allocate(*SMALL)
    assert calibrations == [60]
    assert len(entries(cache)) == 1


def test_every_input_and_version_is_part_of_the_key(cache, calibrations, monkeypatch):
    budget, sampling, candidates, steps = SMALL
    allocate(*SMALL)
    allocate(Budget(2, 1e-5, "rdp"), sampling, candidates, steps)  # 2 is 2.0
    assert len(entries(cache)) == 1
    changes = [
        (dataclasses.replace(budget, epsilon=2.1), sampling, candidates, steps),
        (dataclasses.replace(budget, delta=2e-5), sampling, candidates, steps),
        (dataclasses.replace(budget, accountant="rdp_wor"), sampling, candidates, steps),
        (budget, Sampling(11, 1000), candidates, steps),
        (budget, Sampling(10, 1001), candidates, steps),
        (budget, sampling, 4, steps),
        (budget, sampling, candidates, 21),
    ]
    for count, change in enumerate(changes, start=2):
        allocate(*change)
        assert len(entries(cache)) == count
    budget_module._calculation.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.version", lambda name: "99")
        allocate(*SMALL)
    budget_module._calculation.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(budget_module, "CALIBRATION_FORMAT", 99)
        allocate(*SMALL)
    budget_module._calculation.cache_clear()
    assert len(entries(cache)) == len(changes) + 3


def half(content):
    return content[: len(content) // 2]


def less_noise(content):
    entry = json.loads(content)
    entry["result"]["noise_multiplier"] *= 0.5
    return json.dumps(entry).encode()


@pytest.mark.parametrize(
    "corrupt",
    [half, less_noise, lambda _: b"", lambda _: b"\xff\x00", lambda _: b"[]", lambda _: b"{}", lambda _: b"null"],
)
def test_a_corrupt_entry_is_computed_again_and_mended(cache, calibrations, corrupt):
    first = allocate(*SMALL)
    (path,) = entries(cache)
    intact = path.read_bytes()
    path.write_bytes(corrupt(intact))
    assert allocate(*SMALL) == first
    assert calibrations == [60, 60]
    assert path.read_bytes() == intact


def test_an_entry_under_another_ones_name_is_not_believed(cache, calibrations):
    first = allocate(*SMALL)
    (path,) = entries(cache)
    allocate(*SMALL[:3], 40)
    (other,) = set(entries(cache)) - {path}
    other.replace(path)
    assert allocate(*SMALL) == first


@pytest.mark.parametrize("below", ["file", "file/folder"])
def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, calibrations, monkeypatch, below):
    (tmp_path / "file").write_text("in the way")
    expected = allocate(*SMALL)
    monkeypatch.setenv("DP_BENCH_CACHE", str(tmp_path / below))
    assert allocate(*SMALL) == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_only_costs_time(tmp_path, calibrations, monkeypatch):
    folder = tmp_path / "read_only"
    folder.mkdir(mode=0o500)
    expected = allocate(*SMALL)
    monkeypatch.setenv("DP_BENCH_CACHE", str(folder))
    assert allocate(*SMALL) == expected
    assert list(folder.iterdir()) == []


def test_two_processes_write_one_entry_while_a_third_reads_it(cache):
    """An entry as large as a few pages, written over and over: a reader must find the old or the new, never a part."""
    writer = """
import sys
from pathlib import Path
from dp_bench.cache import write_atomically
print("ready", flush=True)
sys.stdin.readline()
for _ in range(150):
    write_atomically(Path(sys.argv[1]), sys.argv[2].encode() * 100_000)
"""
    path = cache / "calibration" / "entry.json"
    pipe = subprocess.PIPE
    writers = [
        subprocess.Popen([sys.executable, "-c", writer, str(path), letter], stdin=pipe, stdout=pipe, text=True)
        for letter in "ab"
    ]
    for process in writers:
        process.stdout.readline()
    write_atomically(path, b"a" * 100_000)
    for process in writers:
        process.stdin.write("go\n")
        process.stdin.flush()
    seen = set()
    while any(process.poll() is None for process in writers):
        content = path.read_bytes()
        assert content in (b"a" * 100_000, b"b" * 100_000)
        seen.add(content[:1])
    assert seen == {b"a", b"b"}
    for process in writers:
        process.communicate()
        assert process.returncode == 0
    assert [file.name for file in path.parent.iterdir()] == ["entry.json"]  # no temporary file is left behind


def test_two_processes_that_calibrate_the_same_grid_at_once_agree(cache):
    code = """
import sys
from dp_bench import budget
from dp_bench.accounting import Sampling

def calibrate(*_):
    print("calibrating", flush=True)
    sys.stdin.readline()  # until the other one is here too
    return 1.5

budget._smallest_multiplier = calibrate
budget.epsilon = lambda accountant, nu, sampling, steps, delta: steps / 100
print(repr(budget.allocate(budget.Budget(2.0, 1e-5, "rdp"), Sampling(10, 1000), 3, 20)))
"""
    pipe = subprocess.PIPE
    both = [subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["calibrating\n", "calibrating\n"]
    answers = {process.communicate("go\n")[0] for process in both}
    assert answers == {f"{allocate(*SMALL)!r}\n"}  # ours is read from the cache
    assert [path.suffix for path in entries(cache)] == [".json"]


def test_a_warm_cache_needs_no_accounting_library():
    expected = allocate(*SMALL)
    charged = seeds_charged(expected, 5)
    code = """
import sys
from dp_bench.accounting import Sampling
from dp_bench.budget import Budget, allocate, seeds_charged
allocation = allocate(Budget(2.0, 1e-5, "rdp"), Sampling(10, 1000), 3, 20)
print(repr(allocation), seeds_charged(allocation, 5))
heavy = {"torch", "opacus", "dp_accounting", "numpy", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert found.strip() == f"{expected!r} {charged}"


def test_remembered_keeps_what_json_cannot_say_and_forgets_failures(cache):
    assert remembered("calibration", {"a": 1}, lambda: {"epsilon": math.inf}) == {"epsilon": math.inf}
    assert remembered("calibration", {"a": 1}, lambda: {"epsilon": 0.0}) == {"epsilon": math.inf}
    with pytest.raises(UserError):
        allocate(Budget(3.0, 1e-17, "prv"), MNIST, 1, 1172)
    assert len(entries(cache)) == 1


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("DP_BENCH_CACHE", "/own")
    assert cache_folder() == Path("/own")
    monkeypatch.setenv("DP_BENCH_CACHE", "")
    assert cache_folder() == Path("/xdg/dp_bench")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/home/someone/.cache/dp_bench")


def test_the_paper_has_88_calibrations():
    """What `dp-bench plan` looks up; another number would mean that the grids or the key have changed."""
    candidates = {n for k in (5, 7, 9) for n in (k, k * k, 5 * k)}
    budgets = {MNIST: {3, 5, 7, 9} | {1, 2, 3, 4}, AG_NEWS: {3, 5, 7, 9}}
    assert sum(len(list(itertools.product(candidates, epsilons))) for epsilons in budgets.values()) == 88

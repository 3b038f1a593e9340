"""The allocator never overspends, wastes nothing, and gives the same answer with, without and with a broken cache."""

import dataclasses
import itertools
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dp_bench.errors import UserError
from dp_bench.files.atomic import cache_folder, write_atomically
from dp_bench.files.cached import cached
from dp_bench.files.checksummed import json_digest
from dp_bench.privacy import calibration as calibration_module
from dp_bench.privacy import checks as checks_module
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.accounting import epsilon
from dp_bench.privacy.allocation import Allocation, Budget
from dp_bench.privacy.calibration import allocate, epsilon_by, seeds_charged, total, warnings_for
from dp_bench.privacy.checks import check_allocation
from dp_bench.privacy.multiplier_search import MULTIPLIER_DIGITS
from dp_bench.privacy.noise_tail import uncovered
from dp_bench.privacy.totals import Listed, totals

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

    return lambda: monkeypatch.setattr(calibration_module, "epsilon", refuse)


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
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_every_accountant_keeps_to_the_budget_and_wastes_nothing(accountant):
    allocation = allocate(Budget(1.0, 1e-5, accountant), Sampling(50, 1000), 5, 100)
    nu = allocation.noise_multiplier
    assert allocation.epsilon_grid == epsilon(accountant, nu, allocation.sampling, 500, 1e-5)
    assert 0.999 < allocation.epsilon_grid <= 1
    assert float(f"{nu:.{MULTIPLIER_DIGITS}g}") == nu
    assert epsilon(accountant, next_smaller(nu), allocation.sampling, 500, 1e-5) > 1


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_a_tighter_accountant_needs_less_noise():
    rdp, pld = (allocate(Budget(1.0, 1e-5, a), Sampling(50, 1000), 5, 100) for a in ("rdp", "pld"))
    assert pld.noise_multiplier < 0.98 * rdp.noise_multiplier


@pytest.mark.slow(reason="calibrates many budgets")
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    target=st.floats(0.1, 50.0),
    delta=st.sampled_from([1e-3, 1e-5, 1e-8]),
    batch_size=st.integers(1, 100),
    compositions=st.integers(1, 300_000),
)
@example(target=50.0, delta=1e-3, batch_size=1, compositions=1)  # where the end of the noise's tail decides
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


@pytest.mark.parametrize("budget", [Budget(1e-3, 1e-5, "prv"), Budget(1e-4, 1e-5, "prv")])
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
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
    assert seeds_charged(allocation, 5) == pytest.approx(charged, rel=0.01)
    assert seeds_charged(allocation, 1) == allocation.epsilon_grid
    no_accounting()
    with pytest.raises(AssertionError, match="computed again"):  # RDP takes milliseconds and is never read from disk
        seeds_charged(allocation, 5)


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_under_another_accountant(monkeypatch):
    allocation = allocate(RDP3, MNIST, 7, 1172)
    pld, prv, rdp = (epsilon_by(allocation, a) for a in ("pld", "prv", "rdp"))
    assert rdp == (allocation.epsilon_grid, allocation.epsilon_run)
    assert pld.run < pld.grid < 3
    assert prv == pytest.approx(pld, abs=0.02)
    counted = []
    monkeypatch.setattr(calibration_module, "epsilon", lambda *a: counted.append(a[0]) or epsilon(*a))
    assert epsilon_by(allocation, "pld") == pld
    assert not counted  # a lower bound on epsilon finds it possible


def test_runs_with_other_batches_are_not_the_same_runs():
    fields = {"candidates": 1, "steps": 10, "noise_multiplier": 1.0, "epsilon_grid": 1.0, "epsilon_run": 1.0}
    poisson = Allocation(RDP3, MNIST, **fields)
    fixed_size = Allocation(Budget(3.0, 1e-5, "rdp_wor"), MNIST, **fields)
    for allocation, accountant in [(poisson, "rdp_wor"), (fixed_size, "rdp"), (fixed_size, "pld")]:
        with pytest.raises(UserError, match="batches of these runs"):
            epsilon_by(allocation, accountant)
    assert epsilon_by(fixed_size, "rdp_wor").run > 0
    assert epsilon_by(fixed_size, "rdp_wor_10").run >= epsilon_by(fixed_size, "rdp_wor").run
    with pytest.raises(UserError, match="got gdp"):
        epsilon_by(poisson, "gdp")


# Checks


@pytest.mark.parametrize("wrong", [0, -1, math.inf, math.nan])
def test_budget_refuses_epsilon(wrong):
    with pytest.raises(UserError, match=f"privacy.epsilon: expected a .*number.*, got {wrong}"):
        Budget(wrong, 1e-5, "rdp")


@pytest.mark.parametrize("wrong", [0, 1, -1e-5, math.nan])
def test_budget_refuses_delta(wrong):
    with pytest.raises(UserError, match=f"privacy.delta: expected a number between 0 and 1, got {wrong}"):
        Budget(3, wrong, "rdp")


def test_budget_refuses_unknown_accountants_and_allocate_empty_work():
    with pytest.raises(UserError, match=r"expected one of rdp.*, got moments"):
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
    """Calls of a fake calibration."""
    calls = []

    def smallest_multiplier(unpriced, spent):
        calls.append(unpriced.compositions)
        return 0.1 + unpriced.compositions

    monkeypatch.setattr(calibration_module, "_smallest_multiplier", smallest_multiplier)
    for module in (calibration_module, checks_module):
        monkeypatch.setattr(module, "epsilon", lambda accountant, nu, sampling, steps, delta: steps / nu)
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
    calibration_module.calculation.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.version", lambda name: "99")
        allocate(*SMALL)
    calibration_module.calculation.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(calibration_module, "CALIBRATION_FORMAT", 99)
        allocate(*SMALL)
    calibration_module.calculation.cache_clear()
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
def test_a_corrupt_entry_is_computed_again_and_replaced(cache, calibrations, corrupt):
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


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_two_processes_write_one_entry_while_a_third_reads_it(cache):
    """An entry as large as a few pages, written over and over: a reader must find the old or the new, never a part."""
    writer = """
import sys
from pathlib import Path
from dp_bench.files.atomic import write_atomically
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


@pytest.mark.slow(reason="calibrates in two new processes")
def test_two_processes_that_calibrate_the_same_grid_together_agree(cache):
    code = """
import sys
from dp_bench.privacy import calibration
from dp_bench.privacy.accountants import Sampling

def calibrate(*_):
    print("calibrating", flush=True)
    sys.stdin.readline()  # until the other one is here too
    return 1.5

calibration._smallest_multiplier = calibrate
print(repr(calibration.allocate(calibration.Budget(2.0, 1e-5, "rdp"), Sampling(10, 1000), 3, 20)))
"""
    pipe = subprocess.PIPE
    both = [subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["calibrating\n", "calibrating\n"]
    answers = {process.communicate("go\n")[0] for process in both}
    assert answers == {f"{allocate(*SMALL)!r}\n"}  # ours is read from the cache
    assert [path.suffix for path in entries(cache)] == [".json"]


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_a_warm_cache_needs_no_search_and_no_torch():
    expected = allocate(*SMALL)
    charged = seeds_charged(expected, 5)
    code = """
import sys
from dp_bench.privacy.accountants import Sampling
from dp_bench.privacy.allocation import Budget
from dp_bench.privacy.calibration import allocate, seeds_charged
from dp_bench.privacy import calibration
calibration._smallest_multiplier = None
allocation = allocate(Budget(2.0, 1e-5, "rdp"), Sampling(10, 1000), 3, 20)
print(repr(allocation), seeds_charged(allocation, 5))
heavy = {"torch", "opacus"} & set(sys.modules)
assert not heavy, heavy
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert found.strip() == f"{expected!r} {charged}"


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_cached_keeps_what_json_cannot_say_and_forgets_failures(cache):
    assert cached("calibration", {"a": 1}, lambda: {"epsilon": math.inf}) == {"epsilon": math.inf}
    assert cached("calibration", {"a": 1}, lambda: {"epsilon": 0.0}) == {"epsilon": math.inf}
    with pytest.raises(UserError):
        allocate(Budget(1e-3, 1e-5, "prv"), MNIST, 1, 1172)
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


# What was edited on disk, its checksum made anew


def edited(path, **changes):
    entry = json.loads(path.read_bytes())
    entry["result"].update(changes)
    del entry["sha256"]
    path.write_text(json.dumps({**entry, "sha256": json_digest(entry)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_multiplier": 0.01},
        {"epsilon_run": 0.001},
        {"noise_multiplier": -1.0},
        # right for a single step of a single candidate, which was not asked for
        {"noise_multiplier": 0.6, "epsilon_grid": 0.99, "epsilon_run": 0.99, "candidates": 1, "steps": 1},
    ],
)
def test_an_edited_calibration_is_not_believed_and_overwritten(cache, changes):
    first = allocate(*SMALL)
    (path,) = entries(cache)
    intact = path.read_bytes()
    edited(path, **changes)
    assert allocate(*SMALL) == first
    assert path.read_bytes() == intact


@pytest.mark.parametrize("name", ["budget", "sampling", "trials", "steps"])
def test_only_prices_are_read_from_a_calibration(cache, name):
    first = allocate(*SMALL)
    (path,) = entries(cache)
    edited(path, **{name: 1.0})
    assert allocate(*SMALL) == first


@pytest.mark.parametrize("accountant", ["pld", "rdp_wor"])
@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_an_edited_calibration_of_a_slow_accountant_is_not_believed(cache, accountant):
    chosen = (Budget(1.0, 1e-5, accountant), Sampling(50, 1000), 5, 100)
    first = allocate(*chosen)
    (path,) = entries(cache)
    for changes in ({"noise_multiplier": 0.5}, {"epsilon_grid": 9.0}, {"epsilon_run": 1e-6, "epsilon_grid": 1e-6}):
        edited(path, **changes)
        assert allocate(*chosen) == first


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_an_edited_epsilon_of_a_slow_accountant_is_not_believed(cache):
    allocation = allocate(*SMALL)
    first = epsilon_by(allocation, "pld")
    for path in entries(cache):
        if "compositions" in json.loads(path.read_bytes())["key"]:
            edited(path, epsilon=0.01)
    assert epsilon_by(allocation, "pld") == first


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_an_allocation_that_overspends_is_refused_by_its_own_accountant():
    """A fifth less noise, which pld counts exactly."""
    for accountant in ("rdp", "pld"):
        good = allocate(Budget(1.0, 1e-5, accountant), Sampling(50, 1000), 5, 100)
        check_allocation(good)
        for bad in (
            dataclasses.replace(good, noise_multiplier=0.8 * good.noise_multiplier),
            dataclasses.replace(good, epsilon_run=0.9 * good.epsilon_run),
            dataclasses.replace(good, epsilon_grid=0.9 * good.epsilon_grid),
            dataclasses.replace(good, budget=Budget(0.9, 1e-5, accountant)),
            dataclasses.replace(good, candidates=6),
        ):
            with pytest.raises(UserError, match="noise multiplier: expected one that spends epsilon") as error:
                check_allocation(bad)
            assert "\n" not in str(error.value)


# The end of the noise's tail


def test_a_delta_that_the_tail_does_not_cover_is_refused_with_the_limit():
    with pytest.raises(UserError) as error:
        allocate(Budget(3.0, 1e-30, "rdp"), MNIST, 5, 1172)
    message = str(error.value)
    limit = re.fullmatch(
        r"privacy.delta: expected at least (\S+) for 5860 compositions "
        r"\(the noise ends at 10.06 standard deviations\), got 1e-30; raise it",
        message,
    )
    assert limit is not None, message
    assert 6e-22 < float(limit[1]) < 1e-11
    assert allocate(Budget(3.0, float(limit[1]), "rdp"), MNIST, 5, 1172).epsilon_grid <= 3


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_an_epsilon_that_needs_hardly_any_noise_gets_what_the_tail_covers():
    allocation = allocate(Budget(1000.0, 1e-5, "rdp"), MNIST, 5, 1172)
    assert allocation.noise_multiplier > 0.2
    assert uncovered(allocation.noise_multiplier, 5 * 1172) < 1e-5
    assert uncovered(next_smaller(allocation.noise_multiplier), 5 * 1172) >= 0.999 * 1e-5
    assert allocation.epsilon_grid < 500


PAPER = {"mnist": (MNIST, 1172, (3, 5, 7, 9)), "fashion_mnist": (MNIST, 1172, (1, 2, 3, 4))} | {
    "ag_news": (AG_NEWS, 2344, (3, 5, 7, 9))
}


@pytest.mark.slow(reason="calibrates every grid of the paper")
@pytest.mark.parametrize("dataset", PAPER)
def test_the_tail_changes_no_noise_multiplier_of_the_paper(dataset, monkeypatch):
    """Each is the smallest that keeps to the budget, with ideal noise as well."""
    sampling, steps, epsilons = PAPER[dataset]
    searches = itertools.product(sorted({n for k in (5, 7, 9) for n in (k, k * k, 5 * k)}), epsilons)
    found = {(n, target): allocate(Budget(target, 1e-5, "rdp"), sampling, n, steps) for n, target in searches}
    monkeypatch.setattr("dp_bench.privacy.accounting.uncovered", lambda *_: 0.0)
    monkeypatch.setattr("dp_bench.privacy.accounting.ideal_delta", lambda delta, *_: delta)
    for (n, target), allocation in found.items():
        nu = allocation.noise_multiplier
        spent, too_much = (epsilon("rdp", z, sampling, n * steps, 1e-5) for z in (nu, next_smaller(nu)))
        assert spent <= target < too_much, (n, target)


# All grids of a data set


@pytest.mark.slow(reason="counts with a slow accountant, many times or in a new process")
def test_eight_grids_of_three_compose_to_nearly_ten():
    """MNIST, all strategies, k = 5 and 7, composed independently by dp_accounting."""
    import dp_accounting as dpa

    grids = [allocate(RDP3, MNIST, n, 1172) for k in (5, 7) for n in (k, k * k, 5 * k, k)]
    other = dpa.rdp.RdpAccountant()
    for grid in grids:
        event = dpa.PoissonSampledDpEvent(512 / 60_000, dpa.GaussianDpEvent(grid.noise_multiplier))
        other.compose(event, grid.candidates * 1172)
    found = total(grids)
    assert found == pytest.approx(9.90, abs=0.005)
    assert found == pytest.approx(other.get_epsilon(1e-5), rel=1e-3)  # whose orders are coarser
    assert total(grids[:1]) == grids[0].epsilon_grid
    assert (
        total(grids, [0.5] * 8) < found < total([dataclasses.replace(grids[0], budget=Budget(3, 1e-6, "rdp")), *grids])
    )
    assert total([]) == 0
    with pytest.raises(ValueError, match="is a guarantee, got rdp_wor"):
        total([dataclasses.replace(grids[0], budget=Budget(3, 1e-5, "rdp_wor"))])


def listed(allocation, **changes):
    given = {"rows": 60_000, "times": 1, "seeds": 5, "search": "one", **changes}
    return Listed(given.pop("name", "grid"), given.pop("dataset", "mnist"), allocation, **given)


def test_rows_that_share_a_budget_are_counted_once():
    once = allocate(RDP3, MNIST, 5, 1172)
    twice = allocate(RDP3, MNIST, 10, 1172)  # two searches of five points
    shared = [listed(twice, times=2)] * 2
    (found,) = totals(shared)
    assert (found.grids, found.epsilon) == (2, twice.epsilon_grid)
    assert found.with_seeds == seeds_charged(twice, 5)
    (alone,) = totals(shared[:1])
    assert alone.epsilon == twice.epsilon_grid, "the whole search is charged, whatever of it is listed"
    (three,) = totals([*shared, *shared[:1]])
    assert three.epsilon == pytest.approx(total([twice, twice])), "a third row is another search"
    (apart,) = totals([listed(twice, times=2), listed(twice, times=2, search="other")])
    assert apart.epsilon == total([twice, twice])
    (plain,) = totals([listed(once)] * 2)
    assert plain.epsilon == total([once, once])


def test_what_is_not_private_is_named_and_not_counted():
    once = allocate(RDP3, MNIST, 5, 1172)
    fixed_size = dataclasses.replace(once, budget=Budget(3.0, 1e-5, "rdp_wor"))
    other = dataclasses.replace(once, budget=Budget(3.0, 1e-6, "rdp"))
    grids = [listed(once), listed(None, name="a"), listed(fixed_size, name="b"), listed(once, name="c", rows=30_000)]
    found, second = totals([*grids, listed(once, dataset="fashion_mnist"), listed(other, dataset="fashion_mnist")])
    assert found.epsilon == once.epsilon_grid
    assert found.not_counted == ("a (not private)", "b (rdp_wor: not private)", "c (emulated: not private)")
    assert (second.delta, second.delta_words) == (1e-6, "1e-06, the smallest of their deltas")
    assert totals(grids[1:]) == []


def test_the_paper_has_88_calibrations():
    """What `dp-bench plan` looks up; another number would mean that the grids or the key have changed."""
    candidates = {n for k in (5, 7, 9) for n in (k, k * k, 5 * k)}
    budgets = {MNIST: {3, 5, 7, 9} | {1, 2, 3, 4}, AG_NEWS: {3, 5, 7, 9}}
    assert sum(len(list(itertools.product(candidates, epsilons))) for epsilons in budgets.values()) == 88

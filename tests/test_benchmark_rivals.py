"""What the benchmark compares does the same work: sums against slow truth, shares of clipped examples, the floor.

No time is asserted: a test machine is busy.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import clipped_shares
import contenders
import floor
import peers
import rivals
import truth
from contenders import COMPILED, FIXED_THRESHOLD, GHOST, ONLINE, Contender, Job

from dp_bench.report.render.markdown import markdown

pytestmark = pytest.mark.slow(reason="measures in worker processes")

ROWS = 2000


@pytest.mark.parametrize("name", [ONLINE, FIXED_THRESHOLD, GHOST, "Opacus hooks"])
def test_a_contender_that_clips_is_checked_against_one_example_at_a_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []
    check = truth.check_sum
    monkeypatch.setattr(truth, "check_sum", lambda found, expected: checked.append(check(found, expected)))
    contenders.warm_up(Job(name, "bag_of_words", 1))
    assert checked == [None]


def test_a_contender_whose_sum_is_wrong_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipped at 1.1 times the threshold."""
    right = contenders.CONTENDERS[ONLINE]
    monkeypatch.setitem(contenders.CONTENDERS, ONLINE, lambda job: _other_threshold(right(job)))
    with pytest.raises(truth.WrongError, match=r"differs from gradients clipped one at a time by [0-9.]+ %"):
        contenders.warm_up(Job(ONLINE, "bag_of_words", 1))


def _other_threshold(contender: Contender) -> Contender:
    assert contender.clip is not None
    return replace(contender, clip=contender.clip / 1.1)


def test_slow_truth_of_two_gradients() -> None:
    module = torch.nn.Linear(2, 1, bias=False)
    x, y = torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.zeros(2)
    (total,) = truth.clipped_sum(module, lambda outputs, _: outputs[:, 0], x, y, 1.0)
    torch.testing.assert_close(total, torch.tensor([[0.9, 1.2]], dtype=torch.float64))
    assert truth.share(module, lambda outputs, _: outputs[:, 0], x, y, 1.0) == 0.5


@pytest.mark.parametrize("found", [0.0, 1.0, 0.3, float("nan")])
def test_a_share_that_drifts_is_refused(found: float) -> None:
    truth.check_share("bag_of_words", truth.CLIPPED_SHARE["bag_of_words"] + 0.05)
    with pytest.raises(truth.WrongError, match=r"at the end, where real runs clip 0\.71"):
        truth.check_share("bag_of_words", found)


def test_the_floor_counts_products_and_traffic() -> None:
    outputs, parameters = 128 + 128 + 4, 177_156
    assert floor.traffic("bag_of_words", batch=10) == 4 * (2 * 10 * (1250 + outputs) + 10 * parameters)
    times = floor.floor_times({0: 2.0, 1: 9.0}, {0: 3.0, 2: 9.0}, 5 * contenders.SGEMM_FLOPS, 7 * contenders.COPY_BYTES)
    assert times == {0: 31.0}


def test_a_job_names_only_what_differs_from_its_defaults() -> None:
    """Older revisions (versions.py) know fewer fields."""
    assert Job(ONLINE, "cnn", 1, batch=16).to_json() == {"contender": ONLINE, "model": "cnn", "threads": 1, "batch": 16}


def test_without_a_compiler_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match=r"torch\.compile needs a C\+\+ compiler"):
        rivals.compiled(Job(COMPILED, "bag_of_words", 1))


def test_the_compiled_rival_before_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arithmetic, without a compiler: the same check as of the others."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(rivals.shutil, "which", lambda name: name)
    rivals._clipped_sum.cache_clear()
    try:
        contenders.warm_up(Job(COMPILED, "bag_of_words", 1))
    finally:
        rivals._clipped_sum.cache_clear()


def test_a_peer_gets_a_problem_and_its_solution(tmp_path: Path) -> None:
    job = Job(peers.JAX_PRIVACY, "bag_of_words", 1, batch=64, rows=64)
    peers.write_problem(job, tmp_path / "check.npz", with_sum=True)
    problem = np.load(tmp_path / "check.npz")
    assert int(problem["count"]) == 6
    assert problem["parameter_0"].shape == problem["sum_0"].shape == (128, 1250)
    assert problem["clip"] > 0


def test_a_peer_that_cannot_run_is_left_out_with_the_reason() -> None:
    """This environment has no jax_privacy."""
    measured = peers.measure("bag_of_words", 1, Path(sys.executable), rows=ROWS)
    assert "No module named 'jax'" in str(measured[peers.JAX_PRIVACY].reason)
    assert measured[ONLINE].times
    text = markdown(peers.peers_table({"bag_of_words": measured}))
    assert "jax_privacy does not run the bag_of_words" in text


def test_shares_of_clipped_examples_are_counted_without_changing_the_run() -> None:
    """Online starts with a threshold that clips every example of the twin, and lengthens it."""
    shares = clipped_shares.measure("bag_of_words", "online", 3, {"stand_in": True})
    assert len(shares) == 3
    assert all(0 < share <= 1 for share in shares)

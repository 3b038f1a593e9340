import hashlib
import io
from unittest import mock

import numpy as np
import pytest
import torch
from scipy import stats

from dp_bench import streams


def draw(name, purpose, n=8, dtype=torch.float64):
    return streams.stream(name, purpose).uniform(n, dtype)


def words(name, purpose="noise"):
    """The 256 bits that a stream starts from."""
    inner = streams.stream(name, purpose).state()["state"]
    return inner["state"].to_bytes(16, "little") + inner["inc"].to_bytes(16, "little")


def test_same_name_same_stream():
    for dtype in (torch.float32, torch.float64):
        assert torch.equal(draw("run", "noise", 1000, dtype), draw("run", "noise", 1000, dtype))
    assert streams.stream("run", "noise").state() == streams.stream("run", "noise").state()


@pytest.mark.parametrize(
    "other", [("run ", "noise"), ("Run", "noise"), ("run", "batches"), ("", "noise"), ("noise", "run")]
)
def test_other_name_or_purpose_other_stream(other):
    assert words("run", "noise")[:16] != words(*other)[:16]
    assert words("run", "noise")[16:] != words(*other)[16:]
    assert not torch.isin(draw("run", "noise", 1000), draw(*other, 1000)).any()


def test_no_two_of_the_papers_streams_share_a_state():
    runs = [
        f"paper/default/mnist/online/k9/eps{e}/lr={p}/seed{s}" for e in range(9) for p in range(410) for s in range(5)
    ]
    runs = runs[:18_435]
    runs += [f"paper/default/ag_news/no_dp/kinf/epsinf/lr={p}/seed0" for p in range(18_435 - len(runs))]
    assert len({words(run, purpose) for run in runs for purpose in ("batches", "noise")}) == 2 * 18_435


def test_the_hash_fills_the_whole_state():
    expected = hashlib.shake_256(b"dp_bench stream 2\nnoise\nrun").digest(32)
    found = words("run")
    assert found[:16] == expected[:16]
    assert found[16] == expected[16] | 1, "the increment of a congruential generator is odd"
    assert found[17:] == expected[17:]


def test_the_stream_is_pcg64_dxsm_of_those_words():
    """Its definition, in integers of any size: a 128-bit congruential generator and an output function."""
    inner = streams.stream("run", "noise").state()["state"]
    state, increment, multiplier = inner["state"], inner["inc"], 0xDA942042E4DD58B5
    expected = []
    for _ in range(200):
        high, low = state >> 64, (state & (2**64 - 1)) | 1
        high ^= high >> 32
        high = high * multiplier % 2**64
        high ^= high >> 48
        expected.append(high * low % 2**64)
        state = (state * multiplier + increment) % 2**128
    assert draw("run", "noise", 200).tolist() == [(word >> 11) * 2.0**-53 for word in expected]
    halves = [half for word in expected for half in (word & (2**32 - 1), word >> 32)]
    single = np.array([half | 1 for half in halves], dtype=np.float32) * np.float32(2**-32 * (1 - 2**-24))
    assert draw("run", "noise", 400, torch.float32).tolist() == single.tolist()


@pytest.mark.parametrize(("word", "uniform"), [(0, 2**-32), (2**64 - 1, 1 - 2**-24)])
def test_single_precision_reaches_neither_zero_nor_one(word, uniform):
    stream = streams.stream("run", "noise")
    stream._bits = mock.Mock(random_raw=lambda size: np.full(size, word, dtype=np.uint64))
    assert stream.uniform(3, torch.float32).tolist() == pytest.approx([uniform] * 3, rel=1e-7)
    assert 0 < stream.uniform(1, torch.float32) < 1


def test_states_and_first_draws_are_uniform_over_names():
    names = [f"run {i}" for i in range(2000)]
    bits = np.unpackbits(np.stack([np.frombuffer(words(name), dtype=np.uint8) for name in names]), axis=1)
    bits = np.delete(bits, 16 * 8 + 7, axis=1)  # the increment's last, which is always set
    deviations = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(bits))
    assert np.abs(deviations).max() < 6.5
    assert abs(deviations.sum()) < 5 * np.sqrt(deviations.size)
    for dtype in (torch.float32, torch.float64):
        first = [float(draw(name, "noise", 1, dtype)) for name in names]
        assert stats.kstest(first, "uniform").pvalue > 1e-6


def test_initial_weights_depend_on_the_seed_alone_and_nothing_else_is_touched():
    before = torch.get_rng_state()
    assert torch.equal(streams.initial_weights(3).get_state(), streams.initial_weights(3).get_state())
    assert not torch.equal(streams.initial_weights(3).get_state(), streams.initial_weights(4).get_state())
    # manual_seed alone would take these two for one.
    assert not torch.equal(streams.initial_weights(1).get_state(), streams.initial_weights(1 + 2**32).get_state())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("drawn", [2, 3])
def test_a_stream_restored_from_a_checkpoint_goes_on_where_it_was(drawn):
    one = streams.stream("run", "noise")
    one.uniform(1001, torch.float64)
    one.uniform(drawn, torch.float32)
    checkpoint = io.BytesIO()
    torch.save(one.state(), checkpoint)
    checkpoint.seek(0)
    other = streams.stream("another", "noise")
    other.restore(torch.load(checkpoint, weights_only=True))
    for dtype in (torch.float32, torch.float64, torch.float32):
        assert torch.equal(one.uniform(5, dtype), other.uniform(5, dtype))
    assert one.state() == other.state()

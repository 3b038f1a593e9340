import hashlib

import numpy as np
import pytest
import torch
from scipy import stats

from dp_bench import streams

WORDS = slice(24, 24 + 8 * 624)


def words(generator):
    """The twister's 624 words, each in the low half of eight bytes."""
    return generator.get_state()[WORDS].clone().view(torch.int64)


def draw(name, purpose, n=8):
    return torch.rand(n, generator=streams.generator(name, purpose), dtype=torch.float64)


def test_same_name_same_stream():
    assert torch.equal(draw("run", "noise", 1000), draw("run", "noise", 1000))
    assert torch.equal(streams.generator("run", "noise").get_state(), streams.generator("run", "noise").get_state())


@pytest.mark.parametrize(
    "other", [("run ", "noise"), ("Run", "noise"), ("run", "batches"), ("", "noise"), ("noise", "run")]
)
def test_other_name_or_purpose_other_stream(other):
    ours, theirs = words(streams.generator("run", "noise")), words(streams.generator(*other))
    assert (ours != theirs).sum() >= 623  # two random words are equal once in 2^32
    assert not torch.isin(draw("run", "noise", 1000), draw(*other, 1000)).any()


def test_no_two_of_the_papers_streams_share_a_state():
    runs = [
        f"paper/default/mnist/online/k9/eps{e}/lr={p}/seed{s}" for e in range(9) for p in range(410) for s in range(5)
    ]
    runs = runs[:18_435]
    runs += [f"paper/default/ag_news/no_dp/kinf/epsinf/lr={p}/seed0" for p in range(18_435 - len(runs))]
    states = {
        hashlib.sha256(streams.generator(run, purpose).get_state().numpy()).digest()
        for run in runs
        for purpose in ("batches", "noise")
    }
    assert len(states) == 2 * 18_435


def test_the_hash_fills_the_whole_state():
    expected = np.frombuffer(hashlib.shake_256(b"dp_bench stream 1\nnoise\nrun").digest(4 * 624), dtype="<u4")
    assert np.array_equal(words(streams.generator("run", "noise")).numpy(), expected.astype(np.int64))


def test_the_stream_is_the_mersenne_twister_of_those_words():
    reference = np.random.MT19937()
    key = words(streams.generator("run", "noise")).numpy().astype(np.uint32)
    reference.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
    raw = reference.random_raw(4000).astype(np.int64)
    generator = streams.generator("run", "noise")
    low = torch.empty(2000, dtype=torch.int32).random_(generator=generator)
    assert np.array_equal(low.numpy(), raw[:2000] % 2**31)
    # Sixty-four bits at once take two outputs, the first on top.
    whole = torch.empty(1000, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    assert np.array_equal(
        whole.numpy().view(np.uint64), (raw[2000::2].astype(np.uint64) << 32) + raw[2001::2].astype(np.uint64)
    )


def test_words_and_first_draws_are_uniform_over_names():
    generators = [streams.generator(f"run {i}", "noise") for i in range(2000)]
    bits = np.unpackbits(np.stack([words(g).numpy().astype(np.uint32).view(np.uint8) for g in generators]), axis=1)
    deviations = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(bits))  # 19,968 bits, each seen 2,000 times
    assert np.abs(deviations).max() < 6.5
    assert abs(deviations.sum()) < 5 * np.sqrt(deviations.size)
    first = [float(torch.rand((), generator=g, dtype=torch.float64)) for g in generators]
    assert stats.kstest(first, "uniform").pvalue > 1e-6


def test_initial_weights_depend_on_the_seed_alone_and_nothing_else_is_touched():
    before = torch.get_rng_state()
    assert torch.equal(streams.initial_weights(3).get_state(), streams.initial_weights(3).get_state())
    assert not torch.equal(streams.initial_weights(3).get_state(), streams.initial_weights(4).get_state())
    # manual_seed would take these two for one.
    assert not torch.equal(streams.initial_weights(1).get_state(), streams.initial_weights(1 + 2**32).get_state())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_restored_stream_goes_on_where_it_was():
    one = streams.generator("run", "noise")
    torch.randn(1001, generator=one)
    torch.randn(3, generator=one)  # an odd number of single normals leaves one in store
    other = streams.generator("another", "noise")
    other.set_state(one.get_state())
    assert torch.equal(torch.randn(5, generator=one), torch.randn(5, generator=other))
    assert torch.equal(torch.randn(700, generator=one), torch.randn(700, generator=other))


def test_an_unknown_layout_is_refused():
    state = torch.Generator().manual_seed(0).get_state()
    streams._check_layout(state)
    packed = state.clone()
    packed[WORDS] = torch.cat([state[WORDS].view(-1, 8)[:, :4].flatten(), torch.zeros(4 * 624, dtype=torch.uint8)])
    shifted = [state.roll(n) for n in (-16, -8, -4, 4, 8, 16)]
    for unknown in (packed, *shifted, torch.cat([state, state[:8]]), state[:-8], torch.zeros_like(state)):
        with pytest.raises(RuntimeError, match="unknown layout"):
            streams._check_layout(unknown)

import hashlib
import io

import numpy as np
import pytest
import torch
from scipy import stats

from dp_bench.mechanism import rng as rng_module
from dp_bench.mechanism.rng import initial_weights, rng


def draw(name, purpose, n=8, dtype=torch.float64):
    return rng(name, purpose).uniform(n, dtype)


def key(name, purpose="noise"):
    """The 256 bits that a generator starts from."""
    return bytes.fromhex(rng(name, purpose).state()["key"])


def test_same_name_same_stream():
    for dtype in (torch.float32, torch.float64):
        assert torch.equal(draw("run", "noise", 1000, dtype), draw("run", "noise", 1000, dtype))
    assert rng("run", "noise").state() == rng("run", "noise").state()


@pytest.mark.parametrize(
    "other", [("run ", "noise"), ("Run", "noise"), ("run", "batches"), ("", "noise"), ("noise", "run")]
)
def test_other_name_or_purpose_other_stream(other):
    assert key("run", "noise") != key(*other)
    assert not torch.isin(draw("run", "noise", 1000), draw(*other, 1000)).any()


@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_no_two_of_the_papers_streams_share_a_key():
    runs = [
        f"paper/default/mnist/online/k9/eps{e}/lr={p}/seed{s}" for e in range(9) for p in range(410) for s in range(5)
    ]
    runs = runs[:18_435]
    runs += [f"paper/default/ag_news/no_dp/kinf/epsinf/lr={p}/seed0" for p in range(18_435 - len(runs))]
    assert len({key(run, purpose) for run in runs for purpose in ("batches", "noise")}) == 2 * 18_435


def test_the_key_is_a_hash_of_purpose_and_name():
    assert key("run") == hashlib.shake_256(b"dp_bench stream 3\nnoise\nrun").digest(32)


def test_the_stream_is_aes_256_of_a_counter():
    """The example of FIPS 197, appendix C.3: this key and this block give that one."""
    generator = rng("run", "noise")
    start = {"key": bytes(range(32)).hex(), "blocks": 0x00112233445566778899AABBCCDDEEFF}
    block = bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
    generator.restore(start)
    doubles = [(int.from_bytes(half, "little") >> 11) * 2.0**-53 for half in (block[:8], block[8:])]
    assert generator.uniform(2, torch.float64).tolist() == doubles
    assert generator.state()["blocks"] == start["blocks"] + 1
    generator.restore(start)
    quarters = [int.from_bytes(block[i : i + 4], "little") | 1 for i in range(0, 16, 4)]
    singles = np.array(quarters, dtype=np.float32) * np.float32(2**-32 * (1 - 2**-24))
    assert generator.uniform(4, torch.float32).tolist() == singles.tolist()


@pytest.mark.parametrize(("dtype", "in_a_block"), [(torch.float32, 4), (torch.float64, 2)])
def test_no_block_is_used_twice(dtype, in_a_block, monkeypatch):
    """Whatever sizes are drawn, in whatever chunks: a draw takes up the blocks that follow those of the last one."""
    whole = rng("run", "noise").uniform(100 * in_a_block, dtype)
    monkeypatch.setattr(rng_module, "_CHUNK", 3 * 16)
    generator, start = rng("run", "noise"), 0
    for size in (1, in_a_block, 3 * in_a_block, 3 * in_a_block + 1, 10 * in_a_block - 1, 0, 1):
        assert torch.equal(generator.uniform(size, dtype), whole[start : start + size])
        start += -(-size // in_a_block) * in_a_block
        assert generator.state()["blocks"] == start // in_a_block


@pytest.mark.parametrize(("byte", "uniform"), [(0, 2**-32), (255, 1 - 2**-24)])
def test_single_precision_reaches_neither_zero_nor_one(byte, uniform):
    generator = rng("run", "noise")
    generator._fill = lambda memory: memory.fill(byte)
    assert generator.uniform(3, torch.float32).tolist() == pytest.approx([uniform] * 3, rel=1e-7)
    assert 0 < generator.uniform(1, torch.float32) < 1


@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_keys_and_first_draws_are_uniform_over_names():
    names = [f"run {i}" for i in range(2000)]
    bits = np.unpackbits(np.stack([np.frombuffer(key(name), dtype=np.uint8) for name in names]), axis=1)
    deviations = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(bits))
    assert np.abs(deviations).max() < 6.5
    assert abs(deviations.sum()) < 5 * np.sqrt(deviations.size)
    for dtype in (torch.float32, torch.float64):
        first = [float(draw(name, "noise", 1, dtype)) for name in names]
        assert stats.kstest(first, "uniform").pvalue > 1e-6


def test_initial_weights_depend_on_the_seed_alone_and_nothing_else_is_touched():
    before = torch.get_rng_state()
    assert torch.equal(initial_weights(3).get_state(), initial_weights(3).get_state())
    assert not torch.equal(initial_weights(3).get_state(), initial_weights(4).get_state())
    # manual_seed alone would take these two for one.
    assert not torch.equal(initial_weights(1).get_state(), initial_weights(1 + 2**32).get_state())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("drawn", [2, 3])
def test_a_generator_restored_from_a_checkpoint_continues_where_it_was(drawn):
    one = rng("run", "noise")
    one.uniform(1001, torch.float64)
    one.uniform(drawn, torch.float32)
    checkpoint = io.BytesIO()
    torch.save(one.state(), checkpoint)
    checkpoint.seek(0)
    other = rng("another", "noise")
    other.restore(torch.load(checkpoint, weights_only=True))
    for dtype in (torch.float32, torch.float64, torch.float32):
        assert torch.equal(one.uniform(5, dtype), other.uniform(5, dtype))
    assert one.state() == other.state()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_only_precisions_that_reach_neither_zero_nor_one_are_drawn(dtype):
    with pytest.raises(TypeError, match=f"dtype: expected torch.float32 or torch.float64, got {dtype}"):
        rng("run", "noise").uniform(3, dtype)

"""Gradients do not depend, to the bit, on which examples are computed together, whatever the model."""

import pytest
import torch
from torch import nn

from dp_bench.mechanism.clipping import FlatModel, clipped_sums, gather, isolated
from dp_bench.mechanism.clipping.gradients import batched_gradients, isolated_gradients
from dp_bench.privacy.query import Query
from dp_bench.strategies.base import clipped_gradient
from dp_bench.testing import one_by_one


class _Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(12, 3, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


def _mlp(width, layer):
    return lambda: nn.Sequential(nn.Linear(7, width), layer(), nn.Linear(width, 3))


ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.Softplus, nn.ELU)
MODELS = {f"{a.__name__} {width}": (_mlp(width, a), (7,)) for width in (5, 21, 64) for a in ACTIVATIONS} | {
    "LayerNorm 5": (lambda: nn.Sequential(nn.Linear(7, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3)), (7,)),
    "LayerNorm 64": (lambda: nn.Sequential(nn.Linear(7, 64), nn.LayerNorm(64), nn.Linear(64, 3)), (7,)),
    "GroupNorm": (lambda: nn.Sequential(nn.Conv2d(1, 6, 3), nn.GroupNorm(3, 6), nn.Flatten()), (1, 7, 7)),
    "AvgPool": (
        lambda: nn.Sequential(nn.Conv2d(1, 6, 3), nn.AvgPool2d(3, 2), nn.Flatten(), nn.Linear(54, 3)),
        (1, 9, 9),
    ),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(1, 5, 3), nn.Tanh(), nn.Conv2d(5, 3, 3), nn.Tanh()), (1, 9, 9)),
    "several positions": (lambda: nn.Sequential(nn.Linear(7, 11), nn.Tanh(), nn.Linear(11, 3)), (5, 7)),
    "attention": (_Attention, (5, 12)),
}


def squares(outputs, _):
    return outputs.flatten(1).square().sum(1)


def model_of(name):
    build, shape = MODELS[name]
    torch.manual_seed(0)
    return FlatModel(build()), torch.randn(41, *shape, generator=torch.Generator().manual_seed(1))


def norms(model, x, micro_batch):
    seen = []

    def weight(n):
        seen.append(n.clone())
        return torch.zeros_like(n)

    clipped_sums(model, squares, x, torch.zeros(len(x)), [Query("norms", "scalar", weight, 1.0, 1.0)], micro_batch)
    return torch.cat(seen).tolist()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow(reason="threads wait for each other"))])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_a_norm_is_the_same_in_every_batch(name, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model, x = model_of(name)
        for micro_batch in (7, 32):
            seen = {}
            for size in (1, 8, 9, 33):
                for place in {0, size // 2, size}:
                    members = [*range(place), 40, *range(place, size)]
                    for i, norm in zip(members, norms(model, x[members], micro_batch), strict=True):
                        seen.setdefault(i, set()).add(norm)
            assert max(map(len, seen.values())) == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["Tanh 5", "convolutions", "LayerNorm 5", "several positions"])
def test_alone_is_right(name):
    model, x = model_of(name)
    y = torch.zeros(len(x))
    query = [clipped_gradient(0.5, 1.0)]
    found, truth = (
        clipped_sums(model, squares, x, y, query, 16, gradients=way)["gradient"]
        for way in (lambda m, losses, a, b: isolated_gradients(m, losses, a, b, len(a)), one_by_one)
    )
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-6)


def test_a_model_that_is_tried_in_vain_is_computed_alone(monkeypatch):
    monkeypatch.setattr(isolated, "_found", {})
    model, x = model_of("ReLU 64")
    arguments = model, squares, x, torch.zeros(len(x)), 16
    monkeypatch.setattr(isolated, "is_isolated", lambda *_: False)
    assert isolated.passes(*arguments) is isolated_gradients
    assert isolated.passes(*arguments) is isolated_gradients  # and it is not tried again
    monkeypatch.setattr(isolated, "is_isolated", lambda *_: True)
    assert isolated.passes(*arguments) is isolated_gradients
    isolated._found.clear()
    model.tried.clear()
    assert isolated.passes(*arguments).func is batched_gradients


def test_a_model_that_refuses_synthetic_examples_is_computed_alone():
    def picky(outputs, targets):
        assert bool((targets == 7).all())
        return outputs.sum(1)

    model, x = model_of("ReLU 64")
    sums = clipped_sums(model, picky, x, torch.full((len(x),), 7.0), [clipped_gradient(0.5, 1.0)])
    assert bool(sums["gradient"].isfinite().all())


def test_the_trial_reads_no_example_and_leaves_everything_as_it_was():
    model, x = model_of("Tanh 64")
    params, state = model.params.clone(), torch.get_rng_state()
    isolated._found.clear()
    isolated.passes(model, squares, torch.full_like(x, torch.nan), torch.full((len(x),), torch.nan), 16)
    assert [*isolated._found.values()] == [isolated._multiple(model, squares, x, torch.zeros(len(x)), 16)]
    assert torch.equal(model.params, params)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_loss_that_is_written_anew_is_not_tried_anew():
    model, x = model_of("ReLU 64")
    isolated._found.clear()
    for _ in range(3):
        isolated.passes(model, lambda o, t: o.sum(1), x, torch.zeros(len(x)), 16)
        isolated.passes(model, nn.L1Loss(reduction="none"), x, torch.zeros(len(x), 3), 16)
    assert len(isolated._found) == 2


@pytest.mark.parametrize("size", [0, 1, 5, 8, 20])
@pytest.mark.parametrize("micro_batch", [7, 8, 16])
@pytest.mark.parametrize("name", ["ReLU 64", "Tanh 5", "LayerNorm 64"])
def test_a_gathered_batch_has_the_same_sums(name, size, micro_batch):
    model, x = model_of(name)
    y, members = torch.arange(41.0), torch.arange(40, 40 - size, -1)
    queries = [clipped_gradient(0.5, 1.0), Query("count", "scalar", torch.ones_like, 1.0, 1.0)]
    rows, targets = gather(x, members), gather(y, members)
    assert len(rows) % 8 == 0
    assert torch.equal(rows[:size], x[members])
    assert not rows[size:].any()
    found = clipped_sums(model, squares, rows, targets, queries, micro_batch, examples=size)
    truth = clipped_sums(model, squares, x[members], y[members], queries, micro_batch)
    assert all(torch.equal(found[name], truth[name]) for name in truth)
    assert float(found["count"]) == size

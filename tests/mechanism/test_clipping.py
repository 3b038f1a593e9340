"""The engines against the definition: one example's gradient at a time, its norm, its weights, added up."""

import copy
import math
import warnings
from functools import partial

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from dp_bench.mechanism.clipping import FlatModel, clipped_sums, layers
from dp_bench.mechanism.clipping.gradients import _chain, batched_gradients
from dp_bench.mechanism.clipping.parts import Materialised, OuterProduct, Weights
from dp_bench.privacy.query import Query
from dp_bench.tasks import TASKS
from dp_bench.testing import fused, general, one_by_one, opacus

MODELS = {task.model: (task.recipe().build, task.shape({"words": 25}), task.losses) for task in TASKS.values()}


def squared_error(outputs, targets):
    return (outputs - targets).square().flatten(1).sum(1)


def product(outputs, targets):
    """Its output gradient is the target."""
    return (outputs * targets).flatten(1).sum(1)


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def in_memory(parameter):
    """Its numbers in the order that FlatModel promises: channels last, a matrix of 16 rows or more by columns."""
    if parameter.dim() == 4:
        parameter = parameter.permute(0, 2, 3, 1)
    if parameter.dim() == 2 and len(parameter) >= 16:
        parameter = parameter.T
    return parameter.flatten()


def gradients_of(module, losses, inputs, targets):
    """[B, P]: each example's whole gradient."""
    module = copy.deepcopy(module).requires_grad_()
    parameters = list(module.parameters())
    rows = []
    for x, y in zip(inputs, targets, strict=True):
        loss = losses(module(x.clone()[None]), y[None]).sum()
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        rows.append(torch.cat([in_memory(g) for g in gradients]))
    return torch.stack(rows) if rows else torch.zeros(0, sum(p.numel() for p in parameters), dtype=parameters[0].dtype)


def clip(c):
    return Query("clipped", "vector", lambda n: (c / n).clamp(max=1), c, 1.0)


def five_queries(c):
    """Vector and scalar, clipping and not, at the threshold `c`; and what they must add up to."""
    queries = [
        Query("count", "scalar", lambda n: (n <= c).to(n.dtype) - 0.5, 0.5, 1.0),
        clip(c),
        Query("norms", "scalar", lambda n: n, math.inf, 0.0),
        Query("direction", "vector", lambda n: (n > c) / n, 1.0, 1.0),
        Query("plain", "vector", lambda n: n.new_ones(n.shape), math.inf, 0.0),
    ]

    def expected(g):
        n = g.norm(dim=1, keepdim=True)
        return {
            "count": ((n <= c).to(g.dtype) - 0.5).sum(),
            "clipped": (g * (c / n).clamp(max=1)).sum(0),
            "norms": n.sum(),
            "direction": (g / n * (n > c)).sum(0),
            "plain": g.sum(0),
        }

    return queries, expected


def middle(rows):
    """Between two norms of the middle: rounding must not decide on which side an example is."""
    norms = rows.norm(dim=1).sort().values
    return 0.999 * float(norms[len(norms) // 2 - 1 :][:2].mean()) if len(norms) else 0.1


def assert_right(module, inputs, targets, losses=squared_error, gradients=fused, micro_batch=3, tolerance=1e-12):
    """The threshold is about the median norm, so that some of the examples are clipped and some are not."""
    rows = gradients_of(module, losses, inputs, targets)
    queries, expected = five_queries(middle(rows))
    model = FlatModel(copy.deepcopy(module))
    sums = clipped_sums(model, losses, inputs, targets, queries, micro_batch, gradients)
    assert sums.keys() == {q.name for q in queries}
    for name, truth in expected(rows).items():
        assert sums[name].shape == truth.shape
        assert not sums[name].requires_grad
        scale = rows.norm(dim=1).sum() if name in ("plain", "norms", "clipped") else len(rows)
        assert float((sums[name] - truth).norm()) <= tolerance * float(scale), name


def examples(name, batch, dtype=torch.float64, seed=0):
    build, shape, losses = MODELS[name]
    torch.manual_seed(seed)
    module = build().to(dtype)
    x = torch.rand(batch, *shape, generator=torch.Generator().manual_seed(seed + 1), dtype=dtype)
    return module, x, x if name == "autoencoder" else torch.arange(batch) % 4, losses


# The three models


@pytest.mark.parametrize(("batch", "micro_batch"), [(0, 4), (1, 4), (5, 1), (6, 3), (5, 2), (5, 16)])
@pytest.mark.parametrize("name", MODELS)
def test_fused_is_right_on_the_papers_models(name, batch, micro_batch):
    module, x, y, losses = examples(name, batch)
    assert_right(module, x, y, losses, fused, micro_batch)


@pytest.mark.parametrize("gradients", [general, one_by_one, opacus, batched_gradients])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_the_other_engines_are_right_on_the_papers_models(name, gradients):
    module, x, y, losses = examples(name, 5)
    assert_right(module, x, y, losses, gradients, 3)


@pytest.mark.parametrize("truth", [one_by_one, opacus])
@pytest.mark.parametrize("name", MODELS)
def test_fused_equals_the_slow_engines_in_single_precision(name, truth):
    module, x, y, losses = examples(name, 7, torch.float32)
    model = FlatModel(module)
    queries, _ = five_queries(middle(gradients_of(module, losses, x, y)))
    ours, theirs = (clipped_sums(model, losses, x, y, queries, 3, way) for way in (fused, truth))
    for query in queries:
        assert float((ours[query.name] - theirs[query.name]).norm() / theirs[query.name].norm()) < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_neither_inputs_nor_parameters_are_changed_and_no_graph_is_kept(name):
    module, x, y, losses = examples(name, 3)
    model = FlatModel(module)
    before, inputs = model.params.clone(), x.clone()
    for way in (fused, general):
        with torch.no_grad():
            sums = clipped_sums(model, losses, x, y, [clip(0.1)], 2, way)
        assert not sums["clipped"].requires_grad
        assert float(sums["clipped"].norm()) > 0
    assert torch.equal(model.params, before)
    assert torch.equal(x, inputs)
    assert all(p.grad is None and not p.requires_grad for p in module.parameters())


# Single layers

CONVOLUTIONS = [
    {},
    {"bias": False},
    {"stride": 2},
    {"stride": (2, 3)},
    {"padding": 1},
    {"padding": (2, 0)},
    {"padding": (0, 2), "stride": (1, 2)},
    {"dilation": 2},
    {"dilation": (1, 2)},
    {"groups": 2},
    {"groups": 2, "bias": False, "padding": 1, "stride": 2},
    {"groups": 4, "out_channels": 8},
    {"groups": 4, "out_channels": 4, "dilation": 2, "padding": 2},
    {"kernel_size": (1, 3)},
    {"kernel_size": (4, 1), "padding": (3, 0), "stride": (2, 1)},
    {"kernel_size": 1},
    {"kernel_size": 1, "stride": 3},
    {"kernel_size": (9, 8)},
    {"kernel_size": (2, 3), "stride": (3, 2), "padding": (1, 2), "dilation": (2, 1), "groups": 2},
    {"in_channels": 1},
    {"in_channels": 1, "out_channels": 1, "kernel_size": 2, "stride": 2},
    {"out_channels": 1, "bias": False},
]
TRANSPOSED = [
    *CONVOLUTIONS[:17],
    {"kernel_size": (2, 3), "stride": (3, 2), "padding": (1, 2), "dilation": (2, 1), "groups": 2},
    {"stride": 2, "output_padding": 1},
    {"stride": (2, 3), "output_padding": (1, 2), "padding": 1, "bias": False},
    {"stride": 3, "output_padding": (0, 2), "groups": 2, "kernel_size": (2, 1)},
    {"dilation": 3, "output_padding": 2, "stride": 2, "padding": (3, 1)},
    {"in_channels": 1},
    {"out_channels": 1, "bias": False},
]


def layer_of(kind, options):
    torch.manual_seed(0)
    return kind(**{"in_channels": 4, "out_channels": 6, "kernel_size": 3} | options).double()


def assert_layer_is_right(layer, x, gradients=fused):
    module = nn.Sequential(layer, nn.Tanh())
    assert_right(module, x, random(*module(x).shape, seed=1), gradients=gradients)


def test_no_more_memory_for_pieces_than_the_examples_need() -> None:
    chunk, buffer = layers._chunk_of(torch.empty(4, 1, 1, 1, 1, 512))
    assert (chunk, len(buffer)) == (4, 4)


@pytest.mark.parametrize("chunk", [1, 2**18])
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_convolutions(monkeypatch, options, chunk):
    monkeypatch.setattr(layers, "_CHUNK", chunk)
    layer = layer_of(nn.Conv2d, options)
    assert_layer_is_right(layer, random(5, layer.in_channels, 9, 8))


@pytest.mark.parametrize("chunk", [1, 2**18])
@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
def test_transposed_convolutions(monkeypatch, options, chunk):
    monkeypatch.setattr(layers, "_CHUNK", chunk)
    layer = layer_of(nn.ConvTranspose2d, options)
    assert_layer_is_right(layer, random(5, layer.in_channels, 5, 6))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gradients", [fused, general])
@pytest.mark.parametrize("outputs", [1, 4, 15, 16, 17])
@pytest.mark.parametrize("shape", [(5,), (1,), (3, 5), (1, 5), (2, 3, 5), (2, 1, 3, 5)], ids=str)
def test_linear_layers_at_one_or_several_positions(shape, outputs, bias, gradients):
    torch.manual_seed(0)
    assert_layer_is_right(nn.Linear(shape[-1], outputs, bias=bias).double(), random(5, *shape), gradients)


LAYOUTS = {
    "contiguous": lambda: random(5, 4, 9, 8),
    "channels-last": lambda: random(5, 4, 9, 8).contiguous(memory_format=torch.channels_last),
    "sliced channels": lambda: random(5, 8, 9, 8)[:, ::2],
    "sliced channels-last": lambda: random(5, 7, 9, 8).contiguous(memory_format=torch.channels_last)[:, 2:6],
    "cropped": lambda: random(5, 4, 11, 12)[:, :, 1:-1, 2:-2],
    "strided": lambda: random(5, 4, 18, 16)[..., ::2, ::2],
    "transposed": lambda: random(5, 4, 8, 9).transpose(2, 3),
    "every second example": lambda: random(10, 4, 9, 8)[1::2],
    "width first": lambda: random(8, 9, 4, 5).permute(3, 2, 1, 0),
    "one example repeated": lambda: random(1, 4, 9, 8).expand(5, 4, 9, 8),
    "one channel repeated": lambda: random(5, 1, 9, 8).expand(5, 4, 9, 8),
}


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_images(layout, kind, padding):
    assert_layer_is_right(layer_of(kind, {"padding": padding}), LAYOUTS[layout]())


@pytest.mark.parametrize(
    "x",
    [
        random(7, 5).T.contiguous().T,
        random(7, 10)[:, ::2],
        random(14, 6)[::2, 1:],
        random(7, 3, 5).transpose(0, 1).contiguous().transpose(0, 1),
        random(7, 5, 3).transpose(1, 2),
        random(7, 1, 5).expand(7, 3, 5),
    ],
    ids=lambda x: f"{tuple(x.shape)}, strides {x.stride()}",
)
def test_layouts_of_rows(x):
    torch.manual_seed(0)
    assert_layer_is_right(nn.Linear(5, 4).double(), x)


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_output_gradients_without_memory_of_their_own(kind):
    """The gradient of a plain sum is one number, expanded."""
    module = nn.Sequential(layer_of(kind, {"groups": 2, "stride": 2}))
    x = random(5, 4, 9, 8)
    assert_right(module, x, torch.zeros(5), lambda outputs, targets: outputs.flatten(1).sum(1))


@st.composite
def convolutions(draw):
    """(layer, input) with random shapes."""
    pair = lambda low, high: (draw(st.integers(low, high)), draw(st.integers(low, high)))  # noqa: E731
    groups = draw(st.integers(1, 3))
    options = {
        "in_channels": groups * draw(st.integers(1, 2)),
        "out_channels": groups * draw(st.integers(1, 2)),
        "kernel_size": pair(1, 3),
        "stride": pair(1, 3),
        "padding": pair(0, 2),
        "dilation": pair(1, 2),
        "groups": groups,
        "bias": draw(st.booleans()),
    }
    kind = draw(st.sampled_from([nn.Conv2d, nn.ConvTranspose2d]))
    size, k, s, p, d = pair(1, 7), *(options[o] for o in ("kernel_size", "stride", "padding", "dilation"))
    if kind is nn.ConvTranspose2d:
        extra = options["output_padding"] = tuple(draw(st.integers(0, max(s[i], d[i]) - 1)) for i in (0, 1))
        out = [(size[i] - 1) * s[i] - 2 * p[i] + d[i] * (k[i] - 1) + extra[i] + 1 for i in (0, 1)]
    else:
        out = [size[i] + 2 * p[i] - d[i] * (k[i] - 1) for i in (0, 1)]
    assume(min(out) >= 1)
    x = random(draw(st.integers(1, 4)), options["in_channels"], *size, seed=draw(st.integers(0, 100)))
    return layer_of(kind, options), x.contiguous(
        memory_format=draw(st.sampled_from([torch.channels_last, torch.contiguous_format]))
    )


@pytest.mark.slow(reason="tries many shapes of convolutions")
@given(convolutions(), st.sampled_from([1, 300, 2**18]))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_convolutions_of_any_shape_in_pieces_of_any_size(case, chunk):
    layer, x = case
    module = nn.Sequential(layer, nn.Tanh())
    gradients = gradients_of(module, squared_error, x, random(*module(x).shape, seed=1))
    assume(bool(gradients.any(1).all()))  # a gradient of zero, from padding alone, is on no side of a threshold
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "_CHUNK", chunk)
        assert_layer_is_right(*case)


# Models that are not a chain of such layers


class Own(nn.Module):
    """Parameters of its own: a number, and four dimensions."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.3))
        self.filters = nn.Parameter(torch.randn(2, 3, 1, 4))
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x) * self.scale + torch.einsum("ni,abci->ni", x, self.filters)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return x + self.b(torch.tanh(self.a(x)))


class TwiceInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class Subclass(nn.Linear):
    def forward(self, x):
        return super().forward(x) + x * self.weight.diagonal()


class InPlace(nn.Module):
    def forward(self, x):
        return x.mul_(2)


class Elsewhere(nn.Module):
    """Uses another layer's weight without owning it."""

    def __init__(self, layer):
        super().__init__()
        self.others = [layer]

    def forward(self, x):
        return x @ self.others[0].weight.T


def tied():
    a, b = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
    b.weight = a.weight
    return nn.Sequential(a, nn.Tanh(), b)


def layer_twice():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer)


def block_twice():
    block = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    return nn.Sequential(block, nn.Linear(4, 4), block)


def activation_twice():
    activation = nn.Tanh()
    return nn.Sequential(nn.Linear(4, 5), activation, nn.Linear(5, 4), activation)


def elsewhere():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), Elsewhere(layer))


def hooked(where):
    module = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 4))
    layer = {"layer": module[1], "block": module[0], "model": module}[where]
    layer.register_forward_hook(lambda _, __, output: output * 3)
    return module


def input_hooked():
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    module[2].register_forward_pre_hook(lambda _, inputs: (inputs[0] * 3,))
    return module


def weight_normed(norm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of them is deprecated, and still used
        return nn.Sequential(norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 4))


def chain(*layers):
    return nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 4))


def images_then_rows(*layers):
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), *layers, nn.Flatten(), nn.LazyLinear(4))


def with_parameter_added(place):
    """One that is not used, so that its gradient is zero, whatever was in memory before."""
    place.register_parameter("added", nn.Parameter(torch.ones(5)))
    return chain(place)


def with_layer_added(place):
    place.adapter = nn.Linear(3, 3)
    return chain(place)


def bias_first():
    layer = nn.Linear(4, 4)
    weight = layer.weight
    del layer.weight
    layer.register_parameter("weight", weight)
    return chain(layer)


# Everything that the rules do not cover must be recognised ...
WITHOUT_RULE = {
    "LayerNorm": lambda: chain(nn.LayerNorm(4)),
    "GroupNorm": lambda: images_then_rows(nn.Conv2d(1, 4, 2, padding=1), nn.GroupNorm(2, 4)),
    "PReLU": lambda: chain(nn.PReLU()),
    "Conv1d": lambda: chain(nn.Unflatten(1, (2, 2)), nn.Conv1d(2, 2, 2, padding=1), nn.Flatten(), nn.Linear(6, 4)),
    "own parameters": lambda: chain(Own()),
    "residual": lambda: chain(Residual()),
    "tied": tied,
    "a layer twice, inside": TwiceInside,
    "subclass of Linear": lambda: chain(Subclass(4, 4)),
    "in-place ReLU": lambda: chain(nn.ReLU(inplace=True)),
    "in-place ReLU at the start": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)),
    "padding by name": lambda: images_then_rows(nn.Conv2d(1, 4, 2, padding="same")),
    "circular padding": lambda: images_then_rows(nn.Conv2d(1, 4, 2, padding=1, padding_mode="circular")),
    "weight_norm": lambda: weight_normed(nn.utils.parametrizations.weight_norm),
    "weight_norm as it was": lambda: weight_normed(nn.utils.weight_norm),
    "a parameter added to a layer": lambda: with_parameter_added(nn.Linear(4, 4)),
    "a parameter added to an activation": lambda: with_parameter_added(nn.Tanh()),
    "a layer added to a layer": lambda: with_layer_added(nn.Linear(4, 4)),
    "a layer added to an activation": lambda: with_layer_added(nn.Tanh()),
    "bias in front of weight": bias_first,
    "a parameter added to a block": lambda: with_parameter_added(nn.Sequential()),
    "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
}
# ... and these may go either way, if only they are right.
UNUSUAL = {
    "a layer twice": layer_twice,
    "a block twice": block_twice,
    "an activation twice": activation_twice,
    "a custom in-place layer": lambda: chain(nn.Tanh(), nn.Linear(4, 4), InPlace()),
    "a weight used elsewhere": elsewhere,
    "a hook on a layer": partial(hooked, "layer"),
    "a hook on a block": partial(hooked, "block"),
    "a hook on the model": partial(hooked, "model"),
    "a hook on an input": input_hooked,
    "a layer alone": lambda: nn.Linear(4, 4),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential()), nn.Tanh(), nn.Linear(4, 4)
    ),
}


def unusual(build):
    torch.manual_seed(0)
    module = build()
    x = random(7, 4)
    if isinstance(module, nn.TransformerEncoderLayer):
        x = random(7, 3, 4)
    with torch.no_grad():
        module(x.float())  # makes the lazy layers
    return module.double(), x, random(*x.shape, seed=1)


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_a_model_without_a_rule_takes_the_general_way(name):
    module, x, y = unusual(WITHOUT_RULE[name])
    with pytest.raises(TypeError, match="rule"):
        fused(FlatModel(copy.deepcopy(module)), squared_error, x.clone(), y)
    assert_right(module, x.clone(), y, gradients=batched_gradients)
    assert_right(module, x[:1].clone(), y[:1], gradients=batched_gradients)


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_model_is_right(name):
    module, x, y = unusual(UNUSUAL[name])
    assert_right(module, x, y, gradients=batched_gradients)


def test_embedding():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2)).double()
    tokens = torch.randint(10, (7, 3), generator=torch.Generator().manual_seed(0))
    assert_right(module, tokens, random(7, 2), gradients=batched_gradients)


# Sensitivity on bad numbers


@pytest.mark.parametrize("gradients", [fused, general])
@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 1e30, -3e38])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_an_example_of_bad_numbers_leaves_the_others_alone(name, bad, everywhere, gradients):
    module, x, y, losses = examples(name, 5, torch.float32)
    model = FlatModel(module)
    queries, _ = five_queries(0.1)
    kept = torch.tensor([0, 1, 3, 4])
    alone = clipped_sums(model, losses, x[kept], y[kept], queries, 3, gradients)
    x[2].view(-1)[slice(None) if everywhere else 300] = bad
    sums = clipped_sums(model, losses, x, y, queries, 3, gradients)
    for query in queries:
        difference = float((sums[query.name] - alone[query.name]).norm())
        if math.isfinite(bad):  # its gradient may be finite, even 0
            assert difference <= query.bound * (1 + 1e-5)
        else:
            assert difference <= 1e-6 * max(float(alone[query.name].norm()), 1)


def contribution(inner, outer, c, gradients=fused, bias=True):
    """|contribution| / C of one example whose layer has input `inner` and output gradient `outer`, in float32."""
    inner, outer = torch.tensor([inner]), torch.tensor([outer])
    model = FlatModel(nn.Sequential(nn.Linear(inner.shape[1], outer.shape[1], bias=bias)))
    with torch.no_grad():
        model.params.zero_()
    total = clipped_sums(model, product, inner, outer, [clip(c)], 1, gradients)["clipped"]
    return float(total.double().norm()) / c


@pytest.mark.parametrize("gradients", [fused, general])
@pytest.mark.parametrize("c", [1e-6, 1e-3, 0.1, 1.0, 1e3])
@pytest.mark.parametrize(
    ("inner", "outer"), [(3.0, 1e6), (1e6, 3.0), (1e9, 1e9), (2.0, 1e18), (1e18, 2.0), (1.3e4, 1.7e4)]
)
def test_huge_but_finite_gradients_are_clipped_to_the_threshold(inner, outer, c, gradients):
    assert contribution([inner, 0.3 * inner], [outer, -0.7 * outer], c, gradients) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("gradients", [fused, general])
@pytest.mark.parametrize("c", [1e-30, 3e-25, 1e-25, 1e-20, 1e-12, 1e-7, 1e-6, 1e-3, 1.0, 1e30])
@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        (1e18, 1.1e18),
        (1e19, 1e19),
        (1.7e17, 2.3e17),
        (1e10, 1e10),
        (3.0, 1e18),
        (1e18, 1e-3),
        (1.1e18, 1.3e-12),
        (1e38, 1.3e-14),
        (2.1e36, 1e-20),
        (1e-20, 2.1e36),
    ],
)
def test_no_gradient_is_so_large_that_rounding_takes_it_past_the_threshold(inner, outer, c, gradients):
    """Such weights, or their products with small numbers, are too small for float32 to hold with all their digits."""
    assert contribution([inner], [outer], c, gradients) <= 1 + 1e-6


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gradients", [fused, general])
@pytest.mark.parametrize("c", [1e-12, 1e-4, 1e-3, 1e-2, 0.1])
def test_no_output_gradient_is_so_small_that_its_norm_is_lost(c, gradients, bias):
    """The squares of 2.6e-23 are 0 in float32, but the input makes them a gradient of norm 0.015."""
    assert contribution([1.8e19], [4e-23] + [2.6e-23] * 1000, c, gradients, bias) <= 1 + 1e-6
    assert contribution([4e-23] + [2.6e-23] * 1000, [1.8e19], c, gradients, bias) <= 1 + 1e-6
    assert contribution([1.8e19], [4.57e-23], c, gradients, bias) <= 1 + 1e-6


@pytest.mark.slow(reason="600 examples of hypothesis")
@given(
    inner=st.floats(-40, 38.5),
    outer=st.floats(-40, 38.5),
    weight=st.floats(-46, 1),
    spread=st.lists(st.floats(-3, 0), min_size=1, max_size=6),
    way=st.sampled_from([fused, general]),
)
@settings(derandomize=True, deadline=None, max_examples=600)
def test_no_gradient_of_any_size_passes_the_threshold(inner, outer, weight, spread, way):
    """Sizes are powers of ten, the threshold's is relative to the gradient's."""
    assume(-35 < inner + outer + weight < 30)
    a, d = ([10 ** (size + s) for s in spread] for size in (inner, outer))
    assert contribution(a, d, 10 ** (inner + outer + weight), way) <= 1 + 1e-6


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
@pytest.mark.parametrize("size", [1e-20, 1e-10, 1.0, 1e8, 1e17])
def test_convolutions_are_clipped_to_the_threshold(kind, size):
    layer = layer_of(kind, {}).float()
    model = FlatModel(nn.Sequential(layer))
    x = random(1, 4, 9, 8, dtype=torch.float32)
    y = random(*layer(x).shape, dtype=torch.float32, seed=1) * size
    for c in (1e-3, 1e3):
        total = float(clipped_sums(model, product, x, y, [clip(c)], 1, fused)["clipped"].double().norm())
        whole = float(gradients_of(layer.double(), product, x.double(), y.double()).norm())
        layer.float()
        assert total == pytest.approx(min(whole, c) if whole > 1e-12 else 0, rel=1e-6)


@pytest.mark.parametrize("gradients", [fused, general])
@pytest.mark.parametrize("name", MODELS)
def test_the_norm_is_that_of_what_is_summed(name, gradients):
    module, x, y, losses = examples(name, 1, torch.float32, seed=3)
    queries = five_queries(1e-3)[0]
    sums = clipped_sums(FlatModel(module), losses, x, y, queries, 1, gradients)
    assert float(sums["norms"]) == pytest.approx(float(sums["plain"].double().norm()), rel=5e-7)
    assert float(sums["clipped"].double().norm()) == pytest.approx(1e-3, rel=1e-6)
    assert float(sums["direction"].double().norm()) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("first", [0, 1])
def test_a_sum_without_a_bound_beside_one_with(first):
    """Two sums take a way of their own, through the ratio of their bounds."""
    module, x, y, losses = examples("bag_of_words", 6, torch.float32, seed=4)
    queries = [Query("plain", "vector", torch.ones_like, math.inf, 0.0), clip(1e-3)]
    together = clipped_sums(FlatModel(module), losses, x, y, [queries[first], queries[1 - first]], 6)
    for query in queries:
        alone = clipped_sums(FlatModel(module), losses, x, y, [query], 6)[query.name]
        assert torch.allclose(together[query.name], alone, rtol=1e-5, atol=1e-9), query.name


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(
    "rows",
    [
        lambda b: random(b, 541_696, dtype=torch.float32),
        lambda b: torch.full((b, 541_696), 0.1),
        lambda b: random(541_696, b, dtype=torch.float32).abs().T,
        lambda b: torch.cat([torch.full((b, 1), 1e3), torch.full((b, 541_695), 1e-1)], 1),
        lambda b: torch.logspace(-15, 15, 541_696).repeat(b, 1),
    ],
    ids=["normal", "constant", "strided", "one large", "many sizes"],
)
def test_norms_of_wide_layers_are_exact_to_single_precision(rows, batch):
    rows = rows(batch)
    truth = rows.double().square().sum(1)
    assert torch.allclose(Materialised(rows).squared_norms(), truth, rtol=1e-6, atol=0)
    outer = random(batch, 32, dtype=torch.float32, seed=1)
    found = OuterProduct(outer, rows, bias=False).squared_norms()
    assert torch.allclose(found, truth * outer.double().square().sum(1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("weighted", [[], [3], [1, 2, 3, 5, 8], range(9)], ids=["none", "one", "half", "all"])
@pytest.mark.parametrize("outputs", [2, 64])
@pytest.mark.parametrize("form", [Materialised, OuterProduct])
@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("chunk", [1, 4, 9])
@pytest.mark.parametrize("products", [torch.float32, torch.float64])
def test_weighted_sums_replace_what_they_find_or_add_to_it(weighted, outputs, form, queries, chunk, products):
    outer, inner = random(9, outputs), random(9, 5, seed=1)
    gradients = torch.stack([torch.cat([in_memory(d[:, None] * a), d]) for d, a in zip(outer, inner, strict=True)])
    part = (
        Materialised(*gradients.split([7, gradients.shape[1] - 7], 1))
        if form is Materialised
        else form(outer, inner, True)
    )
    weights = torch.zeros(queries, 9, dtype=torch.float64)
    weights[:, list(weighted)] = random(queries, len(weighted), seed=2)
    sums = torch.full((queries, gradients.shape[1]), math.nan, dtype=torch.float64)
    if products == torch.float32:
        part = (
            Materialised(*(g.float() for g in part.tensors))
            if form is Materialised
            else form(outer.float(), inner.float(), True)
        )
    used = Weights.of(weights.to(products))
    close = partial(torch.allclose, rtol=1e-5, atol=1e-5) if products == torch.float32 else torch.allclose
    part.add_weighted(used, sums, chunk, first=True)
    assert close(sums, weights @ gradients)
    part.add_weighted(used, sums, chunk, first=False)
    assert close(sums, 2 * weights @ gradients)


@pytest.fixture
def poisoned_memory(monkeypatch):
    """Whatever is not written is NaN."""
    empty = torch.Tensor.new_empty

    def poisoned(*args, **options):
        return empty(*args, **options).fill_(math.nan)

    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned)


@pytest.mark.parametrize("clipped", ["none", "half", "all"])
@pytest.mark.parametrize("bound", [float, partial(torch.tensor, dtype=torch.float64)], ids=["number", "tensor"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_two_sums_of_disjoint_examples(poisoned_memory, name, swapped, bound, clipped):
    module, x, y, losses = examples(name, 6)
    rows = gradients_of(module, losses, x, y)
    c = middle(rows) * {"none": 1e3, "half": 1, "all": 1e-3}[clipped]
    queries, expected = five_queries(c)
    pair = [q._replace(bound=bound(q.bound)) for q in queries if q.name in ("clipped", "direction")]
    sums = clipped_sums(FlatModel(module), losses, x, y, pair[::-1] if swapped else pair, 4)
    for query in pair:
        truth = expected(rows)[query.name]
        assert torch.allclose(sums[query.name], truth, rtol=0, atol=1e-10 * query.bound), query.name


@pytest.mark.parametrize("bounds", [(0.1, 0.0), (1e30, 1e-11), (math.inf, 1.0), (1.0, math.inf), (math.inf, math.inf)])
def test_two_sums_whose_bounds_have_no_use_for_a_ratio(poisoned_memory, bounds):
    module, x, y, losses = examples("bag_of_words", 6)
    rows = gradients_of(module, losses, x, y)
    queries = [Query(str(i), "vector", lambda n: n.new_ones(n.shape), b, 1.0) for i, b in enumerate(bounds)]
    sums = clipped_sums(FlatModel(module), losses, x, y, queries, 4)
    for i, b in enumerate(bounds):
        truth = (rows * (b / rows.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
        assert torch.allclose(sums[str(i)], truth, atol=1e-10), b


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_nothing_is_left_of_what_was_in_memory(poisoned_memory, batch):
    for build in (*WITHOUT_RULE.values(), *UNUSUAL.values()):
        module, x, y = unusual(build)
        sums = clipped_sums(FlatModel(module), squared_error, x[:batch], y[:batch], [clip(0.1)], 2)
        assert bool(sums["clipped"].isfinite().all())


def test_parts_that_leave_a_parameter_out_are_refused():
    def all_but_the_last(*arguments):
        return fused(*arguments)[:-1]

    model = FlatModel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    with pytest.raises(TypeError, match="Sequential: a parameter has no gradient"):
        clipped_sums(model, squared_error, torch.ones(3, 4), torch.ones(3, 4), [clip(0.1)], 3, all_but_the_last)


def test_as_many_targets_as_inputs_are_expected():
    model = FlatModel(nn.Sequential(nn.Linear(4, 4)))
    with pytest.raises(ValueError, match="targets: expected as many"):
        clipped_sums(model, squared_error, torch.ones(4, 4), torch.ones(8, 4), [clip(0.1)], 4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_removing_one_example_moves_each_sum_by_at_most_its_bound(name):
    module, x, y, losses = examples(name, 4)
    model = FlatModel(module)
    queries = [q for q in five_queries(middle(gradients_of(module, losses, x, y)))[0] if math.isfinite(q.bound)]
    whole = clipped_sums(model, losses, x, y, queries, 4)
    for i in range(4):
        kept = [j for j in range(4) if j != i]
        rest = clipped_sums(model, losses, x[kept], y[kept], queries, 2)
        for query in queries:
            assert float((whole[query.name] - rest[query.name]).norm()) <= query.bound * (1 + 1e-6)


# FlatModel


def small():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 3, (2, 4), bias=False), nn.Flatten(), nn.Linear(18, 4), nn.ConvTranspose2d(4, 1, 2)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parameters_are_views_of_one_tensor(dtype):
    module = small().to(dtype)
    initial = copy.deepcopy(module.state_dict())
    model = FlatModel(module)
    assert model.module is module
    assert model.params.dtype == dtype
    assert model.params.shape == (2 * 3 * 8 + 18 * 4 + 4 + 16 + 1,)
    assert all(torch.equal(p, initial[n]) for n, p in module.state_dict().items())
    model.params.mul_(2).add_(1)
    assert all(torch.equal(p, initial[n] * 2 + 1) for n, p in module.state_dict().items())
    module[2].weight[1, 2] = 77
    assert (model.params == 77).sum() == 1
    module.load_state_dict(initial)
    assert all(torch.equal(p, initial[n]) for n, p in module.state_dict().items())
    model.params.zero_()
    assert all(not p.any() for p in module.parameters())


@pytest.mark.parametrize("outputs", [4, 15, 16, 40])
def test_layout_is_the_parameters_in_order_as_they_lie_in_memory(outputs):
    module = nn.Sequential(*small(), nn.Linear(4, outputs))
    initial = copy.deepcopy(module.state_dict())
    model = FlatModel(module)
    flat = [in_memory(p) for p in initial.values()]
    assert torch.equal(model.params, torch.cat(flat))
    assert list(model.slices) == list(initial)
    assert all(torch.equal(model.params[where], f) for where, f in zip(model.slices.values(), flat, strict=True))
    assert module[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert not any(p.requires_grad for p in module.parameters())


def test_a_flat_model_computes_what_it_computed():
    module, x, *_ = examples("cnn", 3)
    before = module(x).detach()
    assert torch.allclose(FlatModel(module).module(x), before, rtol=1e-12)


def test_a_checkpoint_of_the_module_is_one_of_the_parameters():
    one, other = FlatModel(small()), FlatModel(small())
    other.params.normal_()
    one.module.load_state_dict(other.module.state_dict())
    assert torch.equal(one.params, other.params)


def test_a_tied_weight_is_there_once():
    model = FlatModel(tied())
    assert model.params.numel() == 20
    model.params.fill_(3)
    assert model.module[0].weight is model.module[2].weight
    assert (model.module[2].weight == 3).all()


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4),
        nn.BatchNorm2d(4, affine=False),
        nn.BatchNorm3d(4, track_running_stats=False),
        nn.SyncBatchNorm(4),
        nn.LazyBatchNorm2d(),
        nn.InstanceNorm2d(
            4, track_running_stats=True
        ),  # keeps sums over private examples, which the model's file would show
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_layer_that_mixes_examples_or_remembers_them_is_refused(layer):
    with pytest.raises(TypeError, match=r"1\.0.*GroupNorm"):
        FlatModel(nn.Sequential(nn.Linear(4, 4), nn.Sequential(layer)))


@pytest.mark.parametrize(
    "layer", [nn.InstanceNorm2d(3), nn.Softmax(0), nn.LogSoftmax(0), nn.Flatten(0)], ids=lambda layer: str(layer)
)
def test_layers_not_known_to_keep_examples_apart_are_not_fused(layer):
    assert _chain(nn.Sequential(nn.Conv2d(1, 3, 2), layer)) is None


def test_a_layer_that_is_used_twice_stays_whole():
    layer = nn.Linear(5, 5)
    model = FlatModel(nn.Sequential(layer, nn.Tanh(), layer))
    x = torch.randn(3, 5)
    first = clipped_sums(model, product, x, x, [clip(0.1)], 3)["clipped"]
    assert type(layer.weight) is nn.Parameter
    second = clipped_sums(model, product, x, x, [clip(0.1)], 3, one_by_one)["clipped"]
    assert torch.allclose(first, second, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("width", [100, 128, 256, 257, 509, 1021, 1250, 4096, 5000, 16_928, 20_000])
@pytest.mark.parametrize("large", [1, 2, 8, 16])
@pytest.mark.parametrize("every", [128, 250, 256, 20_000])
def test_single_precision_hides_nothing_from_a_norm(width, large, every):
    """Numbers whose squares vanish next to the first ones', if they are added to these one by one."""
    inner = [1.0 if i % every < large else 2.0**-12 for i in range(width)]
    assert contribution(inner, [1.0, -1.0], 1e-3, bias=False) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("width", [127, 128])
def test_nor_from_a_product_of_two(width):
    crafted = [1.0] * 8 + [2.0**-12] * (width - 8)
    assert contribution(crafted, crafted, 1e-3, bias=False) == pytest.approx(1, rel=2e-6)

import math

import pytest
import torch
from torch import nn

from dp_bench.mechanism.clipping import FlatModel
from dp_bench.mechanism.clipping.layers import FlattenChannelsLast, MaxPool2d
from dp_bench.tasks import TASKS
from dp_bench.training.trainer import mean_score

CONV, TRANSPOSE, LINEAR = nn.Conv2d, nn.ConvTranspose2d, nn.Linear
INPUTS = {"mnist": (1, 28, 28), "fashion_mnist": (1, 28, 28), "ag_news": (25 * 50,)}
SIZES = {"mnist": 551_322, "fashion_mnist": 48_705, "ag_news": 177_156}
MNIST, FASHION_MNIST, AG_NEWS = (TASKS[name] for name in INPUTS)


def cnn(**options):
    return MNIST.recipe(options).build()


def autoencoder(padding=0):
    return FASHION_MNIST.recipe({"autoencoder_padding": padding}).build()


def bag_of_words(**options):
    return AG_NEWS.recipe(options).build()


def images(n, *shape, seed=0):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed))


def count(module):
    return sum(p.numel() for p in module.parameters())


def outputs_of_layers(module, x):
    """(type, output shape of one example) of every layer with parameters."""
    shapes = []
    for layer in module:
        x = layer(x)
        if list(layer.parameters()):
            shapes.append((type(layer), tuple(x.shape[1:])))
    return shapes


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (cnn(), 551_322),
        (cnn(output_activation=True), 551_322),
        (autoencoder(), 48_705),
        (autoencoder(padding=1), 48_705),
        (bag_of_words(), 177_156),
        (bag_of_words(words=15), 113_156),
        (bag_of_words(words=15, output_activation=True), 113_156),
    ],
)
def test_parameter_counts_are_the_papers(module, expected):
    assert count(module) == expected
    assert FlatModel(module).params.numel() == expected


def test_layers_are_the_appendixs():
    assert [(type(m), m.weight.shape) for m in cnn() if hasattr(m, "weight")] == [
        (CONV, (16, 1, 8, 8)),
        (CONV, (32, 16, 4, 4)),
        (LINEAR, (32, 32 * 23 * 23)),
        (LINEAR, (10, 32)),
    ]
    assert [(type(m), m.weight.shape) for m in autoencoder() if hasattr(m, "weight")] == [
        *((CONV, (o, i, 3, 3)) for i, o in [(1, 8), (8, 16), (16, 32), (32, 64)]),
        *((TRANSPOSE, (i, o, 3, 3)) for i, o in [(64, 32), (32, 16), (16, 8), (8, 1)]),
    ]
    assert [(type(m), m.weight.shape) for m in bag_of_words() if hasattr(m, "weight")] == [
        (LINEAR, (128, 1250)),
        (LINEAR, (128, 128)),
        (LINEAR, (4, 128)),
    ]
    every = [*cnn(), *autoencoder(), *bag_of_words()]
    assert all(m.bias is not None for m in every if hasattr(m, "weight"))
    assert all(m.stride == (1, 1) for m in every if isinstance(m, CONV | TRANSPOSE))


def test_sizes_along_the_way():
    assert outputs_of_layers(cnn(), images(2, 1, 28, 28)) == [
        (CONV, (16, 27, 27)),
        (CONV, (32, 23, 23)),  # after pooling 2 x 2 with stride 1: 26 x 26
        (LINEAR, (32,)),
        (LINEAR, (10,)),
    ]
    sides = [shape[1:] for _, shape in outputs_of_layers(autoencoder(), images(2, 1, 28, 28))]
    assert sides == [(s, s) for s in (26, 24, 22, 20, 22, 24, 26, 28)]
    sides = [shape[1:] for _, shape in outputs_of_layers(autoencoder(padding=1), images(2, 1, 28, 28))]
    assert sides == [(28, 28)] * 8
    assert outputs_of_layers(bag_of_words(words=15), images(2, 750)) == [(LINEAR, (128,))] * 2 + [(LINEAR, (4,))]


def test_activations_are_the_appendixs_but_for_the_output():
    def activations(module):
        return [
            type(m).__name__
            for m in module
            if not list(m.parameters()) and not isinstance(m, FlattenChannelsLast | nn.MaxPool2d)
        ]

    assert activations(cnn()) == ["ReLU"] * 3
    assert activations(cnn(output_activation=True)) == ["ReLU"] * 4
    assert activations(autoencoder()) == ["LeakyReLU"] * 7 + ["Sigmoid"]
    assert activations(bag_of_words()) == ["LeakyReLU"] * 2
    assert activations(bag_of_words(output_activation=True)) == ["LeakyReLU"] * 3
    (pool,) = (m for m in cnn() if isinstance(m, nn.MaxPool2d))
    assert (pool.kernel_size, pool.stride) == (2, 1)


@pytest.mark.parametrize("shape", [(5, 16, 27, 27), (2, 3, 2, 9), (1, 1, 2, 2)])
@pytest.mark.parametrize("window", [{"stride": 1}, {"stride": 2}, {"stride": 1, "padding": 1}])
def test_pooling_without_gradients_gives_the_same_values(shape, window):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).contiguous(memory_format=torch.channels_last)
    x[0, 0, 0, 0], x[-1, -1, -1, -1] = math.nan, math.inf
    expected = nn.MaxPool2d(2, **window)(x)
    assert torch.equal(MaxPool2d(2, **window)(x).nan_to_num(7.0), expected.nan_to_num(7.0))
    with torch.inference_mode():
        assert torch.equal(MaxPool2d(2, **window)(x).nan_to_num(7.0), expected.nan_to_num(7.0))


def test_output_ranges():
    torch.manual_seed(0)
    x = images(20, 1, 28, 28)
    logits, rectified = cnn()(x), cnn(output_activation=True)(x)
    assert logits.shape == rectified.shape == (20, 10)
    assert logits.min() < 0
    assert rectified.min() >= 0
    pixels = autoencoder()(x)
    assert pixels.shape == x.shape
    assert 0 < pixels.min() <= pixels.max() < 1
    words = bag_of_words()(images(20, 1250) - 0.5)
    assert words.shape == (20, 4)
    assert words.min() < 0 < words.max()


def test_losses_and_scores_are_torchs_one_for_each_example():
    logits, labels = images(30, 10) * 8 - 4, torch.arange(30) % 10
    expected = [float(nn.functional.cross_entropy(o[None], t[None])) for o, t in zip(logits, labels, strict=True)]
    assert MNIST.losses(logits, labels).tolist() == pytest.approx(expected, rel=1e-6)
    a, b = images(7, 1, 28, 28), images(7, 1, 28, 28, seed=1)
    expected = [float(nn.functional.mse_loss(o, t)) for o, t in zip(a, b, strict=True)]
    assert FASHION_MNIST.losses(a, b).tolist() == pytest.approx(expected, rel=1e-6)
    assert MNIST.scores(torch.tensor([[1.0, 2, 0], [3, 2, 1]]), torch.tensor([1, 2])).tolist() == [True, False]


@pytest.mark.parametrize("name", TASKS)
def test_recipes(name):
    task, recipe = TASKS[name], TASKS[name].recipe()
    assert count(recipe.build()) == SIZES[name]
    assert (recipe.losses, recipe.scores) == (task.losses, task.scores)
    assert task.metric == ("mse" if name == "fashion_mnist" else "accuracy")
    assert task.higher_is_better == (task.metric == "accuracy")


def test_an_autoencoders_score_is_its_loss():
    a, b = images(7, 1, 28, 28), images(7, 1, 28, 28, seed=1)
    assert torch.equal(FASHION_MNIST.scores(a, b), FASHION_MNIST.losses(a, b))


def test_an_error_between_shapes_that_differ_is_refused():
    with pytest.raises(ValueError, match=r"targets: expected the outputs' shape \(4, 1, 28, 28\), got \(4, 28, 28\)"):
        FASHION_MNIST.losses(torch.zeros(4, 1, 28, 28), torch.zeros(4, 28, 28))


def test_recipes_pass_their_choices_on():
    assert count(bag_of_words(words=15)) == 113_156
    assert isinstance(cnn(output_activation=True)[-1], nn.ReLU)
    assert isinstance(bag_of_words(output_activation=True)[-1], nn.LeakyReLU)
    assert autoencoder(padding=1)[0].padding == (1, 1)


@pytest.mark.parametrize("size", [1, 99, 100, 101, 250])
@pytest.mark.parametrize("name", INPUTS)
def test_evaluate_is_the_plain_mean(name, size):
    recipe = TASKS[name].recipe()
    torch.manual_seed(1)
    module = FlatModel(recipe.build()).module
    x = images(size, *INPUTS[name])
    y = x if name == "fashion_mnist" else torch.arange(size) % 4
    with torch.no_grad():
        scores = [float(recipe.scores(module(x[i : i + 1]), y[i : i + 1])) for i in range(size)]
    assert mean_score(module, recipe.scores, x, y) == pytest.approx(math.fsum(scores) / size, rel=1e-5)


def test_evaluate_changes_nothing_and_sees_what_is_not_a_number():
    module = FlatModel(bag_of_words(words=1)).module
    before = {n: p.clone() for n, p in module.state_dict().items()}
    x = images(120, 50)
    mean_score(module, MNIST.losses, x, torch.zeros(120, dtype=torch.int64))
    assert all(torch.equal(p, before[n]) for n, p in module.state_dict().items())
    x[7] = math.nan
    assert math.isnan(mean_score(module, MNIST.losses, x, torch.zeros(120, dtype=torch.int64)))


def test_flattening_keeps_every_number_and_only_reorders_them():
    images = torch.arange(3.0 * 2 * 4 * 5).view(3, 2, 4, 5)
    flat = FlattenChannelsLast()(images)
    assert torch.equal(flat.view(3, 4, 5, 2).permute(0, 3, 1, 2), images)
    laid_out = images.contiguous(memory_format=torch.channels_last)
    assert FlattenChannelsLast()(laid_out).data_ptr() == laid_out.data_ptr(), "it copies what lies channels-last"

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from scipy import stats
from torch import nn

from dp_bench.mechanism.clipping import FlatModel, clipped_sums
from dp_bench.mechanism.noise import _refine, release
from dp_bench.mechanism.rng import rng
from dp_bench.privacy.query import Query
from dp_bench.privacy.rounding import ROUNDING

# Streams are fixed, so nothing here is flaky; thresholds are those that right noise misses once in a million, and a
# scale wrong by 2 % is more than twice as far away.
P = 1e-6
Z = stats.norm.isf(P / 2)
BATCH = 512
WIDTH = 300_000
Z_GRADIENT, Z_DIRECTION, CLIP = 1.7, 12.0, 0.3
CHARGED = 1 + ROUNDING  # noise is larger by what rounding may add to a sum
UNIT = 1 / CHARGED  # the multiplier that gives standard normals


def ones(n):
    return n.new_ones(n.shape)


QUERIES = (
    Query("gradient", "vector", ones, torch.tensor(CLIP, dtype=torch.float64), Z_GRADIENT),
    Query("direction", "vector", ones, 1.0, Z_DIRECTION),
)
SCALES = {"gradient": CHARGED * Z_GRADIENT * CLIP / BATCH, "direction": CHARGED * Z_DIRECTION / BATCH}


@pytest.fixture(scope="module")
def steps():
    """The standardised noise of three steps of one generator, each of two queries."""
    generator = rng("noise", "noise")
    exact = {q.name: torch.linspace(-1, 1, WIDTH) * SCALES[q.name] * BATCH for q in QUERIES}
    released = [release(exact, QUERIES, BATCH, generator) for _ in range(3)]
    return [{n: (r[n] - exact[n] / BATCH).double() / SCALES[n] for n in SCALES} for r in released]


def assert_standard_normal(noise):
    n = noise.numel()
    assert abs(float(noise.mean())) < Z / math.sqrt(n)
    assert abs(float(noise.square().mean()) - 1) < Z * math.sqrt(2 / n)
    if n > 10_000:
        assert abs(float(noise.pow(3).mean())) < Z * math.sqrt(15 / n)
        assert abs(float(noise.pow(4).mean()) - 3) < Z * math.sqrt(96 / n)
    assert stats.kstest(noise.numpy(), "norm").pvalue > P


def assert_independent(a, b):
    """Neither the values nor their squares are correlated."""
    n = a.numel()
    assert abs(float((a * b).sum())) < Z * math.sqrt(n)
    assert abs(float(((a.square() - 1) * (b.square() - 1)).sum())) < Z * 2 * math.sqrt(n)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_noise_is_normal_of_multiplier_times_bound_over_nominal_batch_size(steps, name):
    for step in steps:
        assert_standard_normal(step[name])


def test_a_scale_wrong_by_two_percent_is_noticed(steps):
    for wrong in (0.98, 1.02):
        with pytest.raises(AssertionError):
            assert_standard_normal(steps[0]["gradient"] * wrong)


def test_queries_of_one_release_have_independent_noise(steps):
    for step in steps:
        for shift in (0, 1, 8):
            assert_independent(step["gradient"], step["direction"].roll(shift))


@pytest.mark.parametrize("name", SCALES)
def test_steps_have_independent_noise(steps, name):
    for other in SCALES:
        assert_independent(steps[0][name], steps[1][other])
        assert_independent(steps[1][name], steps[2][other])


@pytest.mark.parametrize("lag", [1, 2, 4, 8, 16, 1000, WIDTH // 2])
def test_coordinates_have_independent_noise(steps, lag):
    for noise in steps[0].values():
        assert_independent(noise[lag:], noise[:-lag])


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 31, 33])
@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_short_vectors_too(width):
    """Odd widths leave the second half of a pair unused, and single precision the second half of a word."""
    generator = rng(f"short {width}", "noise")
    query = Query("q", "vector", ones, 2.0, 1.5)
    rows = torch.stack([release({"q": torch.zeros(width)}, [query], 10, generator)["q"] for _ in range(6000)])
    rows = rows.double() / (CHARGED * 1.5 * 2 / 10)
    for column in (rows[:, 0], rows[:, -1]):
        assert abs(float(column.mean())) < Z / math.sqrt(len(rows))
        assert abs(float(column.square().mean()) - 1) < Z * math.sqrt(2 / len(rows))
    assert_independent(rows[1:, -1], rows[:-1, 0])
    if width > 1:
        assert_independent(rows[:, 1:].flatten(), rows[:, :-1].flatten())
        assert_independent(rows[:, 0], rows[:, -1])


@pytest.mark.slow(reason="60,000 releases")
def test_scalar_queries_get_noise_of_their_own():
    generator = rng("scalars", "noise")
    queries = (
        Query("vector", "vector", ones, 0.3, 1.0),
        Query("a", "scalar", ones, 0.5, 51.2),
        Query("b", "scalar", ones, 2.0, 3.0),
    )
    sums = {
        "vector": torch.zeros(16),
        "a": torch.tensor(7.0, dtype=torch.float64),
        "b": torch.tensor(0.0, dtype=torch.float64),
    }
    drawn = [release(sums, queries, 64, generator) for _ in range(60_000)]
    a = (torch.stack([r["a"] for r in drawn]) - 7 / 64) / (CHARGED * 51.2 * 0.5 / 64)
    b = torch.stack([r["b"] for r in drawn]) / (CHARGED * 3.0 * 2.0 / 64)
    vector = torch.stack([r["vector"][-1] for r in drawn]).double() / (CHARGED * 0.3 / 64)
    assert a.dtype == torch.float64
    assert drawn[0]["a"].shape == ()
    for noise in (a, b, vector):
        assert_standard_normal(noise)
        assert_independent(noise[1:], noise[:-1])
    for x, y in ((a, b), (a, vector), (b, vector), (a[1:], b[:-1]), (b[1:], a[:-1])):
        assert_independent(x, y)


@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_an_empty_batch_gets_the_same_noise():
    model = FlatModel(nn.Sequential(nn.Linear(400, 500)))
    count = Query("count", "scalar", lambda n: (n <= 1).to(n.dtype) - 0.5, 0.5, 4.0)
    sums = clipped_sums(
        model, lambda o, t: (o - t).square().sum(1), torch.zeros(0, 400), torch.zeros(0, 500), (*QUERIES, count), 32
    )
    assert sums["count"] == 0
    generator = rng("empty", "noise")
    released = release(sums, (*QUERIES, count), BATCH, generator)
    for name, scale in SCALES.items():
        assert released[name].shape == model.params.shape
        assert_standard_normal(released[name].double() / scale)
    counts = [float(release(sums, [count], BATCH, generator)["count"]) for _ in range(20_000)]
    assert_standard_normal(torch.tensor(counts, dtype=torch.float64) / (CHARGED * 4.0 * 0.5 / BATCH))


@pytest.mark.parametrize("bound", [1.0, math.inf, torch.tensor(math.inf)])
def test_zero_multiplier_adds_nothing_and_draws_nothing(bound):
    generator = rng("zero", "noise")
    before = generator.state()
    exact = torch.tensor([1.0, -2.0, 0.0])
    queries = (Query("v", "vector", ones, bound, 0.0), Query("s", "scalar", ones, bound, 0.0))
    released = release({"v": exact, "s": torch.tensor(3.0)}, queries, 4, generator)
    assert released["v"].tolist() == [0.25, -0.5, 0.0]
    assert released["s"] == 0.75
    assert generator.state() == before
    assert exact.tolist() == [1.0, -2.0, 0.0]


def test_only_the_queries_are_released_and_the_sums_stay_exact():
    sums = {"gradient": torch.zeros(20), "direction": torch.ones(20), "secret": torch.ones(20)}
    released = release(sums, QUERIES, BATCH, rng("only", "noise"))
    assert released.keys() == {"gradient", "direction"}
    assert torch.equal(sums["direction"], torch.ones(20))
    assert torch.equal(sums["gradient"], torch.zeros(20))


def test_noise_depends_on_the_stream_alone():
    once, again = (release({"gradient": torch.zeros(50)}, QUERIES[:1], 8, rng("a", "noise")) for _ in "12")
    assert torch.equal(once["gradient"], again["gradient"])
    other = release({"gradient": torch.zeros(50)}, QUERIES[:1], 8, rng("b", "noise"))
    assert not torch.isin(other["gradient"], once["gradient"]).any()


class Scripted:
    """A generator that draws what a test wants: a number, or one for the first half and one for the second."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def uniform(self, size, dtype):
        draw = torch.tensor(self.draws.pop(0), dtype=dtype).view(-1)
        return draw.repeat_interleave(size // len(draw))


@pytest.mark.parametrize("radius", [2**-32, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("angle", [2**-32, 0.125, 0.25, 0.5, 0.75, 1 - 2**-24])
def test_no_noise_is_zero(radius, angle):
    """At no number that a generator draws, the smallest and the largest included."""
    query = Query("gradient", "vector", ones, 1.0, UNIT)
    again = [0.5] if radius < 2**-20 else []
    noise = release({"gradient": torch.zeros(2)}, [query], 1, Scripted([radius, angle], *again))["gradient"]
    assert (noise != 0).all()


def test_nor_where_a_gpu_draws_in_double():
    class OnGpu(torch.Tensor):
        device = SimpleNamespace(type="cuda")

    uniforms = torch.zeros(3).as_subclass(OnGpu)
    _refine(uniforms, Scripted(2.0**-53, 0.5))
    assert uniforms.tolist() == [1 - 2**-24] * 3


def test_a_gpu_s_tail_reaches_as_far():
    class OnGpu(torch.Tensor):
        device = SimpleNamespace(type="cuda")

    uniforms = torch.zeros(3).as_subclass(OnGpu)
    _refine(uniforms, Scripted(1 - 2**-53, 1 - 2**-53))
    assert uniforms.tolist() == [2.0**-73] * 3


def test_nothing_gets_no_noise():
    query = Query("gradient", "vector", ones, 1.0, UNIT)
    noise = release({"gradient": torch.zeros(0)}, [query], 1, rng("none", "noise"))["gradient"]
    assert noise.shape == (0,)


def test_the_tail_reaches_past_single_precision():
    """A float32 `randn` ends at 5.77 standard deviations, which delta = 1e-5 does not forgive."""
    query = Query("gradient", "vector", ones, 1.0, UNIT)
    generator = Scripted(0.0, 1 - 2**-53)  # radius' uniform and angle as small as can be, and the former drawn again so
    noise = release({"gradient": torch.zeros(1000)}, [query], 1, generator)["gradient"]
    radius = noise[:500].square().add(noise[500:].square()).sqrt()
    assert radius.tolist() == pytest.approx([math.sqrt(2 * (20 + 53) * math.log(2))] * 500, rel=1e-5)
    assert generator.draws == []


class Extreme:
    """A generator whose single-precision numbers happen to lie below 2^-18: those of the noise's far tail."""

    def __init__(self):
        self.generator = rng("extreme", "noise")

    def uniform(self, size, dtype):
        drawn = self.generator.uniform(size, torch.float64)
        return drawn if dtype == torch.float64 else (drawn * 2**14).floor().mul(2**-32).to(dtype)


def test_the_part_of_the_tail_that_is_drawn_again_joins_the_rest():
    query = Query("gradient", "vector", ones, 1.0, UNIT)
    noise = release({"gradient": torch.zeros(400_000)}, [query], 1, Extreme())["gradient"]
    uniform = noise.double().view(2, -1).square().sum(0).div(-2).exp()  # what lay under the logarithm
    assert int((uniform < 2**-20).sum()) == pytest.approx(50_000, abs=5 * math.sqrt(50_000))
    assert stats.kstest((uniform * 2**18).numpy(), "uniform").pvalue > P


@pytest.mark.slow(reason="many draws, or passes through whole models")
def test_the_radius_is_right_where_single_precision_suffices():
    noise = standard_normals(2 * 4_000_000)
    uniform = noise.double().view(2, -1).square().sum(0).div(-2).exp()
    edges = [0, 2**-16, 2**-14, 2**-13, 2**-12, 2**-12 + 2**-14, 2**-11, 2**-10]
    for low, high in itertools.pairwise(edges):
        expected = 4_000_000 * (high - low)
        found = int(((uniform > low) & (uniform <= high)).sum())
        assert abs(found - expected) < 5 * math.sqrt(expected), (low, high)


def standard_normals(size):
    query = Query("gradient", "vector", ones, 1.0, UNIT)
    return release({"gradient": torch.zeros(size)}, [query], 1, rng("tail", "noise"))["gradient"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_every_coordinate_has_noise_of_its_own(size):
    query = Query("gradient", "vector", ones, 1.0, UNIT)
    noise = release({"gradient": torch.zeros(size)}, [query], 1, rng(f"{size}", "noise"))["gradient"]
    assert noise.shape == (size,)
    assert len(set(noise.tolist())) == size
    assert bool((noise != 0).all())

"""The strategies other than the paper's: weights and bounds, their joint sensitivity, and two-step traces by hand."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from traces import GRADIENTS, close, trace, vector

from dp_bench.errors import UserError
from dp_bench.mechanism.clipping import FlatModel, clipped_sums
from dp_bench.privacy.query import joint_sensitivity, multipliers_suffice
from dp_bench.privacy.rounding import ROUNDING, SUM_ERROR, rounding
from dp_bench.strategies.ada_sig import SLOPE_BOUND, SLOPE_NOISE, AdaSig
from dp_bench.strategies.dc_sgd import BINS, DCSGDE, DCSGDP
from dp_bench.strategies.dp_adam_bc import DPAdamBC
from dp_bench.strategies.psac import PSAC
from dp_bench.strategies.sla_clip import SlaClip, SlaClipQ
from dp_bench.testing import contract
from dp_bench.testing.joint import worst

MOMENTUM = [(0.9, 2.2), (0.86, 2.23), (0.674, 2.307)]  # theta -= 0.5 v: see test_strategies.py


def random_norms(count=100_000):
    """From 1e-9 to 1e6, evenly in log."""
    generator = torch.Generator().manual_seed(0)
    return 10 ** (15 * torch.rand(count, generator=generator, dtype=torch.float64) - 9)


def queries_of(strategy):
    return strategy.queries(strategy.init(torch.zeros(2)))


def at(strategy, *norms):
    return {q.name: q.weight(vector(*norms)).tolist() for q in queries_of(strategy)}


def histogram(**counts):
    return {f"bin_{j}": counts.get(f"b{j}", 0.0) for j in range(BINS)} | {"gradient": [0, 0]}


# PSAC


def test_psac_scales_as_published():
    # n + r/(n + r) with r = 0.1: 0.1 + 0.5, 0.4 + 0.2, 9.9 + 0.01
    strategy = PSAC(noise_multiplier=1.0, batch_size=100, lr=0.5)
    assert at(strategy, 0.1, 0.4, 9.9) == {"gradient": pytest.approx([1 / 0.6, 1 / 0.6, 1 / 9.91], rel=1e-14)}
    assert (strategy.clip, strategy.stabiliser, strategy.momentum, strategy.swept) == (1.0, 0.1, 0.9, ("lr",))
    for (params, _), expected in zip(trace(strategy, *({"gradient": g} for g in GRADIENTS)), MOMENTUM, strict=True):
        assert close(params, *expected)


# AdaSig


def test_the_constants_of_ada_sig_are_the_maxima_that_they_claim_to_be():
    slope = minimize_scalar(lambda x: -x / (2 * math.cosh(x / 2) ** 2), bounds=(0.5, 3), method="bounded")
    assert pytest.approx(-slope.fun, rel=1e-9) == SLOPE_BOUND
    noise = minimize_scalar(lambda x: -x / (2 * SLOPE_BOUND * math.cosh(x / 2)), bounds=(1, 4), method="bounded")
    assert pytest.approx(-noise.fun, rel=1e-9) == SLOPE_NOISE
    assert (round(SLOPE_BOUND, 5), round(SLOPE_NOISE, 4)) == (0.44774, 1.4802)


@pytest.mark.parametrize("slope", [0.01, 1.0, 5.0, 300.0])
def test_the_second_query_of_ada_sig_is_free(slope):
    """On 10^5 random norms, by its queries and by numpy; the largest is 1/nu, as if there were one query."""
    nu, norms = 1.3, random_norms()
    strategy = AdaSig(noise_multiplier=nu, batch_size=100, lr=0.1, slope_init=slope)
    assert joint_sensitivity(queries_of(strategy), norms) <= (1 + 1e-12) / nu
    x = np.minimum(slope * norms.numpy(), 700)
    squares = np.tanh(x / 2) ** 2 + (x / np.cosh(x / 2) ** 2 / (2 * SLOPE_BOUND * SLOPE_NOISE)) ** 2
    assert squares.max() == pytest.approx(1, rel=1e-6)
    assert not multipliers_suffice(queries_of(strategy), nu)
    # Not a hair more: the bound is reached where x/2 tanh(x/2) = 1, and not only in the limit of long gradients.
    peak = vector(2.3993572805 / slope)
    assert joint_sensitivity(queries_of(strategy), peak) == pytest.approx(1 / nu, rel=1e-12)


def test_rounding_of_both_sums_of_ada_sig_is_charged():
    strategy = AdaSig(noise_multiplier=1.3, batch_size=100, lr=0.1)
    share = math.sqrt(1 + 1.48017**-2)  # nu (nu^-2 + (1.48017 nu)^-2)^(1/2)
    assert rounding(queries_of(strategy), 1.3) == pytest.approx(2 * SUM_ERROR * share + 1e-4, rel=1e-5)
    assert round(share, 2) == 1.21


@dataclass(frozen=True, kw_only=True)
class TooLittleNoise(AdaSig):
    """AdaSig, its derivative with 10 % less noise than it needs."""

    def multipliers(self):
        own = super().multipliers()
        return own | {"derivative": 0.9 * own["derivative"]}


@pytest.mark.slow(reason="tries many norms and states")
def test_ada_sig_with_a_tenth_less_noise_is_refuted():
    contract.spends_its_budget(AdaSig, {})
    with pytest.raises(AssertionError, match=r"at norm 0\.4.*: it spends more than its budget"):
        contract.spends_its_budget(TooLittleNoise, {})


def test_the_engine_does_not_follow_ada_sig_beyond_its_budget():
    """One example at the worst norm: as wrong as it is, it moves no more than 1/nu."""
    strategy = TooLittleNoise(noise_multiplier=1.3, batch_size=100, lr=0.1)
    queries = queries_of(strategy)
    found = worst(queries)
    assert found.influence > 1.03 / 1.3
    model = FlatModel(torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False).double()))
    example = vector(0.6, 0.8)[None] * found.norm
    for options, limit in (({}, found.influence), ({"noise_multiplier": 1.3}, 1 / 1.3)):
        sums = clipped_sums(model, lambda out, _: out.sum(1), example, torch.zeros(1), queries, **options)
        moved = [float(sums[q.name].norm() / (q.noise_multiplier * q.bound)) for q in queries]
        assert math.hypot(*moved) == pytest.approx(limit, rel=1e-8)


def test_weights_of_ada_sig():
    # tanh(alpha n / 2) / n and (1 - tanh^2(alpha n / 2)) / 2 at alpha = 5
    strategy = AdaSig(noise_multiplier=1.0, batch_size=100, lr=0.5)
    tanh = [0.12435300177159621, 0.24491866240370913, 0.7615941559557649]  # of 1/8, 1/4, 1
    assert at(strategy, 0.05, 0.1, 0.4) == {
        "gradient": pytest.approx([tanh[0] / 0.05, tanh[1] / 0.1, tanh[2] / 0.4], rel=1e-13),
        "derivative": pytest.approx([(1 - t * t) / 2 for t in tanh], rel=1e-13),
    }
    assert at(strategy, 1e30) == {"gradient": pytest.approx([1e-30], rel=1e-12, abs=0), "derivative": [0]}


def test_trace_of_ada_sig():
    strategy = AdaSig(noise_multiplier=1.0, batch_size=100, lr=0.5)
    steps = [{"gradient": g, "derivative": r} for g, r in zip(GRADIENTS, [[1, 0], [0.5, 1], [7, 7]], strict=True)]
    done = list(trace(strategy, *steps))
    # r~_0 = 0; then g_2 . r_1 = -0.1 and g_3 . r_2 = 0.05: 5, 5 exp(-0.01), and back.
    assert [float(state.slope) for _, state in done] == pytest.approx([5, 4.950249168745841, 5], rel=1e-12)
    assert all(close(params, *expected) for (params, _), expected in zip(done, MOMENTUM, strict=True))
    assert close(done[-1][1].derivative, 7, 7)
    assert {n: float(v) for n, v in strategy.trajectory(done[1][1]).items()} == {
        "clip": 1.0,
        "lr": 0.5,
        "slope": pytest.approx(4.950249168745841),
    }


# SlaClip


def test_the_number_of_slacks_follows_from_the_noise_alone():
    # (B / (5.152 nu))^(2/3): 7.22 at 100 and 1; 21.46 at 512 and 1; 4.55 at 50 and 1; 0.34 at 1 and 1
    for batch_size, nu, slacks in ((100, 1.0, 7), (512, 1.0, 21), (50, 1.0, 4), (1, 1.0, 1), (512, 50.0, 1)):
        strategy = SlaClip(noise_multiplier=nu, batch_size=batch_size, lr=0.1)
        assert strategy.slacks == slacks
        assert len(queries_of(strategy)) == 1 + slacks


def test_weights_of_sla_clip():
    # K = 4, C = 0.1, so l = 0.05 and 2 (C - n) is 0.2, 0.15, 0.08, 0, 0
    strategy = SlaClip(noise_multiplier=1.0, batch_size=50, lr=0.1)
    found = at(strategy, 1e-12, 0.025, 0.06, 0.1, 0.4)
    assert found["gradient"] == pytest.approx([1, 1, 1, 1, 0.25])
    for k, expected in enumerate([[0.05, 0.05, 0.05], [0.05, 0.05, 0.03], [0.05, 0.05, 0], [0.05, 0, 0]]):
        assert found[f"slack_{k}"] == pytest.approx([*expected, 0, 0], abs=1e-10)
    assert strategy.multipliers() == {"gradient": 1.0} | {f"slack_{k}": 2.0 for k in range(4)}  # nu C / l


@pytest.mark.parametrize(("batch_size", "clip"), [(1, 0.1), (50, 0.1), (512, 0.1), (512, 20.0)])
def test_the_slacks_are_free(batch_size, clip):
    """n^2 + sum_k w_k(n)^2 <= C^2 on 10^5 random norms, and on as many below C."""
    strategy = SlaClip(noise_multiplier=0.7, batch_size=batch_size, lr=0.1, clip_init=clip)
    norms = torch.cat([random_norms(), clip * torch.rand(100_000, dtype=torch.float64)])
    clipped, *slacks = queries_of(strategy)
    squares = (clipped.weight(norms) * norms) ** 2 + sum(q.weight(norms) ** 2 for q in slacks)
    assert float(squares.max()) <= clip**2 * (1 + 1e-12)
    noise = [float(q.noise_multiplier * q.bound) for q in (clipped, *slacks)]
    assert noise == pytest.approx([0.7 * clip] * len(noise), rel=1e-12)


def slacks(first, last):
    return {"gradient": [0, 0], "slack_0": first, "slack_1": 9.0, "slack_2": 9.0, "slack_3": last}


def test_trace_of_sla_clip():
    strategy = SlaClip(noise_multiplier=1.0, batch_size=50, lr=0.5, clip_min=0.01)
    (_, first), (_, second) = trace(strategy, slacks(0.02, 0.001), slacks(0.04, -0.01))
    # s_0 = 0.4, s_3 = 0.02, r = 0.2, gamma = 0.6: 0.1 exp(0.2 * 0.2)
    assert float(first.clip) == pytest.approx(0.10408107741923883, rel=1e-12)
    # l = 0.05204053870961941, s_0 = 0.7686315513218579, r = 0, gamma = 0.5: times exp(-0.05372631026437158)
    assert float(second.clip) == pytest.approx(0.10408107741923883 * 0.9476914444319985, rel=1e-12)


def test_trace_of_sla_clip_q():
    """The same releases, but gamma = 1/2 whatever the last slack is."""
    strategy = SlaClipQ(noise_multiplier=1.0, batch_size=50, lr=0.5, clip_min=0.01)
    (_, first), (_, second) = trace(strategy, slacks(0.02, 0.001), slacks(0.025, 0.05))
    assert float(first.clip) == pytest.approx(0.10202013400267558, rel=1e-12)  # 0.1 exp(0.2 * 0.1)
    # s_0 = 0.025 / 0.05101006700133779 = 0.4900993366533776: times exp(0.00198013266932448)
    assert float(second.clip) == pytest.approx(0.10202013400267558 * 1.0019820944266513, rel=1e-12)


@pytest.mark.parametrize(("first", "expected"), [(1.0, 0.1), (-100.0, 20.0)])
def test_sla_clip_stays_between_its_ends(first, expected):
    ((_, state),) = trace(SlaClip(noise_multiplier=1.0, batch_size=50, lr=0.5), slacks(first, 0.0))
    assert float(state.clip) == expected


def test_ends_of_sla_clip_that_cross_are_refused():
    with pytest.raises(UserError, match=r"strategy\.clip_min: expected at most strategy\.clip_max = 2, got 3; lower"):
        SlaClip(noise_multiplier=1.0, batch_size=50, lr=0.5, clip_min=3.0, clip_max=2.0)


# DP-AdamBC


def test_trace_of_dp_adam_bc():
    # phi = (1.0099 * 2 * 0.5 / 100)^2 = 0.010099^2
    strategy = DPAdamBC(noise_multiplier=2.0, batch_size=100, clip=0.5)
    assert pytest.approx(0.0099) == ROUNDING
    phi = 1.01989801e-4
    assert strategy.noise_variance == pytest.approx(phi, rel=1e-12)
    (one, first), (two, second) = trace(strategy, *({"gradient": g} for g in GRADIENTS[:2]))
    assert close(first.first, 0.02, -0.04)
    assert close(first.second, 4e-5, 1.6e-4)
    # Corrected, the moments are g_1 and g_1^2.
    assert close(one, 1 - 1e-3 * 0.2 / math.sqrt(0.04 - phi), 2 + 1e-3 * 0.4 / math.sqrt(0.16 - phi))
    # m^_2 = (0.008, -0.006) / 0.19 and v^_2 = (0.04996, 0.24984) / 1.999
    assert second.step == 2
    assert close(
        two - one,
        -1e-3 * 0.008 / 0.19 / math.sqrt(0.04996 / 1.999 - phi),
        1e-3 * 0.006 / 0.19 / math.sqrt(0.24984 / 1.999 - phi),
    )


def test_where_there_is_only_noise_dp_adam_bc_rests_on_its_floor():
    strategy = DPAdamBC(noise_multiplier=2.0, batch_size=100, clip=0.5)
    ((params, _),) = trace(strategy, {"gradient": [0.001, -0.01]})
    # Both squares are below phi: the denominator is 0.1 * 0.010099.
    assert close(params, 1 - 1e-6 / 0.0010099, 2 + 1e-5 / 0.0010099)


# DC-SGD


@pytest.mark.parametrize("kind", [DCSGDE, DCSGDP])
def test_the_histogram_costs_as_much_as_one_count(kind):
    strategy = kind(noise_multiplier=2.0, batch_size=100, lr=0.1)
    split = strategy.multipliers()
    assert (len(split), split["gradient"]) == (21, pytest.approx(2.02))
    assert {round(z, 3) for name, z in split.items() if name != "gradient"} == {14.248}  # 7.124 nu
    found = at(strategy, 0.0, 0.999, 1.0, 18.5, 19.0, 1e9)
    bins = np.array([found[f"bin_{j}"] for j in range(BINS)])
    assert bins.argmax(0).tolist() == [0, 0, 1, 18, 19, 19]
    assert (bins.sum(0) == 1).all()
    assert joint_sensitivity(queries_of(strategy), random_norms()) == pytest.approx(0.5, rel=1e-12)


def test_trace_of_dc_sgd_p():
    strategy = DCSGDP(noise_multiplier=1.0, batch_size=100, lr=0.5)
    done = trace(
        strategy,
        histogram(b0=0.1, b1=0.1, b2=0.2, b3=0.3, b4=0.2, b5=0.1),  # 0.1, 0.2, 0.4 > 0.3: bin 2 ends at 3
        histogram(b0=0.4, b19=0.6),  # bin 0 ends at 1/2
        histogram(b0=-0.4, b19=0.3),  # all noise
        histogram(b0=-0.1, b7=0.5, b12=0.3),  # -0.1, ..., 0.4 > 0.21: bin 7 ends at 8
    )
    # The width halves as the upper half is empty, doubles as the last bin holds more than half, and then stays twice.
    found = [(float(state.clip), float(state.width)) for _, state in done]
    assert found == [(3.0, 0.5), (0.5, 1.0), (0.5, 1.0), (8.0, 1.0)]


def test_trace_of_dc_sgd_e():
    # d = 2 and s_T / B = 1.01: 2.0402 c^2 + (1.5 - c)^2, least at 0.49338; 0.1 -> 0.2 -> 0.4 are ends, then 1.2 * 0.4
    strategy = DCSGDE(noise_multiplier=100.0, batch_size=100, lr=0.5)
    assert strategy.error(0.48, [0, 2.0, *[0] * 18], 1.0, 2) == pytest.approx(2.0402 * 0.2304 + 1.0404, rel=1e-12)
    # (3 + 1/2) / 2 = 1.75: least at 0.57562, of the multiples of 0.048 at 12 * 0.048
    done = trace(strategy, histogram(b1=2.0), histogram(b3=0.5), histogram(b3=-0.5))
    found = [(float(state.clip), float(state.width)) for _, state in done]
    assert found == [pytest.approx(two, rel=1e-12) for two in [(0.48, 0.5), (0.576, 0.25), (0.576, 0.25)]]


def test_the_search_of_dc_sgd_e_ends():
    """Where rounding makes all thresholds equal the largest is taken, lest it vanishes: 32 times at most."""
    strategy = DCSGDE(noise_multiplier=1e-9, batch_size=100, lr=0.5, width_init=1e30)
    ((_, state),) = trace(strategy, histogram(b10=1.0))
    assert float(state.clip) == pytest.approx(0.1 * 2**32, rel=1e-12)


@pytest.mark.parametrize("kind", [DCSGDE, DCSGDP])
def test_dc_sgd_moves_as_the_others_do(kind):
    strategy = kind(noise_multiplier=1.0, batch_size=100, lr=0.5)
    done = trace(strategy, *(histogram() | {"gradient": g} for g in GRADIENTS))
    assert all(close(params, *expected) for (params, _), expected in zip(done, MOMENTUM, strict=True))

"""One contract for every strategy, a new one included, and traces of each by hand."""

import dataclasses
import math

import pytest
import torch
from traces import GRADIENTS, close, trace

from dp_bench.errors import UserError
from dp_bench.strategies import STRATEGIES
from dp_bench.strategies.adam_wosm import AdamWOSM
from dp_bench.strategies.auto_s import AutoS
from dp_bench.strategies.fixed_line import FixedLine
from dp_bench.strategies.fixed_quantile import FixedQuantile
from dp_bench.strategies.fixed_threshold import FixedThreshold
from dp_bench.strategies.no_dp import NoDP
from dp_bench.strategies.online import UPDATES, Online
from dp_bench.testing.cases import queries_at, releases, trained
from dp_bench.testing.contract import CHECKS, check_strategy

PLAUSIBLE = {"lr": 0.3, "clip": 0.5, "quantile": 0.6}
PRIVATE = [name for name, strategy in STRATEGIES.items() if strategy.private]


def build(name, noise_multiplier=1.3, batch_size=512, **chosen):
    """A strategy from its fields alone: those without a default get a plausible value."""
    required = [f.name for f in dataclasses.fields(STRATEGIES[name]) if f.default is dataclasses.MISSING]
    values = {f: PLAUSIBLE.get(f, 0.5) for f in required} | chosen
    return STRATEGIES[name](**values | {"noise_multiplier": noise_multiplier, "batch_size": batch_size})


# What every strategy must hold


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_contract(name, check):
    """See dp_bench.testing.contract; tests/testing/test_contract.py shows that it finds what is wrong."""
    check(STRATEGIES[name], {})


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        *(("online", {"update_rule": rule}) for rule in UPDATES),
        ("online", {"gradient_share": 1.5, "momentum": 0.0}),
        ("fixed_quantile", {"quantile": 0.9, "count_noise": 0.2}),
        ("no_dp", {"optimiser": "sgd"}),
        ("auto_s", {"stabiliser": 1e-6}),
        ("psac", {"stabiliser": 10.0}),
        ("ada_sig", {"slope_init": 1.0}),
        ("sla_clip", {"clip_init": 3.0}),
        ("dc_sgd_e", {"gradient_share": 1.5, "width_init": 0.01}),
        ("dc_sgd_p", {"percentile": 0.9}),
        ("fixed_quantile", {"clip_min": 0.05}),
    ],
)
@pytest.mark.slow(reason="tries many norms and states")
def test_the_contract_at_other_hyperparameters(name, chosen):
    check_strategy(STRATEGIES[name], **chosen)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_describes_itself(name):
    strategy = STRATEGIES[name]
    assert vars(strategy)["label"]
    assert vars(strategy)["color"]
    assert strategy.reference
    with pytest.raises(dataclasses.FrozenInstanceError):
        build(name).batch_size = 1


@pytest.mark.parametrize("name", set(STRATEGIES) - set(PRIVATE))
def test_a_strategy_that_is_not_private_says_so(name):
    strategy = build(name, 0.0)
    (query,) = strategy.queries(strategy.init(torch.zeros(3)))
    assert strategy.multipliers() == {query.name: 0.0}
    assert query.noise_multiplier == 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_trajectory_is_threshold_and_step(name):
    """So that metrics.csv has the columns that it always had; AdaSig's slope is one more."""
    strategy = build(name)
    expected = {"clip", "lr"} if strategy.private else {"lr"}
    more = {"slope"} if name == "ada_sig" else set()
    assert set(strategy.trajectory(strategy.init(torch.ones(5)))) == expected | more


@pytest.mark.parametrize("name", PRIVATE)
def test_the_bound_of_the_gradient_is_the_threshold_of_the_trajectory(name):
    strategy = build(name)
    for steps in (0, 1, 4):
        state = trained(strategy, torch.ones(5), steps)[1]
        bounds = {q.name: float(q.bound) for q in strategy.queries(state)}
        assert bounds["gradient"] == float(strategy.trajectory(state)["clip"])


# What each strategy asks for


NORMS = torch.tensor([0.05, 0.1, 0.4], dtype=torch.float64)


def weights(strategy):
    return {q.name: q.weight(NORMS).tolist() for q in strategy.queries(strategy.init(torch.zeros(2)))}


def test_queries_are_the_papers():
    clipped = pytest.approx([1, 1, 0.25])
    assert weights(build("fixed_threshold", clip=0.1)) == {"gradient": clipped}
    assert weights(build("adam_wosm", clip=0.1)) == {"gradient": clipped}
    # q is 0 at n = C.
    assert weights(build("online")) == {"gradient": clipped, "direction": pytest.approx([0, 0, 2.5])}
    assert weights(build("fixed_quantile")) == {"gradient": clipped, "unclipped": [0.5, 0.5, -0.5]}
    assert weights(build("no_dp")) == {"gradient": [1, 1, 1]}
    assert weights(build("fixed_line")) == {"gradient": clipped}
    # 1 / (n + 0.01)
    assert weights(build("auto_s")) == {
        "gradient": pytest.approx([16.666666666666668, 9.090909090909092, 2.4390243902439024])
    }


def test_bounds_are_the_papers():
    bounds = {n: {q.name: float(q.bound) for q in queries_at(build(n), 0.1)} for n in STRATEGIES}
    assert bounds["online"] == {"gradient": 0.1, "direction": 1.0}
    assert bounds["fixed_quantile"] == {"gradient": 0.1, "unclipped": 0.5}
    assert bounds["fixed_threshold"] == bounds["adam_wosm"] == {"gradient": 0.1}
    assert bounds["no_dp"] == {"gradient": math.inf}
    assert bounds["fixed_line"] == bounds["auto_s"] == {"gradient": 0.1}


def test_defaults_are_the_papers():
    online, quantile = build("online"), build("fixed_quantile")
    assert (online.clip_init, online.clip_lr, online.lr_lr, online.momentum) == (0.1, 0.0025, 0.0025, 0.9)
    assert (online.update_rule, online.gradient_share) == ("exponential_sign", 1.01)
    assert (quantile.clip_init, quantile.clip_lr, quantile.count_noise, quantile.momentum) == (0.1, 0.2, 0.05, 0.9)
    assert (build("adam_wosm").lr, build("adam_wosm").beta, build("adam_wosm").stabiliser) == (1e-3, 0.9, 1e-8)
    assert build("fixed_threshold").momentum == 0.9
    assert build("no_dp").optimiser == "adam"


def test_the_ablations_search_the_step_alone():
    """Candidates: k instead of k^2, with the threshold that Online starts from, or none."""
    line, auto = build("fixed_line"), build("auto_s")
    assert line.swept == auto.swept == ("lr",)
    assert (line.clip, line.momentum) == (build("online").clip_init, 0.9)
    assert (auto.clip, auto.stabiliser, auto.momentum) == (1.0, 0.01, 0.9)
    assert auto.trajectory(auto.init(torch.zeros(2))) == {"clip": 1.0, "lr": auto.lr}


def test_the_gradient_of_online_pays_one_percent():
    split = build("online", 1.0).multipliers()
    assert split["gradient"] == pytest.approx(1.01, rel=1e-15)
    assert round(split["direction"], 3) == 7.124
    assert build("online", 2.0).multipliers()["direction"] == pytest.approx(2 * split["direction"])


def test_the_split_of_fixed_quantile():
    # sigma_b = 40/20 = 2, so 2 sigma_b = 4 and nu_g = (1/9 - 1/16)^(-1/2) = 12 / sqrt 7.
    split = build("fixed_quantile", 3.0, batch_size=40).multipliers()
    assert split == {
        "gradient": pytest.approx(4.535573676110727, rel=1e-12),
        "unclipped": pytest.approx(4.0, rel=1e-12),
    }


# Traces by hand (tests/support/traces.py)


# v_1 = (0.2, -0.4); v_2 = 0.9 v_1 + g_2 = (0.08, -0.06); v_3 = 0.9 v_2 + g_3 = (0.372, -0.154)


@pytest.mark.parametrize(
    ("momentum", "expected"),
    [(0.9, [(0.9, 2.2), (0.86, 2.23), (0.674, 2.307)]), (0.0, [(0.9, 2.2), (0.95, 2.05), (0.8, 2.1)])],
)
@pytest.mark.parametrize("kind", [FixedThreshold, FixedQuantile, Online, FixedLine, AutoS])
def test_trace_of_momentum(kind, momentum, expected):
    """All are theta -= rho v; Online with a still rho."""
    own = {FixedThreshold: {"clip": 0.1}, FixedQuantile: {"quantile": 0.5}, Online: {"lr_lr": 0.0}}.get(kind, {})
    strategy = kind(noise_multiplier=1.0, batch_size=100, lr=0.5, momentum=momentum, **own)
    steps = list(trace(strategy, *({"gradient": g, "unclipped": 0.0, "direction": [0, 0]} for g in GRADIENTS)))
    assert all(close(params, *values) for (params, _), values in zip(steps, expected, strict=True))
    assert close(steps[-1][1].velocity, *((0.372, -0.154) if momentum else (0.3, -0.1)))


def test_trace_of_online():
    strategy = Online(noise_multiplier=1.0, batch_size=100, lr=0.5)
    steps = [{"gradient": g, "direction": q} for g, q in zip(GRADIENTS, [[1, 0], [0.5, 1], [7, 7]], strict=True)]
    (one, first), (two, second), (three, third) = trace(strategy, *steps)
    # g~_0 = q~_0 = 0: the first step changes neither.
    assert float(first.clip) == 0.1
    assert float(first.lr) == 0.5
    assert close(one, 0.9, 2.2)
    # g_2 . q_1 = -0.1 and g_2 . g_1 = -0.14: both shrink by exp(-0.0025); the step itself still takes rho_1.
    assert float(second.clip) == pytest.approx(0.09975031223974601, rel=1e-12)
    assert float(second.lr) == pytest.approx(0.49875156119873005, rel=1e-12)
    assert close(two, 0.86, 2.23)
    # g_3 . q_2 = 0.05 and g_3 . g_2 = -0.06: C comes back, rho shrinks on.
    assert float(third.clip) == pytest.approx(0.1, rel=1e-12)
    assert float(third.lr) == pytest.approx(0.4975062395963412, rel=1e-12)
    # theta_3 = theta_2 - 0.49875156119873 (0.372, -0.154)
    assert close(three, 0.67446441923407242, 2.30680774042460443)
    assert close(third.gradient, 0.3, -0.1)
    assert close(third.direction, 7, 7)


@pytest.mark.parametrize(
    ("rule", "clip", "lr"),
    [
        ("exponential_sign", 0.10100501670841680, 0.51010067001337790),  # exp(0.01), exp(0.02)
        ("additive", 0.108, 0.5048),  # 0.1 + 0.01 * 0.5 * 1.6, 0.5 + 0.02 * 0.5 * 0.48
        ("cosine", 0.1008, 0.5096),  # 0.1 (1 + 0.01 * 0.8), 0.5 (1 + 0.02 * 0.96)
    ],
)
def test_update_rules_of_online(rule, clip, lr):
    strategy = Online(noise_multiplier=1.0, batch_size=100, lr=0.5, clip_lr=0.01, lr_lr=0.02, update_rule=rule)
    # g_2 . q_1 = 1.6 (cosine 0.8), g_2 . g_1 = 0.48 (cosine 0.96)
    steps = [{"gradient": [0.3, 0.4], "direction": [2, 0]}, {"gradient": [0.8, 0.6], "direction": [0, 0]}]
    (_, first), (_, second) = trace(strategy, *steps)
    assert (float(first.clip), float(first.lr)) == (0.1, 0.5)
    assert float(second.clip) == pytest.approx(clip, rel=1e-12)
    assert float(second.lr) == pytest.approx(lr, rel=1e-12)


@pytest.mark.parametrize("rule", UPDATES)
def test_online_stays_where_it_is_when_there_is_no_signal(rule):
    strategy = Online(noise_multiplier=1.0, batch_size=100, lr=0.5, update_rule=rule)
    steps = [{"gradient": [0.3, 0], "direction": [2, 0]}, {"gradient": [0, 0.6], "direction": [0, 0]}] * 2
    for _, state in trace(strategy, *steps):
        assert (float(state.clip), float(state.lr)) == (0.1, 0.5)


@pytest.mark.parametrize("size", [1e-18, 1e15])
@pytest.mark.parametrize("rule", ["exponential_sign", "cosine"])
def test_scale_free_rules_of_online_are_free_of_scale(rule, size):
    """In float32, whose squares of these numbers are far from 1."""
    strategy = Online(noise_multiplier=1.0, batch_size=100, lr=0.5, clip_lr=0.01, lr_lr=0.02, update_rule=rule)
    params = torch.ones(2)
    gradients = torch.tensor([[0.3, 0.4], [0.8, 0.6]]) * size
    state = strategy.init(params)
    for gradient in gradients:
        params, state = strategy.update(state, params, {"gradient": gradient, "direction": torch.tensor([2.0, 0.0])})
    expected = {"exponential_sign": (0.1010050167, 0.51010067), "cosine": (0.1008, 0.5096)}[rule]
    assert (float(state.clip), float(state.lr)) == pytest.approx(expected, rel=1e-6)


def test_trace_of_fixed_quantile():
    strategy = FixedQuantile(noise_multiplier=1.0, batch_size=100, lr=0.5, quantile=0.7)
    # b~ = 0.9, then 0.2: exp(-0.2 * 0.2), exp(0.2 * 0.5)
    released = [{"gradient": [0, 0], "unclipped": 0.4}, {"gradient": [0, 0], "unclipped": -0.3}]
    (_, first), (_, second) = trace(strategy, *released)
    assert float(first.clip) == pytest.approx(0.09607894391523232, rel=1e-12)
    assert float(second.clip) == pytest.approx(0.10618365465453596, rel=1e-12)


def test_trace_of_bounded_adaptive_clipping():
    strategy = FixedQuantile(noise_multiplier=1.0, batch_size=100, lr=0.5, quantile=0.7, clip_min=0.1)
    # b~ = 0.9: exp(-0.04) of it would be 0.0961; b~ = 0.2: exp(0.1)
    released = [{"gradient": [0, 0], "unclipped": 0.4}, {"gradient": [0, 0], "unclipped": -0.3}]
    (_, first), (_, second) = trace(strategy, *released)
    assert float(first.clip) == 0.1
    assert float(second.clip) == pytest.approx(0.11051709180756478, rel=1e-12)


def test_fixed_quantile_rests_where_the_quantile_is():
    strategy = FixedQuantile(noise_multiplier=1.0, batch_size=100, lr=0.5, quantile=0.7)
    ((_, state),) = trace(strategy, {"gradient": [0, 0], "unclipped": 0.2})
    assert float(state.clip) == pytest.approx(0.1, rel=1e-15)


def test_trace_of_adam_wosm():
    # nu C / B = 2 * 0.5 / 100 = 0.01; alpha / (0.01 + 1e-8) = 0.0999999000001
    strategy = AdamWOSM(noise_multiplier=2.0, batch_size=100, clip=0.5)
    (one, first), (two, second) = trace(strategy, *({"gradient": g} for g in GRADIENTS[:2]))
    assert strategy.step_size == pytest.approx(0.09999990000010, rel=1e-12)
    # m_1 = 0.1 g_1 and the correction gives g_1 back.
    assert close(first.moment, 0.02, -0.04)
    assert close(one, 1 - 0.2 * 0.0999999000001, 2 + 0.4 * 0.0999999000001)
    # m_2 = 0.9 m_1 + 0.1 g_2 = (0.008, -0.006), corrected by 1 - 0.81 = 0.19
    assert close(second.moment, 0.008, -0.006)
    assert close(two, 0.9757894978947126, 2.0431578515789903)


def test_step_of_adam_wosm_without_noise_rests_on_the_stabiliser():
    assert build("adam_wosm", 0.0).step_size == pytest.approx(1e5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("optimiser", "reference"),
    [
        ("adam", lambda p: torch.optim.Adam(p, lr=0.03)),
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.03, momentum=0.9)),
    ],
)
def test_no_dp_is_torchs_optimiser(optimiser, reference, dtype):
    strategy = NoDP(noise_multiplier=0.0, batch_size=100, lr=0.03, optimiser=optimiser)
    ours = torch.linspace(-1, 1, 50, dtype=dtype)
    theirs = torch.nn.Parameter(ours.clone())
    optimiser, state = reference([theirs]), strategy.init(ours)
    for released in releases(strategy, ours, 20):
        theirs.grad = released["gradient"]
        optimiser.step()
        ours, state = strategy.update(state, ours, released)
        assert torch.allclose(
            ours,
            theirs.detach(),
            rtol=1e-12 if dtype == torch.float64 else 1e-5,
            atol=1e-7 if dtype == torch.float32 else 0,
        )


def test_trace_of_no_dp():
    strategy = NoDP(noise_multiplier=0.0, batch_size=100, lr=0.1)
    (one, _), (two, _) = trace(strategy, *({"gradient": g} for g in GRADIENTS[:2]))
    # Adam's first step is rho g / (|g| + 1e-8).
    assert close(one, 1 - 0.1 * 0.2 / (0.2 + 1e-8), 2 + 0.1 * 0.4 / (0.4 + 1e-8))
    # m^_2 = (0.008, -0.006) / 0.19 and v^_2 = (0.999 g_1^2 + g_2^2) / 1.999 = (0.04996, 0.24984) / 1.999
    first, second = (0.008 / 0.19, -0.006 / 0.19), (math.sqrt(0.04996 / 1.999), math.sqrt(0.24984 / 1.999))
    assert close(two, *(float(t) - 0.1 * m / (v + 1e-8) for t, m, v in zip(one, first, second, strict=True)))


# Refusals


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        *(("fixed_quantile", {"quantile": q}, "quantile") for q in (0.0, 1.0, -0.1, 1.5, math.nan)),
        *(("fixed_quantile", {"count_noise": c}, "count_noise") for c in (0.0, -0.05, math.nan)),
        # 2 sigma_b = 2 * 40 / 20 = 4
        *(("fixed_quantile", {"batch_size": 40, "noise_multiplier": z}, "2 sigma_b = 4") for z in (4.0, 4.1, math.inf)),
        ("online", {"update_rule": "sign"}, "update_rule"),
        *(("online", {"gradient_share": s}, "gradient_share") for s in (1.0, 0.5, math.nan)),
        ("no_dp", {"optimiser": "rmsprop"}, "optimiser"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name, wrong, says):
    with pytest.raises(UserError, match=says) as refusal:
        build(name, **wrong)
    assert "\n" not in str(refusal.value)
    assert all(word in str(refusal.value) for word in ("expected ", ", got ", "; "))


def test_what_is_just_possible_is_not_refused():
    build("fixed_quantile", noise_multiplier=3.999, batch_size=40)
    build("fixed_quantile", quantile=1e-9)
    build("online", gradient_share=1.0001)

"""The audit on the code as it is, and on code with a bug in it. What it looks for: `dp_bench.testing`."""

import math

import numpy as np
import pytest
import torch

from dp_bench.errors import UserError
from dp_bench.privacy.rounding import rounding
from dp_bench.testing import accumulation, canaries, identity, isolation, noise, planted, replay
from dp_bench.testing.accumulation import LAYERS, hovering, influence
from dp_bench.testing.audit import MODELS, SIGHTINGS, audit_strategy, look_for
from dp_bench.testing.canaries import BATCH_SIZE, NU, PARAMETERS, OneStep, along, knowledge, observed_mu
from dp_bench.testing.harness import K, one_thread
from dp_bench.testing.subjects import built, subject_of, subjects

CONFIDENCE = 0.999  # a correct strategy fails its audit for one in a thousand names of its noise, at most
SUBJECTS = {subject.name: subject for subject in subjects()}
# Strategies that release the same queries as one that is tried; `dp-bench audit` tries them all.
ALIKE = {"fixed_line", "auto_s", "psac", "dp_adam_bc", "sla_clip_q", "dc_sgd_p"}
DIFFERENT = {name: subject for name, subject in SUBJECTS.items() if name not in ALIKE}


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.mark.slow(reason="thousands of draws per strategy")
@pytest.mark.parametrize("subject", DIFFERENT.values(), ids=DIFFERENT)
def test_no_more_is_seen_than_is_claimed_and_hardly_less(subject):
    strategy = subject.build(NU, BATCH_SIZE)
    charged = 1 + rounding(strategy.queries(strategy.init(torch.zeros(PARAMETERS))), NU)
    assert knowledge(strategy).mu * charged == pytest.approx(1 / NU)
    copies = 50 if len(strategy.multipliers()) > 10 else 1  # a release of 21 queries takes long
    assert 0.85 / NU < observed_mu(strategy, subject.name, CONFIDENCE, copies) <= 1 / NU


@pytest.mark.slow(reason="runs a part of the audit for each bug")
@pytest.mark.parametrize(
    ("plant", "part", "subject"),
    [
        pytest.param(
            sighting.plant,
            sighting.part,
            subject,
            id=f"{sighting.plant.__name__} {sighting.part} {subject.name if subject else ''}".strip(),
        )
        for sighting in SIGHTINGS
        for subject in sighting.among(list(DIFFERENT.values()))
    ],
)
def test_a_planted_bug_is_found(plant, part, subject):
    found = look_for(plant, part, subject, f"{plant.__name__} in a test")
    assert found.part == part, found.measured
    assert found.what


def test_a_bug_that_a_strategy_cannot_have_is_not_looked_for_in_it():
    """The state of plain SGD keeps nothing of a release, so none of it can be exact."""

    class Plain(type(built("fixed_threshold", NU, BATCH_SIZE))):
        def update(self, state, params, released):
            return params - self.lr * released["gradient"], state

    plain = subject_of("plain", Plain(noise_multiplier=NU, batch_size=BATCH_SIZE, lr=0.1, clip=0.7))
    looked_for = {one.plant for one in SIGHTINGS if plain in one.among([plain])}
    assert planted.momentum_of_exact_sums not in looked_for
    assert {planted.noise_times_0_7, planted.doubled_release, planted.divided_by_the_drawn_size} <= looked_for
    with_momentum = SUBJECTS["fixed_threshold"]
    assert any(one.plant is planted.momentum_of_exact_sums and one.among([with_momentum]) for one in SIGHTINGS)


@pytest.mark.slow(reason="starts a process, or tries many sums")
def test_a_plant_is_gone_when_it_is_closed():
    strategy = SUBJECTS["online"].build(NU, BATCH_SIZE)
    before = canaries.check(SUBJECTS["online"], "before and after", copies=50)
    for plant in {sighting.plant for sighting in SIGHTINGS}:
        with plant(strategy):
            pass
    after = canaries.check(SUBJECTS["online"], "before and after", copies=50)
    assert (before.value, before.holds) == (after.value, True)


def test_a_split_that_overspends_does_not_even_start():
    """The same bug in a strategy's own queries: training refuses it, so the plants sit behind that check."""
    strategy = SUBJECTS["online"].build(NU, BATCH_SIZE)
    overspent = tuple(q._replace(noise_multiplier=NU) for q in strategy.queries(strategy.init(torch.zeros(PARAMETERS))))
    step = OneStep(strategy, along(K), "overspent")
    step.strategy.queries = lambda state: overspent
    with pytest.raises(UserError, match="expected queries within its noise multiplier"):
        step.advance()


@pytest.mark.slow(reason="300 runs per strategy")
@pytest.mark.parametrize("name", DIFFERENT)
def test_the_likelihood_ratio_of_whole_runs_is_one_in_the_mean(name):
    found = identity.check(SUBJECTS[name], "a test", runs=300)
    assert found.holds, found.measured
    assert abs(found.value - 1) < 0.15


@pytest.mark.slow(reason="2,000 short runs per strategy")
@pytest.mark.parametrize("name", ["fixed_threshold", "online", "fixed_quantile"])
def test_the_deviation_of_its_mean_is_the_one_that_is_computed(name):
    """Of 100 means over 20 runs each: their root mean square z is 1 within 30 %, four deviations of it."""
    strategy = SUBJECTS[name].build(identity.NU, identity.BATCH_SIZE)
    found = [identity.identity(strategy, f"deviation {i}", runs=20, steps=2) for i in range(100)]
    assert math.sqrt(sum(one.z_absent**2 for one in found) / 100) == pytest.approx(1, abs=0.3)


def test_a_mean_that_is_not_a_number_refutes():
    assert not identity.Identity(math.nan, 1.0, math.nan, 0.0).holds
    assert not identity.Identity(1.0, math.nan, 0.0, math.nan).holds
    assert not identity.Identity(1.0, 1.0, 0.0, -6.0).holds
    assert identity.Identity(1.0, 1.0, 4.0, -4.0).holds


SMALL_CASES = [case for case in replay.cases() if not case.endswith("and 1 examples")]


@pytest.mark.slow(reason="steps of every strategy on every pair of neighbours")
@pytest.mark.parametrize(
    ("subject", "case"),
    [
        pytest.param(subject, case, id=f"{name}-{case}")
        for name, subject in SUBJECTS.items()
        for case in (SMALL_CASES if name in ALIKE else replay.cases())
    ],
)
def test_neighbours_differ_by_their_joint_bound_and_in_nothing_else(subject, case):
    found = replay.check(subject, case, "a test", everywhere=case == "bag of words")
    assert found.holds, found.measured
    # A canary that is clipped moves its sums by all that is allowed; PSAC's comes near it with larger norms only.
    assert found.value > (0.97 if subject.name == "psac" else 0.99)


def test_the_sampler_draws_the_same_others_when_an_example_is_added_at_the_end():
    assert replay.check_sampler("a test").holds


def test_inserting_in_the_middle_keeps_the_others():
    case = replay.cases()["bag of words"]
    strategy = SUBJECTS["fixed_threshold"].build(1.0, case.batch_size)
    inputs, targets = case.data(case.examples + 1)
    others = torch.arange(case.examples + 1) != 10
    without = replay._World(strategy, case, inputs[others], targets[others], "the same")
    joined = replay._World(strategy, case, inputs, targets, "the same")
    joined.inserted = 10
    for _ in range(20):
        members, more = without._draw(), joined._draw()
        assert 10 in more
        assert torch.equal(inputs[others][members], inputs[more[more != 10]])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.slow(reason="starts a process, or tries many sums")
def test_no_example_moves_a_sum_by_more_than_its_bound_through_rounding(layer):
    found = accumulation.check(layer, [512, 4096], [1024])
    assert found.holds, found.measured
    assert found.value >= 0.9999


@pytest.mark.parametrize(("examples", "seen"), [(512, 1.0039), (4096, 1.2499), (8192, 1.9998)])
@pytest.mark.parametrize("layer", [name for name in LAYERS if name != "linear, 64 to 16"])
def test_an_accumulator_in_single_precision_lets_one_example_move_the_sum_by_more(layer, examples, seen):
    """1 + k (B - k) 2^-24, and no canary of another kind would show it: every example's own contribution is bounded."""
    strategy = built("fixed_threshold", 1.0, examples, clip=1.0)
    attack = hovering(examples)
    with planted.single_precision_sums(strategy):
        assert influence(LAYERS[layer], strategy, attack, 1.0, 1024) == pytest.approx(seen, abs=1e-4)
        rows = accumulation.gradients(attack, 1.0)
        assert rows.norm(dim=1).max() == 1


@pytest.mark.slow(reason="passes through the whole models")
@pytest.mark.parametrize("case", MODELS)
def test_one_example_more_does_not_change_the_others_norms(case):
    found = isolation.check(case)
    assert found.holds, found.measured


@pytest.mark.slow(reason="starts a process, or tries many sums")
def test_noise_is_standard_normal_and_never_repeats():
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal(300_000)
    assert noise.scale(drawn, 1e-6).low < noise.scale(drawn, 1e-6).ratio < noise.scale(drawn, 1e-6).high
    correlation, limit = noise.repetition(drawn, 1e-6)
    assert correlation < limit
    for period in (1_000, 65_536, 250_000):
        repeated, limit = noise.repetition(np.resize(drawn[:period], 300_000), 1e-6)
        assert repeated > limit
    signs = np.where(generator.random(300_000) < 0.5, 1, -1)  # the sizes come again, the signs do not
    assert noise.repetition(np.resize(drawn[:65_536], 300_000) * signs, 1e-6)[0] > limit
    assert noise.scale(0.9 * drawn[:4000], 1e-6).ratio < noise.scale(0.9 * drawn[:4000], 1e-6).low


@pytest.mark.slow(reason="a whole audit of one strategy")
def test_any_strategy_object_can_be_audited():
    strategy = built("fixed_threshold", 3.0, 512, clip=0.3)
    found = audit_strategy("mine", strategy, quick=True)
    assert {finding.part for finding in found} == {"canary", "identity", "noise", "replay"}
    assert all(finding.holds for finding in found)
    assert all("mine" in finding.subject for finding in found)


def test_a_strategy_whose_weights_lie_is_still_bounded():
    """Weights ten times too large: `bounded_weights` clamps them, so the audit has nothing to find."""
    strategy = built("fixed_threshold", canaries.NU, canaries.BATCH_SIZE)
    wide = strategy.queries(strategy.init(torch.zeros(3)))[0]
    greedy = type("Greedy", (type(strategy),), {"queries": lambda self, state: (wide._replace(weight=_tenfold),)})
    lying = greedy(**vars(strategy))
    assert observed_mu(lying, "lying", CONFIDENCE, copies=50) <= 1 / NU


def _tenfold(norms):
    return 10 * torch.ones_like(norms)

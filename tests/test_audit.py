"""One step of every private strategy, audited on the code path that training takes (`Training.advance`).

The model is linear without bias and so is its loss, hence an example's gradient is its input. The canary's is K e_0, K
far above C; the REST others have -K e_0: they are clipped too, and they oppose it, which is where a divisor that counts
the canary shows most (REST * C shrinks as the canary adds C). A second canary's gradient is infinite.

The batch is the whole data set in both worlds (Poisson sampling at rate 1), so this is the mechanism without
amplification, for which the claim is mu = 1/nu. With it fixed, all that is random is the noise: every draw goes through
`advance` with its sampler, its check of the split, its release and its divisor, but `clipped_sums`, which is
deterministic (checked), runs again only if the batch changes. The update is replaced by a record of what it was given,
so that every draw is of the same step.

The strategies are audited so, a step a draw. For the planted bugs a step's sums are stacked AT_ONCE times, and
`release` adds noise to each copy: AT_ONCE draws for one call, as good where a tensor's elements get independent noise.

nu = 1/2: with 10^4 draws Clopper-Pearson then costs 6 % of mu = 2 (10 % of mu = 1), and up to mu = 6 can be proven.
"""

import math
from dataclasses import MISSING, fields
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from dp_bench import training
from dp_bench.audit import Known, LikelihoodRatio, Worlds, audit, joint_statistic, mu_lower_bound
from dp_bench.engine import FlatModel, sums
from dp_bench.noise import release
from dp_bench.strategies import STRATEGIES

NU = 0.5
DRAWS, ASIDE = 10_000, 1_000
AT_ONCE = 50
CONFIDENCE = 0.999  # a correct strategy fails its audit for one in a thousand names of its noise, at most
REST = 20
BATCH_SIZE = REST + 1
PARAMETERS = 3
K = 1e6

# What has no default. A new strategy that needs more says so when it is built.
REQUIRED = {"lr": 0.1, "clip": 0.7, "quantile": 0.5}
# Where no query is negligible: left out of the split, Online's second would add 1 % to mu at the paper's 1.01 and
# FixedQuantile's count 3 % at sigma_b = B/20, less than 10^4 draws can tell.
SPLITS = {
    "online": {"even": {"gradient_share": math.sqrt(2)}, "the paper's": {}},
    "fixed_quantile": {"": {"count_noise": 0.015}},  # 2 sigma_b = 0.63
}
AUDITED = [
    pytest.param(name, split, id=f"{name} {label}".strip())
    for name, strategy in STRATEGIES.items()
    if strategy.private
    for label, split in SPLITS.get(name, {"": {}}).items()
]


def build(name, **hyperparameters):
    strategy = STRATEGIES[name]
    required = {f.name: REQUIRED[f.name] for f in fields(strategy) if f.default is MISSING and f.name in REQUIRED}
    return strategy(noise_multiplier=NU, batch_size=BATCH_SIZE, **required | hyperparameters)


def reached(strategy, params):
    """A state in which an adaptive threshold is no longer where it began."""
    state = strategy.init(params)
    return state._replace(clip=2 * state.clip) if "clip" in state._fields else state


class Recorder:
    """The strategy, but for its update, which keeps what it is given and changes nothing."""

    def __init__(self, strategy):
        self.strategy, self.released = strategy, []

    def __getattr__(self, name):
        return getattr(self.strategy, name)

    def update(self, state, params, released):
        self.released.append(released)
        return params, state

    def table(self, count):
        """[count, values], the queries side by side."""
        assert all(row.keys() == self.multipliers().keys() for row in self.released)
        columns = [torch.stack([row[name] for row in self.released]) for name in self.multipliers()]
        return torch.cat([column.reshape(count, -1).double() for column in columns], dim=1).numpy()


class OneStep(training.Training):
    """Training on these gradients, always at the same step; `advance` is inherited."""

    def __init__(self, strategy, gradients, name):
        self.spec = SimpleNamespace(
            strategy=type(strategy).__name__,
            train=SimpleNamespace(batch_size=BATCH_SIZE),
            privacy=None,
            machine=SimpleNamespace(micro_batch=64),
        )
        self.recipe = SimpleNamespace(losses=lambda outputs, _: outputs.sum(1))
        self.device = torch.device("cpu")
        self.train_x, self.train_y = gradients, torch.zeros(len(gradients))
        self.model = FlatModel(torch.nn.Sequential(torch.nn.Linear(PARAMETERS, 1, bias=False)))
        self.strategy = Recorder(strategy)
        self.state = reached(strategy, self.model.params)
        self.step = 0
        self.key = name
        self._open_streams()


def along(value):
    """The gradient value * e_0."""
    return torch.tensor([[value] + [0.0] * (PARAMETERS - 1)])


def draws(strategy, gradients, name, count, at_once):
    """[count, values]: all that `count` repetitions of the step release."""
    steps = OneStep(strategy, gradients, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "clipped_sums", remembered(training.clipped_sums, at_once))
        for _ in range(count // at_once):
            steps.advance()
    return steps.strategy.table(count)


def remembered(compute, copies):
    """`clipped_sums` that computes each batch once; twice, the first time, to see that it is deterministic.

    With several copies, a stack of them.
    """
    known = []

    def exact(model, losses, inputs, targets, queries, micro_batch):
        if not known or not torch.equal(known[0], inputs):
            found, again = (compute(model, losses, inputs, targets, queries, micro_batch) for _ in range(2))
            for name, value in found.items():
                torch.testing.assert_close(value, again[name], rtol=0, atol=0, equal_nan=True)
            known[:] = inputs, {n: v.expand(copies, *v.shape).squeeze(0) for n, v in found.items()}
        return {name: value.clone() for name, value in known[1].items()}

    return exact


def knowledge(strategy):
    """What the strategy claims of one step: the split that accounting reads, and each query's bound."""
    rest, canary, noise = [], [], []
    queries = {query.name: query for query in strategy.queries(reached(strategy, torch.zeros(PARAMETERS)))}
    for name, multiplier in strategy.multipliers().items():
        query = queries[name]
        bound = float(query.bound) / BATCH_SIZE
        moved = bound * float(query.weight(torch.tensor([K], dtype=torch.float64)).sign())
        vector = query.kind == "vector"
        others = [0.0] * (PARAMETERS - 1) if vector else []
        rest += [(-REST if vector else REST) * moved, *others]  # opposed gradients, but counted alike
        canary += [moved, *others]
        noise += [bound * multiplier] * (1 + len(others))
    return Known(np.array(rest), np.array(canary), np.array(noise))


def observed_mu(strategy, name, at_once=1):
    """With CONFIDENCE, the mu of a step is at least this: the larger of two canaries' bounds (Bonferroni)."""
    known = knowledge(strategy)
    assert known.mu == pytest.approx(1 / NU)
    rest = along(-K).repeat(REST, 1)
    without = draws(strategy, rest, f"{name}, without", ASIDE + DRAWS, at_once)
    bounds = []
    for value, count, aside in ((K, DRAWS, ASIDE), (math.inf, DRAWS // 10, ASIDE // 10)):  # the infinite shows at once
        canary = draws(strategy, torch.cat([rest, along(value)]), f"{name}, canary {value}", aside + count, at_once)
        fit, judged = Worlds(without[:ASIDE], canary[:aside]), Worlds(without[ASIDE:], canary[aside:])
        bounds.append(audit(known, fit, judged, (1 + CONFIDENCE) / 2))
    return max(bounds)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("name", "split"), AUDITED)
def test_no_more_is_seen_than_is_claimed_and_hardly_less(name, split):
    assert 0.85 / NU < observed_mu(build(name, **split), name) <= 1 / NU


# The planted bugs. Each changes what `advance` calls; none is known to the auditor.


def too_little_noise(multipliers):
    """Released with these noise multipliers instead of the queries' own."""

    def planted(exact, queries, batch_size, stream):
        queries = [q._replace(noise_multiplier=multipliers.get(q.name, q.noise_multiplier)) for q in queries]
        return release(exact, queries, batch_size, stream)

    return planted


def gradient_multiplier_on_direction(patch, strategy):
    """Algorithm 1 as printed: nu_g, not nu_q, on q. True mu: sqrt(2)/1.01 = 1.40 times the claim."""
    patch.setattr(training, "release", too_little_noise({"direction": strategy.multipliers()["gradient"]}))


def noise_of_the_first_threshold(patch, strategy):
    """Noise nu_g C_0, bound C_t = 2 C_0. True mu: (4 nu_g^-2 + (2 sigma_b)^-2)^(1/2), 1.45 times the claim.

    Online's, likewise, is 1.99 times the claim.
    """

    def planted(exact, queries, batch_size, stream):
        return release(exact, strategy.queries(strategy.init(torch.zeros(PARAMETERS))), batch_size, stream)

    patch.setattr(training, "release", planted)


def divided_by_the_drawn_size(patch, strategy):
    """True mu: about twice the claim, since the others' sum, REST * C, shrinks by C as the canary adds C.

    Of FixedQuantile it is about 1.2 times the claim: the gradient moves twice as far, but the count no longer does.
    """
    draw, drawn = training.Training._draw, []

    def remembering_draw(self):
        drawn[:] = [draw(self)]
        return drawn[0]

    def planted(exact, queries, batch_size, stream):
        return release(exact, queries, len(drawn[0]), stream)

    patch.setattr(training.Training, "_draw", remembering_draw)
    patch.setattr(training, "release", planted)


def whole_budget_on_the_gradient(patch, strategy):
    """nu on the gradient, the second query on top: 1.28 times the claim, with Online's even split 1.22."""
    patch.setattr(training, "release", too_little_noise({"gradient": NU}))


def one_noise_vector(patch, strategy):
    """The same normal numbers for both queries: sum g - (nu_g C / nu_q) sum q has no noise at all."""

    def planted(exact, queries, batch_size, stream):
        start, released = stream.state(), {}
        for query in queries:
            stream.restore(start)
            released |= release(exact, [query], batch_size, stream)
        return released

    patch.setattr(training, "release", planted)


def infinite_gradient_times_zero(patch, strategy):
    """The clip's weight is C/inf = 0, and 0 * inf is NaN, in every sum that the canary is in."""
    patch.setattr(sums, "_drop_non_finite", lambda parts, norms: None)


def infinite_gradient_unclipped(patch, strategy):
    """Its weight is 1, as if C/n had been compared the wrong way round."""
    bounded = sums.bounded_weights
    patch.setattr(sums, "_drop_non_finite", lambda parts, norms: None)
    patch.setattr(sums, "bounded_weights", lambda query, norms: bounded(query, norms).where(norms.isfinite(), 1.0))


PAPER, EVEN = (("online", SPLITS["online"][split]) for split in ("the paper's", "even"))
QUANTILE = ("fixed_quantile", SPLITS["fixed_quantile"][""])
THRESHOLD, ADAM = ("fixed_threshold", {}), ("adam_wosm", {})
PLANTED = {
    gradient_multiplier_on_direction: [PAPER],
    noise_of_the_first_threshold: [PAPER, QUANTILE],
    divided_by_the_drawn_size: [PAPER, QUANTILE, THRESHOLD, ADAM],
    whole_budget_on_the_gradient: [EVEN, QUANTILE],
    one_noise_vector: [PAPER],
    infinite_gradient_times_zero: [PAPER, QUANTILE, THRESHOLD, ADAM],
    infinite_gradient_unclipped: [PAPER, QUANTILE, THRESHOLD, ADAM],
}


@pytest.mark.parametrize(
    ("plant", "name", "split"),
    [pytest.param(p, *audited, id=f"{p.__name__} {audited[0]}") for p, where in PLANTED.items() for audited in where],
)
def test_a_planted_bug_is_refuted(plant, name, split, monkeypatch):
    strategy = build(name, **split)
    plant(monkeypatch, strategy)
    assert observed_mu(strategy, f"{plant.__name__}, {name}", AT_ONCE) > 1 / NU


def test_a_split_that_overspends_does_not_even_start():
    """The same bug in a strategy's own queries: training refuses it, so the plants above sit behind that check."""
    strategy = build("online")
    overspent = tuple(q._replace(noise_multiplier=NU) for q in strategy.queries(strategy.init(torch.zeros(PARAMETERS))))
    step = OneStep(strategy, along(K), "overspent")
    step.strategy.queries = lambda state: overspent
    with pytest.raises(RuntimeError, match="spend more"):
        step.advance()


# The statistics themselves.


def decisions(positives, total):
    return np.arange(total) < positives


def test_bound_is_exact_where_it_can_be_written_down():
    # All n canaries found, none seen elsewhere: TPR >= e^(1/n), FPR <= 1 - e^(1/n), e = 0.0005 each.
    rate = 0.0005 ** (1 / DRAWS)
    found = mu_lower_bound(decisions(0, DRAWS), decisions(DRAWS, DRAWS), 0.999)
    assert found == pytest.approx(2 * norm.ppf(rate))
    assert 6 < found < 6.5


def test_bound_proves_nothing_from_a_blind_test_or_from_no_draws():
    assert mu_lower_bound(decisions(500, 1000), decisions(500, 1000), 0.999) < 0
    assert mu_lower_bound(decisions(0, 0), decisions(0, 0), 0.999) == -math.inf
    assert mu_lower_bound(decisions(0, 10), decisions(0, 10), 0.999) == -math.inf


def test_bound_holds_as_often_as_it_says():
    """80 % confidence, 1,000 audits of N(0, 1) against N(1, 1) by 200 draws each: at most 20 % overstate mu.

    Clopper-Pearson is conservative, so the share is lower; it must not be so low that the bound says nothing.
    """
    random = np.random.default_rng(0)
    beyond_a_half = norm.sf([[0.5], [-0.5]])
    without, canary = random.binomial(200, beyond_a_half, (2, 1000))
    bounds = [mu_lower_bound(decisions(f, 200), decisions(t, 200), 0.8) for f, t in zip(without, canary, strict=True)]
    assert 0.01 < np.mean(np.array(bounds) > 1) <= 0.2


def test_joint_statistic_is_the_formula_of_two_queries():
    x, y, nu_g, nu_q = 1.7, -0.4, 1.01, 1 / math.sqrt(1 - 1.01**-2)
    z = joint_statistic(np.array([[x, y]]), np.array([1 / nu_g, 1 / nu_q]))
    assert z == pytest.approx([x / nu_g + y / nu_q])  # nu = 1


def test_likelihood_ratio_of_fitted_gaussians_approaches_the_true_one():
    random = np.random.default_rng(0)
    without, canary = random.normal(0, 1, (100_000, 1)), random.normal(1, 2, (100_000, 1))
    x = np.array([[-1.0], [0.0], [3.0]])
    true = -0.5 * ((x - 1) ** 2 / 4 - x**2)[:, 0] - math.log(2)
    np.testing.assert_allclose(LikelihoodRatio(without, canary)(x), true, atol=0.1)


def test_a_canary_that_moves_nothing_is_refused():
    nothing, worlds = Known(np.zeros(1), np.zeros(1), np.ones(1)), Worlds(np.zeros((9, 1)), np.zeros((9, 1)))
    with pytest.raises(ValueError, match="must move"):
        audit(nothing, worlds, worlds, 0.99)

"""One step of a strategy with and without a canary, on the code path that training takes (`Training.advance`).

The model is linear without bias and so is its loss, hence an example's gradient is its input. The canary's is K e_0, K
far above C; the others have -K e_0: they are clipped too, and they oppose it, which is where a divisor that counts the
canary shows most (their sum shrinks as the canary adds C). A second canary's gradient is infinite.

The batch is the whole data set in both worlds (Poisson sampling at rate 1), so this is the mechanism without
amplification, for which the claim is mu = 1/nu. With it fixed, all that is random is the noise: every draw goes through
`advance` with its sampler, its check of the split, its release and its divisor, but `clipped_sums`, which is
deterministic (checked), runs again only if the batch changes. The update is replaced by a record of what it was given,
so that every draw is of the same step.

A strategy is audited so, one step per draw. To look for planted bugs a step's sums are stacked `copies` times, and
`release` adds noise to each copy: as many draws for one call, as good where a tensor's elements get independent noise.

Power: at nu = 1/2 and with 10^4 draws Clopper-Pearson costs 7 % of mu = 2 at the audit's confidence, 1 - 2.5e-6 (5 % at
99.9 %), and up to mu = 6.0 can be proven.
"""

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from dp_bench.privacy.query import Released
from dp_bench.strategies import Strategy
from dp_bench.testing.harness import Harness, K, claimed_noise, contribution, in_training
from dp_bench.testing.results import Finding
from dp_bench.testing.statistics import Known, Numbers, Worlds, audit
from dp_bench.testing.subjects import Subject
from dp_bench.training import trainer as training

DRAWS, ASIDE = 10_000, 1_000
COPIES = 50
PARAMETERS = 3
NU, BATCH_SIZE = 0.5, 21
ERROR = 2.5e-6  # correct code is refuted so often at most: Clopper-Pearson holds for any number of draws


def check(subject: Subject, key: str, *, copies: int = 1) -> Finding:
    """Does an attacker see more of one step than mu = 1/nu allows?"""
    mu = observed_mu(subject.build(NU, BATCH_SIZE), f"{key}, canary, {subject.name}", 1 - ERROR, copies)
    return Finding("canary", subject.name, f"mu >= {mu:.3f}", mu, f"mu <= {1 / NU:.3f}", holds=mu <= 1 / NU)


def observed_mu(strategy: Strategy[Any], name: str, confidence: float, copies: int = 1) -> float:
    """With this confidence, the mu of one step is at least this: the larger of two canaries' bounds (Bonferroni).

    The strategy claims 1/nu. `name` keys the noise: another one gives an independent audit.
    """
    known = knowledge(strategy)
    rest = along(-K).repeat(strategy.batch_size - 1, 1)
    without = draws(strategy, rest, f"{name}, without", ASIDE + DRAWS, copies)
    bounds = []
    for value, count, aside in ((K, DRAWS, ASIDE), (math.inf, DRAWS // 10, ASIDE // 10)):  # the infinite shows soon
        canary = draws(strategy, torch.cat([rest, along(value)]), f"{name}, canary {value}", aside + count, copies)
        fit, judged = Worlds(without[:ASIDE], canary[:aside]), Worlds(without[ASIDE:], canary[aside:])
        bounds.append(audit(known, fit, judged, (1 + confidence) / 2))
    return max(bounds)


def knowledge(strategy: Strategy[Any]) -> Known:
    """What the strategy claims of one step: the split that accounting reads, and each query's bound."""
    found = {query.name: query for query in strategy.queries(reached(strategy, torch.zeros(PARAMETERS)))}
    queries = [found[name]._replace(noise_multiplier=z) for name, z in strategy.multipliers().items()]
    claimed = claimed_noise(queries, strategy.noise_multiplier)
    rest, canary, noise = [], [], []
    for query in queries:
        vector = query.kind == "vector"
        moved = contribution(query) / strategy.batch_size
        others = [0.0] * (PARAMETERS - 1) if vector else []
        # Opposed gradients, but counted alike.
        rest += [(strategy.batch_size - 1) * moved * (-1 if vector else 1), *others]
        canary += [moved, *others]
        noise += [claimed[query.name] / strategy.batch_size] * (1 + len(others))
    return Known(np.array(rest), np.array(canary), np.array(noise))


def reached(strategy: Strategy[Any], params: Tensor) -> Any:
    """A state in which an adaptive threshold is no longer where it began."""
    state = strategy.init(params)
    return state._replace(clip=2 * state.clip) if "clip" in state._fields else state


def along(value: float) -> Tensor:
    """The gradient value * e_0."""
    return torch.tensor([[value] + [0.0] * (PARAMETERS - 1)])


class OneStep(Harness):
    """Training on these gradients, always at the same step; what it releases is kept."""

    def __init__(self, strategy: Strategy[Any], gradients: Tensor, name: str) -> None:
        super().__init__(strategy, gradients, name)
        self.released: list[Released] = []
        self.state = reached(strategy, self.model.params)

    def _update(self, state: Any, params: Tensor, released: Released) -> tuple[Tensor, Any]:
        self.released.append(released)
        return params, state


def draws(strategy: Strategy[Any], gradients: Tensor, name: str, count: int, copies: int = 1) -> Numbers:
    """[count, values]: all that `count` repetitions of the step release, the queries side by side."""
    steps = OneStep(strategy, gradients, name)
    with patch.object(training, "clipped_sums", _cached(in_training("clipped_sums"), copies)):
        for _ in range(count // copies):
            steps.advance()
    names = strategy.multipliers().keys()
    if any(row.keys() != names for row in steps.released):
        raise AssertionError(f"expected every step to release {sorted(names)}, got {set(steps.released[0])}")
    columns = [torch.stack([row[name] for row in steps.released]) for name in names]
    values: Numbers = torch.cat([column.reshape(count, -1).double() for column in columns], dim=1).numpy()
    return values


def _cached(compute: Callable[..., dict[str, Tensor]], copies: int) -> Callable[..., dict[str, Tensor]]:
    """`clipped_sums` that computes each batch once; twice, the first time, to see that it is deterministic.

    With several copies, a stack of them.
    """
    known: list[Any] = []

    def exact(model: Any, losses: Any, inputs: Tensor, *more: Any, **options: Any) -> dict[str, Tensor]:
        if not known or not torch.equal(known[0], inputs):
            found, again = (compute(model, losses, inputs, *more, **options) for _ in range(2))
            for name, value in found.items():
                torch.testing.assert_close(value, again[name], rtol=0, atol=0, equal_nan=True)
            known[:] = inputs, {n: v.expand(copies, *v.shape).squeeze(0) for n, v in found.items()}
        return {name: value.clone() for name, value in known[1].items()}

    return exact

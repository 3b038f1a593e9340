"""Two neighbouring data sets under identical keys (the "Re:cord-play" audit): what differs, and by how much.

The first world trains on a data set, the second on the same with one example more. Batches and noise have the same
keys, and what the first world released is played to the second one's updates: parameters and state stay equal, as in
the definition of adaptive composition. Then at every step

- control flow is equal: the same queries, shapes, releases, and as many numbers drawn from each generator. One that
  depends on the examples would leak past the noise, unaccounted for;
- parameters and state are equal after it, bit for bit: whatever an update reads besides what was released, a sum
  without its noise for example, would make them differ;
- every sum that `release` is given moves by at most its bound, and all of them together by
  sqrt(sum_k (|difference_k| / (z_k bound_k))^2) <= (1 + `rounding`) / nu. No statistics: this holds or does not.

The coupling. The sampler draws gaps between members, so that an example inserted in the middle realigns who is drawn
after it: equal keys would compare batches that differ by many examples. That is not a leak, only a useless pairing of
two equally likely batches. Here the others are drawn by the real sampler on the smaller data set in both worlds, and
the canary joins every batch, wherever it stands. At the end of the data set the real sampler does this by itself, which
`check_sampler` checks: the same uniforms, at the same rate, draw the same others.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from dp_bench.mechanism import sampling
from dp_bench.mechanism.rng import rng
from dp_bench.privacy.query import Query, Released
from dp_bench.privacy.rounding import rounding, summation
from dp_bench.strategies import Strategy
from dp_bench.tasks import TASKS
from dp_bench.testing.cases import same
from dp_bench.testing.harness import Harness, Losses, distances, linear, linear_losses
from dp_bench.testing.results import Finding
from dp_bench.testing.subjects import Subject

Made = TypeVar("Made")
CANARIES = (1.0, 1e4, math.inf, math.nan)  # times as large as the others


class Case(NamedTuple):
    """A model and data of its kind: `data(n)` makes inputs and targets of n examples."""

    build: Callable[[], nn.Module]
    losses: Losses
    data: Callable[[int], tuple[Tensor, Tensor]]
    examples: int
    batch_size: int
    steps: int
    micro_batch: int = 8  # so that a batch has several


def seeded(make: Callable[..., Made], *arguments: Any) -> Made:
    """A model or data, from torch's global generator: the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make(*arguments)


def _pictures(n: int) -> tuple[Tensor, Tensor]:
    images = torch.rand(n, 1, 28, 28)
    return images, images


def _odd() -> nn.Module:
    """Where torch rounds a row by its place, and the last elements by another function."""
    return nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3))


@functools.cache
def cases() -> dict[str, Case]:
    """By name. The last ones are batches of so many examples that one more is summed in another precision."""
    cnn, autoencoder = TASKS["mnist"].recipe(), TASKS["fashion_mnist"].recipe()
    bag_of_words = TASKS["ag_news"].recipe({"words": 5})
    texts = bag_of_words.build, bag_of_words.losses, lambda n: (torch.randn(n, 5 * 50), torch.randint(4, (n,)))
    small = functools.partial(linear, 4), linear_losses, lambda n: (torch.randn(n, 4), torch.ones(n, 1))

    def images(n: int) -> tuple[Tensor, Tensor]:
        return torch.rand(n, 1, 28, 28), torch.randint(10, (n,))

    def odd_rows(n: int) -> tuple[Tensor, Tensor]:
        return torch.randn(n, 7), torch.randn(n, 3)

    found = {
        "bag of words": Case(*texts, examples=64, batch_size=16, steps=3),
        "CNN": Case(cnn.build, cnn.losses, images, examples=24, batch_size=8, steps=2),
        "autoencoder": Case(autoencoder.build, autoencoder.losses, _pictures, examples=24, batch_size=8, steps=2),
        "odd widths": Case(_odd, linear_losses, odd_rows, examples=24, batch_size=8, steps=2),
        # Most batches have no example or one.
        "empty batches": Case(*small, examples=50, batch_size=1, steps=30),
    }
    for n in precision_changes(up_to=10_000):
        found[f"{n:,} and 1 examples"] = Case(*small, n, batch_size=n + 1, steps=1, micro_batch=_MICRO_BATCH)
    return found


_MICRO_BATCH = 128


def precision_changes(up_to: int) -> list[int]:
    """Sizes n at which n + 1 examples are summed in another precision: the first of each kind."""
    ways = [summation(n, _MICRO_BATCH) for n in range(1, up_to + 2)]
    found: dict[tuple[str, str], int] = {}
    for n, (way, larger) in enumerate(itertools.pairwise(ways), start=1):
        if (way.products, way.totals) != (larger.products, larger.totals):
            found.setdefault((larger.products, larger.totals), n)
    return list(found.values())


class Step(NamedTuple):
    """What a step consists of, but for its released values."""

    queries: Sequence[Query]
    sums: dict[str, Tensor]  # as `release` was given them
    released: Released
    flow: tuple[Any, ...]  # everything that must be equal in both worlds


class Replayed(NamedTuple):
    """How two neighbours differed."""

    influence: float  # how far all sums moved together at most, in units of 1/nu
    allowed: float  # and how far they may
    flow: bool  # whether control flow differs
    state: str | None  # after which step parameters or state differ


def check(subject: Subject, case: str, key: str, *, everywhere: bool = True) -> Finding:
    """Do all sums of two neighbouring data sets differ by their joint bound at most, and nothing else at all?

    Examples of every size in the middle of the data set, or (`everywhere`) also at its start and end.
    """
    chosen = cases()[case]
    strategy = subject.build(1.0, chosen.batch_size)
    found = [
        replay(strategy, chosen, scale, position, f"{key}, replay, {subject.name}, {case}")
        for scale in CANARIES
        for position in ((0.0, 0.5, 1.0) if everywhere else (0.5,))
    ]
    influence, allowed = max(one.influence for one in found), min(one.allowed for one in found)
    flow = any(one.flow for one in found)
    state = next((one.state for one in found if one.state), None)
    equal = f"control flow {'differs' if flow else 'equal'}, state {f'differs {state}' if state else 'equal'}"
    return Finding(
        "replay",
        f"{subject.name}, {case}",
        f"moves {influence:.7f}, {equal}",
        influence,
        f"moves <= {allowed:.4f}, equal",
        holds=influence <= allowed and not flow and state is None,
    )


class _World(Harness):
    """Training whose steps are recorded, and played to by another world's record."""

    played: Sequence[Step] = ()
    inserted: int | None = None  # where the canary stands, if it is here

    def __init__(self, strategy: Strategy[Any], case: Case, inputs: Tensor, targets: Tensor, name: str) -> None:
        super().__init__(strategy, inputs, name, targets, seeded(case.build), case.losses, case.micro_batch)
        self.steps: list[Step] = []

    def _draw(self) -> Tensor:
        if self.inserted is None:
            return super()._draw()
        here = self.train_x
        self.train_x = here[1:]  # as many as without the canary: only their number is read
        members = super()._draw()
        self.train_x = here
        members = members + (members >= self.inserted)
        return torch.cat([members, members.new_tensor([self.inserted])]).sort().values

    def _update(self, state: Any, params: Tensor, released: Released) -> tuple[Tensor, Any]:
        queries = self.wrapped.queries(state)
        flow = (
            [(q.name, q.kind, float(q.bound), q.noise_multiplier) for q in queries],
            {name: value.shape for name, value in self.exact.items()},
            {name: (value.shape, value.dtype) for name, value in released.items()},
            self.batches.state(),
            self.noise.state(),
        )
        self.steps.append(Step(queries, {n: v.clone() for n, v in self.exact.items()}, released, flow))
        played = self.played[len(self.steps) - 1].released if self.played else released
        return self.wrapped.update(state, params, played)


def replay(strategy: Strategy[Any], case: Case, canary: float, position: float, name: str) -> Replayed:
    """A run with and without an example, `canary` times as large as those of its kind, at this place (from 0 to 1)."""
    inputs, targets = seeded(case.data, case.examples + 1)
    place = round(position * case.examples)
    others = torch.arange(case.examples + 1) != place
    inputs[place] *= canary
    without = _World(strategy, case, inputs[others], targets[others], name)
    joined = _World(strategy, case, inputs, targets, name)
    joined.inserted, joined.played = place, without.steps
    differs = None
    for step in range(case.steps):
        without.advance()
        joined.advance()
        if differs is None and not same(*((world.model.params, *world.state) for world in (without, joined))):
            differs = f"after step {step}"
    pairs = list(zip(without.steps, joined.steps, strict=True))
    nu = strategy.noise_multiplier
    allowed = 1 + rounding(pairs[0][0].queries, nu)
    flow = any(a.flow != b.flow for a, b in pairs)
    return Replayed(max(_moved(a, b, nu) for a, b in pairs), allowed, flow, differs)


def _moved(without: Step, joined: Step, nu: float) -> float:
    """The larger of nu sqrt(sum_k (r_k / z_k)^2) and any r_k, the distance of two sums over their query's bound."""
    ratios = distances(without.queries, without.sums, joined.sums)
    joint = sum((r / query.noise_multiplier) ** 2 for r, query in zip(ratios, without.queries, strict=True))
    moved = max(nu * math.sqrt(joint), *ratios)
    return moved if math.isfinite(moved) and all(v.isfinite().all() for v in joined.sums.values()) else math.inf


def check_sampler(key: str) -> Finding:
    """Is the coupling the sampler's own, for an example at the end?

    Under the same key and rate, one example more there leaves all others' membership as it is.
    """
    examples, rate, same_others = 1000, 0.05, True
    for i in range(200):
        name = f"{key}, sampler, batch {i}"
        smaller, larger = (sampling.poisson(n, rate, rng(name, "batches")) for n in (examples, examples + 1))
        same_others &= torch.equal(smaller, larger[larger < examples])
    words = "the same others are drawn" if same_others else "other examples are drawn"
    subject = "the sampler, one example more"
    return Finding("replay", subject, words, float(same_others), "the same others", same_others)

"""What the contract tries a strategy on: norms, thresholds, invented releases."""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from dp_bench.privacy.query import Query
from dp_bench.strategies import Strategy
from dp_bench.strategies.ranges import ranges

AnyStrategy = Strategy[Any]


def queries_at(strategy: AnyStrategy, clip: float) -> tuple[Query, ...]:
    """The strategy's queries if its threshold were `clip`, whether that is in its state or a hyperparameter."""
    state = strategy.init(torch.zeros(3))
    if "clip" in state._fields:
        state = state._replace(clip=torch.tensor(clip, dtype=torch.float64))
    elif hasattr(strategy, "clip") and clip in ranges(type(strategy)).get("clip", ()):
        changed: Any = {"clip": clip}
        strategy = dataclasses.replace(strategy, **changed)
    return strategy.queries(state)


def norms_near(clip: float) -> Tensor:
    """A dense grid, the neighbourhood of the threshold, and what floating point finds hard."""
    generator = torch.Generator().manual_seed(0)
    random = 10 ** (torch.rand(500, generator=generator, dtype=torch.float64) * 60 - 30)
    near = clip * torch.tensor([1 - 1e-15, 1, 1 + 1e-15, 0.5, 2], dtype=torch.float64)
    special = [0, 5e-324, 1e-310, 1e-45, 1e-12, 1e38, 1e154, math.inf, math.nan]
    return torch.cat([random, near, torch.tensor(special, dtype=torch.float64)])


def releases(strategy: AnyStrategy, params: Tensor, steps: int, seed: int = 0) -> list[dict[str, Tensor]]:
    """Invented releases for that many steps."""
    generator = torch.Generator().manual_seed(seed)
    kinds = {query.name: query.kind for query in strategy.queries(strategy.init(params))}
    shapes = {n: (params.shape, params.dtype) if k == "vector" else ((), torch.float64) for n, k in kinds.items()}
    return [
        {n: 0.1 * torch.randn(shape, generator=generator, dtype=dtype) for n, (shape, dtype) in shapes.items()}
        for _ in range(steps)
    ]


def trained(strategy: AnyStrategy, params: Tensor, steps: int) -> tuple[Tensor, Any]:
    state = strategy.init(params)
    for released in releases(strategy, params, steps):
        params, state = strategy.update(state, params, released)
    return params, state


def keeps_releases(strategy: AnyStrategy) -> bool:
    """Whether another first release leads to another state: not so of plain SGD."""
    params = torch.zeros(3)
    first = strategy.init(params)
    one, other = (strategy.update(first, params, releases(strategy, params, 1, seed)[0])[1] for seed in (0, 1))
    return not same(one, other)


def copies(values: Iterable[Any]) -> Iterator[Any]:
    return (value.clone() if isinstance(value, Tensor) else value for value in values)


def same(a: Iterable[Any], b: Iterable[Any]) -> bool:
    return all(
        torch.equal(x, y) and x.dtype == y.dtype if isinstance(x, Tensor) else x == y for x, y in zip(a, b, strict=True)
    )


def kinds(state: Iterable[Any]) -> list[str]:
    return [f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__ for x in state]

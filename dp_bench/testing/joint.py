"""The norm at which one example moves a step most: the joint sensitivity of its queries, maximised."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dp_bench.privacy.query import LONGEST_NORM, SHORTEST_NORM, Query, bounded_weights, influence

_PER_DECADE = 200
_SUSPECTS = 400  # places to look closer at
_POINTS, _ROUNDS = 17, 12  # each round looks 8 times as close: in the end at relative distances of 1e-12


class Worst(NamedTuple):
    """The largest influence found, and the norm it was found at."""

    influence: float
    norm: float


def objection(queries: Sequence[Query], nu: float) -> str | None:
    """What is wrong with queries that are accounted for as one Gaussian mechanism of multiplier nu, or None."""
    found = worst(queries)
    if 1 - 1e-6 < nu * found.influence < 1 + 1e-9:
        return None
    wrong = "spends more than its budget" if nu * found.influence > 1 else "wastes budget"
    return (
        f"expected queries that one example moves by 1/nu = {1 / nu:.6g} together, in units of their noise, got "
        f"{found.influence:.6g} at norm {found.norm:.4g} "
        f"(noise multipliers { ({q.name: q.noise_multiplier for q in queries}) }): it {wrong}"
    )


def worst(queries: Sequence[Query]) -> Worst:
    """The largest s(n) from the shortest norm to the longest: on a dense grid, then close to every kink and maximum."""
    first, last = math.log10(SHORTEST_NORM), math.log10(LONGEST_NORM)
    norms = torch.logspace(first, last, round((last - first) * _PER_DECADE) + 1, dtype=torch.float64)
    found = _moves(queries, norms)
    best = Worst(float(found.max()), float(norms[found.argmax()]))
    suspects = _suspects(queries, norms, found)
    low, high = norms[suspects - 1, None], norms[suspects + 1, None]
    for _ in range(_ROUNDS):
        points = low * (high / low) ** torch.linspace(0, 1, _POINTS, dtype=torch.float64)  # [suspects, points]
        found = _moves(queries, points.flatten()).view(points.shape)
        at = found.argmax(1, keepdim=True)
        largest = int(found.max(1).values.argmax())
        best = max(best, Worst(float(found[largest, at[largest]]), float(points[largest, at[largest]])))
        low, high = points.gather(1, (at - 1).clamp(min=0)), points.gather(1, (at + 1).clamp(max=_POINTS - 1))
    return best


def _moves(queries: Sequence[Query], norms: Tensor) -> Tensor:
    return influence(queries, [bounded_weights(q, norms) for q in queries], norms)


def _suspects(queries: Sequence[Query], norms: Tensor, found: Tensor) -> Tensor:
    """Grid points where a contribution bends or jumps most, and where the influence has a maximum."""
    bends = torch.zeros(len(norms) - 2, dtype=torch.float64)
    for query in queries:
        one = _moves([query], norms) * query.noise_multiplier  # in units of its bound
        bends = torch.maximum(bends, one.diff(n=2).abs())
    maxima = (found[1:-1] >= found[:-2]) & (found[1:-1] >= found[2:])
    rank = bends + 10 * (maxima & (bends > 1e-12)) * found[1:-1] / found.max()
    return 1 + rank.topk(_SUSPECTS).indices

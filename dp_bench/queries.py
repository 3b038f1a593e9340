"""The one abstraction: a private sum over the batch whose weights depend on each gradient's 2-norm alone.

Noise, accounting and the engine all read the same `Query`, so they cannot disagree about a bound or a multiplier.
Nothing here imports torch at run time: planning reads the strategies' queries too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

# Where float32 can be trusted. A gradient shorter or longer than these contributes nothing to a vector sum, and a sum
# whose bound is smaller than this is left at zero: weights or products would be subnormal, where rounding up escapes
# any bound. All of them are far from anything that learns.
SHORTEST_NORM, LONGEST_NORM = 1e-12, 1e25
SMALLEST_BOUND = 1e-12


class Query(NamedTuple):
    """sum_i w(n_i) g_i ("vector") or sum_i w(n_i) ("scalar"), n_i = |g_i|, over the examples of one batch.

    Adding or removing one example moves the sum by at most `bound` (2-norm), so releasing it with
    N(0, (noise_multiplier * bound)^2 I) is a Gaussian mechanism of that noise multiplier.
    """

    name: str
    kind: Literal["vector", "scalar"]
    weight: Callable[[Tensor], Tensor]  # norms [B] -> weights [B]
    bound: float | Tensor
    noise_multiplier: float


Released = Mapping[str, "Tensor"]  # query name -> (sum + noise) / nominal batch size


def bounded_weights(query: Query, norms: Tensor) -> Tensor:
    """The query's weights, clamped so that no example contributes more than the bound, whatever the strategy wrote.

    An example whose norm or weight is not finite contributes nothing.
    """
    if query.kind == "vector":
        usable = (norms.clamp(SHORTEST_NORM, LONGEST_NORM) == norms) & (query.bound >= SMALLEST_BOUND)
        limit = query.bound / norms
    else:
        usable, limit = norms.isfinite(), norms.new_ones(()) * query.bound
    return query.weight(norms).to(norms.dtype).nan_to_num(0.0).clamp(-limit, limit).where(usable, 0.0)

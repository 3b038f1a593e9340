"""The one abstraction: a private sum over the batch whose weights depend on each gradient's 2-norm alone.

Noise, accounting and the engine all read the same `Query`, so they cannot disagree about a bound or a multiplier.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any  # planning reads queries and strategies without torch

# Where float32 can be trusted. A gradient shorter or longer than these contributes nothing to a vector sum, and a sum
# whose bound is smaller than this is left at zero: weights or products would be subnormal, where rounding up escapes
# any bound. All of them are far from anything that learns.
SHORTEST_NORM, LONGEST_NORM = 1e-12, 1e25
SMALLEST_BOUND = 1e-12

# By how much rounding in double precision may raise a joint sensitivity; `dp_bench.privacy.rounding` has room for more.
_TOLERANCE = 1e-9


class Query(NamedTuple):
    """sum_i w(n_i) g_i ("vector") or sum_i w(n_i) ("scalar"), n_i = |g_i|, over the examples of one batch.

    Adding or removing one example moves the exact sum by at most `bound` (2-norm), so releasing it with
    N(0, (noise_multiplier * bound)^2 I) is a Gaussian mechanism of that noise multiplier. (What is computed in floating
    point moves by a little more, and gets as much more noise: `dp_bench.privacy.rounding`.) What several queries cost
    together is their joint sensitivity (`influence`).

    The sum of the gradients, each clipped to norm 0.1, and how many of them were shorter than that:

    >>> from dp_bench import Query
    >>> gradient = Query("gradient", "vector", lambda n: (0.1 / n).clamp(max=1), bound=0.1, noise_multiplier=1.2)
    >>> shorter = Query("shorter", "scalar", lambda n: (n <= 0.1).to(n.dtype), bound=1.0, noise_multiplier=20.0)
    """

    name: str
    kind: Literal["vector", "scalar"]
    weight: Callable[[Tensor], Tensor]  # norms [B] -> weights [B]
    bound: float | Tensor
    noise_multiplier: float
    # Of a step's second vector query: it is 0 except where the first is at its bound, and at its own bound there. The
    # engine then takes the first to be exactly that where the second is not 0, and needs half the products.
    clipped_only: bool = False


Released = Mapping[str, Tensor]  # query name -> (sum + noise) / nominal batch size


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


def influence(queries: Sequence[Query], weights: Sequence[Tensor], norms: Tensor) -> Tensor:
    """s(n) = sqrt(sum_k (c_k(n) / s_k)^2): how far an example of norm n moves a whitened release, one value per norm.

    s_k = noise_multiplier_k * bound_k is the standard deviation of query k's noise, and c_k(n) the norm of the
    example's contribution: |w_k(n)| n to a vector sum, |w_k(n)| to a scalar one.

    Joint sensitivity. The release of one step, all of its queries together, is one Gaussian mechanism of noise
    multiplier nu if and only if sup_n s(n) <= 1/nu.

    Proof. Divide each released sum by its s_k. This can be undone, s_k being public, so it changes no guarantee, and
    the release becomes x + N(0, I), x the exact sums over their s_k, one below the other: a single vector. An example
    that is added or removed moves block k of x by w_k(n) g / s_k or w_k(n) / s_k, of length c_k(n) / s_k. All its
    weights are functions of its one norm n, so whatever its gradient is, the blocks move at the same n and x moves by
    the root of the sum of squares, which is s(n), no more and no less. The Gaussian mechanism with noise N(0, I) has
    the noise multiplier 1 / (largest move of x): nu or more if no s(n) exceeds 1/nu, less than nu if some s(n) does.

    c_k(n) <= bound_k, so that s(n)^2 <= sum_k z_k^-2: multipliers that compose to nu suffice, and are needed where one
    n brings every query to its bound (Online, FixedQuantile). Where no n does, less noise is enough.
    """
    shares = [(w * norms if q.kind == "vector" else w) / q.bound for q, w in zip(queries, weights, strict=True)]
    vectors = [k for k, query in enumerate(queries) if query.kind == "vector"]
    if len(vectors) == 2 and queries[vectors[1]].clipped_only:  # what the engine sums, whatever the first one says
        first, second = (shares[k].abs() for k in vectors)
        shares[vectors[0]] = first.fmax(second)
    squares = [
        share.div(query.noise_multiplier).nan_to_num(0.0).square() for query, share in zip(queries, shares, strict=True)
    ]
    return sum(squares[1:], start=squares[0]).sqrt()


def joint_sensitivity(queries: Sequence[Query], norms: Tensor) -> float:
    """The largest `influence` at any of these norms, with the weights that the engine would use."""
    return float(influence(queries, [bounded_weights(q, norms) for q in queries], norms).max())


def jointly_bounded(
    queries: Sequence[Query], weights: Sequence[Tensor], norms: Tensor, noise_multiplier: float
) -> Sequence[Tensor]:
    """Each example's weights times min(1, 1 / (nu s(n))): no example moves a step by more than 1/nu.

    Where nu s(n) is 1 up to rounding they stay as they are, to the bit. Nothing needs to be looked at where the
    queries' own bounds are enough, nor without noise (the baseline that is not private).
    """
    if noise_multiplier == 0 or multipliers_suffice(queries, noise_multiplier):
        return weights
    excess = noise_multiplier * influence(queries, weights, norms)
    factor = excess.reciprocal().where(excess > 1 + _TOLERANCE, 1.0)
    return [weight * factor for weight in weights]


def multipliers_suffice(queries: Sequence[Query], noise_multiplier: float) -> bool:
    """Whether sum_k z_k^-2 <= nu^-2: then the bounds of the queries bound them jointly too."""
    if not all(q.noise_multiplier > 0 for q in queries):
        return False
    return math.fsum((noise_multiplier / q.noise_multiplier) ** 2 for q in queries) <= 1 + _TOLERANCE


def split_words(multipliers: Mapping[str, float]) -> str:
    """A strategy's noise multipliers in a line; queries that are numbered and alike are named together.

    >>> split_words({"gradient": 1.01, "direction": 7.124})
    'gradient 1.01, direction 7.124'
    >>> split_words({"gradient": 1.01, "bin_0": 7.124, "bin_1": 7.124, "bin_2": 7.124})
    'gradient 1.01, bin_0 to bin_2 7.124'
    """
    alike = itertools.groupby(multipliers, key=lambda name: (re.sub(r"_\d+$", "_", name), multipliers[name]))
    groups = [(list(names), z) for (_, z), names in alike]
    return ", ".join(
        f"{names[0]} {z:.4g}" if len(names) == 1 else f"{names[0]} to {names[-1]} {z:.4g}" for names, z in groups
    )

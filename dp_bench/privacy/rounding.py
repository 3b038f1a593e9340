"""How much rounding can add to one example's influence on a released sum, and the noise that pays for it. No torch.

A query bounds what one example contributes to an exact sum. Training computes that sum in floating point, where one
example can also decide how all the others are rounded. The bound that holds for what is computed:

    |S^(D') - S^(D)| <= (1 + ROUNDING) bound      for any two batches D, D' that differ by one example,

and for all sums of one step, each over the standard deviation s_k = z_k bound_k of its noise, a joint sensitivity
(`dp_bench.privacy.query.influence`) of at most (1 + `rounding`) / nu.

Proof. Let u = 2^-24 and U = 2^-53 be the unit roundoffs of single and double precision, and gamma_k = k u / (1 - k u)
(Higham 2002, lemma 3.1: a number that went through k roundings is off by a factor within 1 +- gamma_k, in whatever
order a BLAS multiplies and adds). Example i contributes c_i = w_i g_i, and n examples are in the batch.

1. Norms are sums of at most 128 squares in single precision, their sums in double. A computed |g_i|^2 went through at
   most 131 roundings (a product of two such sums, an outer product's, through twice as many), so it is too small by a
   factor of at most 1 - 2 gamma_131, and |c_i| <= (1 + 1e-5) bound. Squares that underflow are compensated.
2. A sum is made of J chunks of at most m examples. A product w_i g_i goes through 3 roundings, its chunk's sum through
   m - 1, the totals through J, putting a pair of sums together through 3, the division by B through 2. So each
   coordinate of S^ is off by at most gamma_(m + J + 7) sum_i |c_i|, and S^ by gamma_(m + J + 7) n bound in the 2-norm.
   With totals in double only the first m + 2 roundings are single; with products in double, none is.
   `summation` chooses chunk and precisions so that this is at most SUM_ERROR bound, for either batch.
3. Scalar sums are in double throughout: n U, less than any of the above. By the joint bound no contribution exceeds
   s_k / nu, so over its s_k a sum is off by n U / nu, and K of them by K^(1/2) n U / nu: for both batches together less
   than 1e-5 / nu up to K = 4e7, n being at most 6.6e6.
4. Noise is made in single precision from uniforms of 32 bits and more: its scale is right to 1e-5. It is added in the
   totals' precision, and rounding the result is post-processing.

Together |S^(D') - S^(D)| <= (1 + 1e-5) bound + 2 SUM_ERROR bound, and noise of the right scale to 1e-5: ROUNDING covers
both, for one query.

5. Several queries. All weights of an example are taken at its computed norm n^, so that by step 1 its exact
   contributions move the whitened release by at most (1 + 1e-5) s(n^) <= (1 + 1e-5) / nu, jointly. To this each
   computed vector sum adds its own rounding, whatever the example contributes to it: 2 SUM_ERROR bound_k / s_k =
   2 SUM_ERROR / z_k, together at most 2 SUM_ERROR (sum_k z_k^-2)^(1/2) over the vector queries. In units of 1/nu that
   is 2 SUM_ERROR nu (sum_k z_k^-2)^(1/2). Where the multipliers compose to nu this is 2 SUM_ERROR again; where only
   the joint sensitivity is 1/nu, it can be more (AdaSig: 1.21 times).

`release` multiplies every standard deviation by 1 + `rounding`, so a step is a Gaussian mechanism of the multiplier
that was accounted for, at any batch size, sampling rate and number of queries.

What this takes as given: the gradient that the passes through the model compute for an example does not depend on
which other examples are in the batch. `dp_bench.mechanism.clipping.isolated` says why that is not a matter of course.

- Proven: an example that is computed alone, in memory of its own, has the same gradient in every batch.
- Measured: whether a model's passes over many examples have this property, to the bit, is tried on the machine, with
  the threads and for the shapes at hand before its first batch. A model that fails is computed one example at a time.
  With torch 2.13, MKL and AVX-512, on one and two threads, the three models of the paper pass, as do widths of 64 and
  300 with any activation, LayerNorm and attention; widths of 5 and 21 fail with every activation, ReLU included, and so
  do a few small convolutional networks. `dp_bench.testing.isolation` tries the paper's models and one that fails at
  other sizes and places.
- Refused: products that torch is told to round to fewer bits (TF32, bfloat16; `clipped_sums` looks before each batch).
- Neither: attacks on the low bits of floating-point noise.
"""

import functools
import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

from dp_bench.errors import invalid
from dp_bench.privacy.query import Query

SINGLE, DOUBLE = 2.0**-24, 2.0**-53  # unit roundoffs
SUM_ERROR = 4.9e-3  # of a query's bound, for one batch
ROUNDING = 2 * SUM_ERROR + 1e-4
"""The share of its bound by which rounding may raise one example's influence; noise is larger by as much."""

_TOLERANCE = 1e-9  # multipliers that compose to nu do so up to the last bits

_SMALLEST_CHUNK = 8  # products over fewer examples take longer than products in double precision


def rounding(queries: Iterable[Query], noise_multiplier: float | None) -> float:
    """By how much the noise of one step must be larger: 2 SUM_ERROR max(1, nu (sum_k z_k^-2)^(1/2)) + 1e-4.

    The z_k are those of its vector queries, nu the multiplier that all queries together are accounted for. ROUNDING
    where the z_k compose to nu or more, or where each query is accounted for by itself (None).
    """
    if not noise_multiplier:
        return ROUNDING
    multipliers = [q.noise_multiplier for q in queries if q.kind == "vector"]
    share = math.sqrt(math.fsum((noise_multiplier / z) ** 2 for z in multipliers))
    return ROUNDING if share <= 1 + _TOLERANCE else 2 * SUM_ERROR * share + 1e-4


Precision = Literal["single", "double"]


class Summation(NamedTuple):
    """How a batch is summed: products over `chunk` examples at a time, added to totals."""

    chunk: int
    products: Precision
    totals: Precision


@functools.lru_cache(maxsize=4096)
def summation(examples: int, micro_batch: int) -> Summation:
    """The fastest way to sum so many examples that keeps the error within SUM_ERROR of a query's bound."""
    per_pass = max(1, min(examples, micro_batch))
    for totals, most in (("single", per_pass // 64 + 1), ("double", per_pass // _SMALLEST_CHUNK)):
        for chunks in range(1, most + 1):
            way = Summation(math.ceil(per_pass / chunks), "single", totals)  # type: ignore[arg-type]
            if sum_error(examples, micro_batch, way) <= SUM_ERROR:
                return way
    way = Summation(per_pass, "double", "double")
    if sum_error(examples, micro_batch, way) > SUM_ERROR:
        expected = f"at most about {math.sqrt(SUM_ERROR / DOUBLE):.0e} examples in a batch"
        got = f"{examples}: sums of more lose their sensitivity to rounding"
        raise invalid("train.batch_size", expected, got, "lower it")
    return way


def sum_error(examples: int, micro_batch: int, way: Summation) -> float:
    """How far a computed sum may be from the exact one, in units of its query's bound (step 2 of the proof)."""
    passes = math.ceil(examples / micro_batch)
    chunks = passes * math.ceil(min(examples, micro_batch) / way.chunk)
    roundings = {"single": 0, "double": 0}
    roundings[way.products] += way.chunk + 2
    roundings[way.totals] += chunks + 5
    return examples * (_gamma(roundings["single"], SINGLE) + _gamma(roundings["double"], DOUBLE))


def _gamma(roundings: int, unit: float) -> float:
    """k u / (1 - k u)"""
    return roundings * unit / (1 - roundings * unit) if roundings * unit < 1 else math.inf

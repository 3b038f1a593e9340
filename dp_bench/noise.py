"""The only code that adds noise."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dp_bench.queries import Query, Released


def release(
    sums: Mapping[str, Tensor], queries: Sequence[Query], batch_size: int, generator: torch.Generator
) -> Released:
    """(sum + noise_multiplier * bound * N(0, I)) / B, every query with noise of its own.

    B is the nominal batch size: the drawn size is private. An empty batch has zero sums and gets the same noise.
    """
    return {query.name: _noisy(sums[query.name], query, generator) / batch_size for query in queries}


def _noisy(exact: Tensor, query: Query, generator: torch.Generator) -> Tensor:
    if query.noise_multiplier == 0:  # the non-private baseline: its bound is infinite, and inf * 0 is not 0
        return exact
    # float64, whose Box-Muller reaches 8.6 standard deviations: float32's ends at 5.77, and a value past that would
    # give an example away more often than delta allows (29 times as often on the paper's loosest grids).
    normal = torch.empty_like(exact, dtype=torch.float64).normal_(generator=generator)
    return exact + normal.mul_(query.noise_multiplier * query.bound).to(exact.dtype)

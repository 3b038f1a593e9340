"""Clipped sums: the only code that sees per-example gradients."""

from dp_bench.mechanism.clipping.flat import FlatModel
from dp_bench.mechanism.clipping.sums import clipped_sums, gather

__all__ = ["FlatModel", "clipped_sums", "gather"]

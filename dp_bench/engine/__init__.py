"""Clipped sums: the only code that sees per-example gradients."""

from dp_bench.engine.flat import FlatModel
from dp_bench.engine.sums import clipped_sums

__all__ = ["FlatModel", "clipped_sums"]

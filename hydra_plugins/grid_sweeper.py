"""Hydra 1.3 takes plugins from this namespace only; the code is dp_bench/sweep/sweeper.py."""

from dp_bench.sweep import sweeper


class GridSweeper(sweeper.GridSweeper):
    __doc__ = sweeper.GridSweeper.__doc__


class NotInstalled(sweeper.NotInstalled):
    __doc__ = sweeper.NotInstalled.__doc__

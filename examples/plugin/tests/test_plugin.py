from dp_bench_plugin.nsgd import NSGD

from dp_bench.testing import check_strategy


def test_nsgd() -> None:
    check_strategy(NSGD)
    check_strategy(NSGD, r=1e-3, clip=0.1)

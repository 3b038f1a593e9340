"""`dp-bench audit`: refute the privacy claims of the code that is installed here, or fail to."""

import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dp_bench.arguments import command_parser
from dp_bench.files.checksummed import write_checksummed
from dp_bench.testing.results import AUDIT, Audit

DEFAULT = Path("runs") / AUDIT
QUICK_MINUTES = 8  # of one core
_EXAMPLES = f"""examples:
  dp-bench audit --quick                             about {QUICK_MINUTES} minutes of one core
  dp-bench audit                                     all of it
  dp-bench audit --strategy online --out /tmp/audit.json

Exit code 1 if a claim is refuted or a planted bug is missed. dp-bench report shows what {DEFAULT} holds.
"""


def main(argv: Sequence[str]) -> int:
    parser = command_parser(
        "audit",
        "Audit the privacy of every strategy on the code path that training takes; then plant known bugs "
        "one by one, which the audit must find.",
        _EXAMPLES,
    )
    parser.add_argument("--quick", action="store_true", help="fewer draws and smaller batches")
    parser.add_argument("--claims", action="store_true", help="the claims only: plant no bugs")
    parser.add_argument("--strategy", help="this one only (default: all that are private)")
    parser.add_argument("--out", type=Path, default=DEFAULT, help=f"where the result is kept (default: {DEFAULT})")
    parser.add_argument("--key", help="names the random generators, to repeat an audit (default: a new one)")
    options = parser.parse_args(argv)
    from dp_bench.testing.audit import run  # loads torch
    from dp_bench.testing.subjects import subjects
    from dp_bench.training.provenance import provenance
    from dp_bench.training.trainer import ARITHMETIC

    subjects(options.strategy)  # refuses an unknown name before any work
    started = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {text}", file=sys.stderr, flush=True)

    key = options.key or secrets.token_hex(8)
    audit = run(key, quick=options.quick, strategy=options.strategy, plant=not options.claims, tell=tell)
    how = {"key": key, "quick": options.quick, "strategy": options.strategy, "arithmetic": ARITHMETIC}
    write_checksummed(options.out, {**audit.to_json(), **how, **provenance("torch", "numpy", "scipy")})
    print("\n".join(lines(audit)))
    print(f"kept in {options.out}")
    return 0 if audit.holds else 1


def lines(audit: Audit) -> list[str]:
    """The result for a terminal: a table of claims, one of planted bugs, a sentence."""
    rows = [
        (f.part, f.subject, f.measured, f.claimed, "holds" if f.holds else "REFUTED", f"{f.seconds:.1f}")
        for f in audit.findings
    ]
    bugs = [
        (bug.name, ", ".join(bug.found_by), f"MISSED: {'; '.join(bug.missed)}" if bug.missed else "found")
        for bug in audit.bugs
    ]
    return [
        *_table(("part", "strategy or layer", "measured", "claimed", "verdict", "s"), rows),
        "",
        *([*_table(("planted bug", "found by", "verdict"), bugs), ""] if bugs else []),
        audit.verdict,
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]

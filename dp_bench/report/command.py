"""`dp-bench report`: what is in runs/ as tables, figures and a page."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dp_bench.cache import write_atomically
from dp_bench.errors import UserError

_EXAMPLES = """examples:
  dp-bench report                                    runs/paper -> reports/paper/index.html
  dp-bench report --profile smoke --out /tmp/report
  dp-bench report --accountants pld,prv              consult these too (a quarter of a minute a grid, once)
  dp-bench report --variant strategy.momentum=0      compare this variant with the paper first
  dp-bench report --profile verify --keep kept       copy the finished runs to kept/verify as well

It works on whatever is there, and says what is missing.
"""
_SLOW_ACCOUNTANTS = ("pld", "prv", "rdp_wor")
_MANIFEST = "files.txt"  # what a report wrote besides its page: the next one removes these, and nothing else


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dp-bench report",
        description="Turn finished runs into tables, figures, a comparison with the paper and one page.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs are (default: runs)")
    parser.add_argument("--profile", default="paper", help="which of them (default: paper)")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="where reports go (default: reports)")
    parser.add_argument("--variant", help="the protocol to compare with the paper first (default: default)")
    parser.add_argument(
        "--accountants", default="", help=f"slow ones to consult, of {', '.join(_SLOW_ACCOUNTANTS)}; remembered"
    )
    parser.add_argument("--keep", type=Path, help="copy the finished runs there, without checkpoints and models")
    parser.add_argument("--readme", type=Path, help="write the table of results between the marks of this file")
    options = parser.parse_args(argv)
    asked = [name for name in options.accountants.split(",") if name]
    for name in asked:
        if name not in _SLOW_ACCOUNTANTS:
            raise UserError(f"--accountants: found {name!r}, expected any of {', '.join(_SLOW_ACCOUNTANTS)}")
    page = make_report(
        options.runs, options.profile, options.out, options.variant, asked, keep=options.keep, readme=options.readme
    )
    print(f"kept in {page}")
    return 0


def make_report(
    runs: Path,
    profile: str,
    out: Path,
    variant: str | None = None,
    asked: Sequence[str] = (),
    *,
    keep: Path | None = None,
    readme: Path | None = None,
) -> Path:
    """Write `out`/`profile`/ and return its page; copy the finished runs to `keep`, their table into `readme`."""
    # Help must not wait for pandas and matplotlib.
    from dp_bench.report import html
    from dp_bench.report.build import build
    from dp_bench.report.collect import collect
    from dp_bench.report.draw import save_all
    from dp_bench.report.guarantee import with_guarantees
    from dp_bench.report.keep import copy_runs
    from dp_bench.report.names import plural
    from dp_bench.report.readme import check as check_readme
    from dp_bench.report.readme import update as update_readme
    from dp_bench.report.results import sections
    from dp_bench.report.table import Table
    from dp_bench.report.write import write

    if readme is not None:
        check_readme(readme)
    if keep is not None and keep.resolve() == runs.resolve():
        raise UserError(f"--keep: found {keep}, where the runs are, expected another folder")
    started = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {text}", file=sys.stderr)

    collection = collect(runs, profile)
    tell(f"{plural(len(collection.runs), 'run')} read, {plural(len(collection.skipped), 'folder')} skipped")
    for skipped in collection.skipped[:5]:
        tell(f"skipped {skipped.folder}: {skipped.reason}")
    if variant is not None and variant not in set(collection.runs["variant"]):
        there = ", ".join(sorted(set(collection.runs["variant"])))
        raise UserError(f"--variant: found {variant!r}, expected one of {there}")
    report = build(collection, variant, asked)
    folder = out / profile
    _remove_earlier(folder)
    written = ["data/runs.csv"]
    for chapter in report.chapters:
        place = folder / chapter.folder
        within = f"{chapter.folder}/" if chapter.folder else ""
        tables, charts = chapter.tables(), chapter.charts()
        written += [f"{within}tables/{name}" for table in tables for name in write(table, place / "tables")]
        tell(f"{chapter.title}: {plural(len(tables), 'table')}, {plural(len(charts), 'figure')}")
        save_all(charts, place / "figures")
        written += [f"{within}figures/{chart.name}.{end}" for chart in charts for end in ("png", "pdf")]
    for item in report.provenance.items:
        assert isinstance(item, Table)
        written += [f"tables/{name}" for name in write(item, folder / "tables")]
    write_atomically(folder / _MANIFEST, "".join(f"{name}\n" for name in written).encode())
    runs_with_words = with_guarantees(collection.runs.drop(columns="belongs"))
    write_atomically(folder / "data" / "runs.csv", runs_with_words.to_csv(index=False).encode())
    write_atomically(folder / "index.html", html.page(report, folder).encode())
    if keep is not None:
        copy_runs(collection, keep)
    if readme is not None:
        update_readme(readme, sections(collection.runs, variant))
    tell("done")
    return folder / "index.html"


def _remove_earlier(folder: Path) -> None:
    """What an earlier report wrote: a figure of runs that are gone must not stay."""
    manifest = folder / _MANIFEST
    for name in manifest.read_text().splitlines() if manifest.exists() else ():
        (folder / name).unlink(missing_ok=True)

"""`dp-bench report`: what is in runs/ as tables, figures and a page."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dp_bench.arguments import command_parser
from dp_bench.errors import invalid, unknown
from dp_bench.files import system
from dp_bench.files.names import NAME, one_line
from dp_bench.files.swapped import replaced_folder
from dp_bench.privacy.accountants import ACCOUNTANTS

_EXAMPLES = """examples:
  dp-bench report                                    runs/paper -> reports/paper/index.html
  dp-bench report --profile smoke --out /tmp/report
  dp-bench report --accountants pld,prv              consult these too (15 seconds per grid, once)
  dp-bench report --variant strategy.momentum=0      compare this variant with the paper first

It works on whatever is there, and says what is missing.
"""
_SLOW_ACCOUNTANTS = tuple(name for name, accountant in ACCOUNTANTS.items() if not accountant.quick)


def main(argv: Sequence[str]) -> int:
    what = "Turn finished runs into tables, figures, a comparison with the paper and one page."
    parser = command_parser("report", what, _EXAMPLES)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs are (default: runs)")
    parser.add_argument("--profile", default="paper", help="which of them, or several: quick,verify (default: paper)")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="where reports go (default: reports)")
    parser.add_argument("--variant", help="the protocol to compare with the paper first (default: default)")
    parser.add_argument(
        "--accountants", default="", help=f"slow ones to consult, of {', '.join(_SLOW_ACCOUNTANTS)}; cached"
    )
    parser.add_argument(
        "--reference", type=Path, help="open the page with these runs, for example reports/reference/runs"
    )
    parser.add_argument("--picture", type=Path, help="write the one picture, metric against ε at k = 5, as this PNG")
    parser.add_argument("--appendix", type=Path, help="write claims, commands, minutes, expected output as Markdown")
    parser.add_argument("--readme", type=Path, help="write the table of results between the marks of this file")
    options = parser.parse_args(argv)
    options.accountants = [name for name in options.accountants.split(",") if name]
    for name in options.accountants:
        if name not in _SLOW_ACCOUNTANTS:
            raise unknown("--accountants", name, _SLOW_ACCOUNTANTS)
    print(f"kept in {make_report(**vars(options))}")
    return 0


def make_report(
    runs: Path,
    profile: str,
    out: Path,
    variant: str | None = None,
    accountants: Sequence[str] = (),
    *,
    readme: Path | None = None,
    picture: Path | None = None,
    appendix: Path | None = None,
    reference: Path | None = None,
) -> Path:
    """Write `out`/`profile`/ as a whole and return its page; write the table of results into `readme`, the one
    `picture` and the `appendix` of claims.

    With `reference`, the folder of archived verify runs, the page opens with these.
    """
    # Help must not wait for pandas and matplotlib.
    from dp_bench.report.build import build
    from dp_bench.report.load.collect import collect
    from dp_bench.report.load.sections import sections
    from dp_bench.report.names import plural
    from dp_bench.report.outputs import appendix as appendices
    from dp_bench.report.outputs import picture as pictures
    from dp_bench.report.outputs import readme as readmes
    from dp_bench.report.outputs.frames import frame, harmless
    from dp_bench.report.page import page
    from dp_bench.report.render.pictures import Drawing, save_all
    from dp_bench.report.render.write import write, write_file
    from dp_bench.report.table import Table

    _check_folder(runs, profile, out)
    if readme is not None:
        readmes.check(readme)
    system.check_writable(out)  # before the runs are read, not after
    started = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {one_line(text)}", file=sys.stderr)

    collection = collect(runs, profile)
    tell(f"{plural(len(collection.runs), 'run')} read, {plural(len(collection.skipped), 'folder')} skipped")
    for skipped in collection.skipped[:5]:
        tell(f"skipped {skipped.folder}: {skipped.reason}")
    variants = {run.spec.variant for run in collection.runs}
    if variant is not None and variant not in variants:
        raise unknown("--variant", variant, sorted(variants))
    report = build(collection, variant, accountants, collect(reference, "verify") if reference else None)
    with replaced_folder(out / collection.profile) as folder:
        drawings: list[Drawing] = []
        for chapter in report.chapters:
            place = folder / chapter.folder
            tables, charts = chapter.tables(), chapter.charts()
            for table in tables:
                write(table, place / "tables")
            tell(f"{chapter.title}: {plural(len(tables), 'table')}, {plural(len(charts), 'figure')}")
            drawings += [Drawing(chart, place / "figures", pdf=not chapter.folder) for chart in charts]
        save_all(drawings)
        for item in report.provenance.items:
            assert isinstance(item, Table)
            write(item, folder / "tables")
        write_file(folder / "data" / "runs.csv", harmless(frame(collection.runs)).to_csv(index=False))
        for name, text in page.files_beside(report).items():
            write_file(folder / name, text)
        write_file(folder / "index.html", page.page(report, folder))
    for path, update in ((readme, readmes.update), (picture, pictures.write), (appendix, appendices.write)):
        if path is not None:
            update(path, sections(collection.runs, variant))
    tell("done")
    return out / collection.profile / "index.html"


def _check_folder(runs: Path, profile: str, out: Path) -> None:
    """Refuse names that lead elsewhere, and a report in the place of the runs."""
    first, *_ = profiles = profile.split(",")
    for name in profiles:
        if not NAME.fullmatch(name):
            raise invalid("--profile", "the name of a folder of runs", repr(profile), "for example --profile paper")
        folder, store = (out / first).resolve(), (runs / name).resolve()
        if folder.is_relative_to(store) or store.is_relative_to(folder):
            raise invalid("--out", f"a folder apart from the runs in {runs / name}", out, "choose another")

"""The report as one page that needs nothing else: styles inside, pictures inside, no script."""

import base64
from collections.abc import Iterable
from html import escape
from itertools import groupby
from pathlib import Path

from dp_bench import __version__
from dp_bench.report.build import Chapter, Part, Report
from dp_bench.report.chart import Chart
from dp_bench.report.scorecard import (
    AS_GOOD,
    BETTER,
    NOT_RUN,
    NOT_SEARCHED,
    OTHER_POINT,
    PARTLY_DIVERGED,
    REPRODUCED,
    SAME_POINT,
    WORSE,
)
from dp_bench.report.table import Table

_TALL_ROWS = 30  # beyond this many rows a table scrolls within the page
_LONG_TEXT = 30  # beyond this many letters a cell's text is broken

_CLASSES = {
    **dict.fromkeys((REPRODUCED, SAME_POINT, AS_GOOD, "holds", "holds but for ties"), "verdict-good"),
    BETTER: "verdict-better",
    **dict.fromkeys((WORSE, OTHER_POINT, "does not hold"), "verdict-bad"),
    PARTLY_DIVERGED: "verdict-bad",
    **dict.fromkeys((NOT_RUN, NOT_SEARCHED, "partly"), "verdict-open"),
}


def page(report: Report, folder: Path) -> str:
    """The whole page; the charts' pictures are read from below `folder`."""
    main, *others = report.chapters
    css = Path(__file__).with_name("page.css").read_text()
    title = f"dp_bench: {report.profile}"
    parts = [(f"part-{i}", part) for i, part in enumerate([*main.parts, report.provenance])]
    links = [("summary", "Summary"), *((anchor, part.title) for anchor, part in parts)]
    links += [("others", "Other protocols")] * bool(others)
    contents = "".join(f'<li><a href="#{anchor}">{escape(name)}</a></li>' for anchor, name in links)
    body = [_section(anchor, part, folder / main.folder) for anchor, part in parts]
    if others:
        body.append('<section id="others"><h2>Other protocols</h2>')
        body += [_other(chapter, folder) for chapter in others]
        body.append("</section>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{css}</style></head><body>"
        f"<header><h1>Private grid searches, beside the paper</h1>"
        f'<p class="subtitle">Online Sensitivity Optimization in Differentially Private Learning: profile '
        f"{escape(report.profile)}, dp_bench {__version__}</p></header>"
        f"<nav><ul>{contents}</ul></nav>"
        f"<main>{_summary(report, main)}{''.join(body)}</main>"
        "<footer>Every ε on this page is spent by a whole grid unless it says otherwise; seeds are not charged. Tables "
        "are also in tables/ (Markdown, CSV, LaTeX), figures in figures/ (PNG, PDF), all runs in data/.</footer>"
        "</body></html>\n"
    )


def _summary(report: Report, main: Chapter) -> str:
    counts = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in report.counts.items())
    first, *rest = main.headline
    return (
        f'<section id="summary"><h2>Summary</h2>{_boxes("banner", main.banners)}<dl class="counts">{counts}</dl>'
        f'<p class="headline">{escape(first)}</p>{_list(rest)}</section>'
    )


def _section(anchor: str, part: Part, folder: Path) -> str:
    return f'<section id="{anchor}"><h2>{escape(part.title)}</h2>{_contents(part, folder)}</section>'


def _contents(part: Part, folder: Path) -> str:
    blocks = [_boxes("warning", part.warnings), _list(part.paragraphs)]
    for is_table, items in groupby(part.items, key=lambda item: isinstance(item, Table)):
        if is_table:
            blocks += [_table(item) for item in items if isinstance(item, Table)]
        else:
            pictures = "".join(_picture(item, folder) for item in items if isinstance(item, Chart))
            blocks.append(f'<div class="pictures">{pictures}</div>')
    return "".join(blocks)


def _other(chapter: Chapter, folder: Path) -> str:
    """A variant in short: how it compares, what it reached, what it spent; the rest is in its folder."""
    wanted = {"Scorecard", "Results", "Privacy"}
    parts = [part for part in chapter.parts if part.title in wanted]
    short = []
    for part in parts:
        items = [item for item in part.items if item.name != "scorecard"]
        short.append(_contents(Part(part.title, items=items, warnings=part.warnings), folder / chapter.folder))
    boxes = _boxes("banner", chapter.banners)
    return f"<h3>{escape(chapter.title)}</h3>{boxes}<p>{escape(chapter.headline[0])}</p>{''.join(short)}"


def _picture(chart: Chart, folder: Path) -> str:
    png = base64.b64encode((folder / "figures" / f"{chart.name}.png").read_bytes()).decode()
    text = escape(chart.caption)
    wide = ' class="wide"' if chart.columns > 1 else ""  # several panels in half a page cannot be read
    image = f'<img src="data:image/png;base64,{png}" alt="{text}">'
    return f"<figure{wide}>{image}<figcaption>{text}</figcaption></figure>"


def _table(table: Table) -> str:
    head = ""
    if table.groups:
        spans = "".join(f'<th colspan="{span}" scope="colgroup">{escape(text)}</th>' for text, span in table.groups)
        head = f"<tr>{spans}</tr>"
    columns = "".join(
        f'<th scope="col"{_class_of("", i, table)}>{escape(text)}</th>' for i, text in enumerate(table.columns)
    )
    rows = "".join(
        "<tr>" + "".join(f"<td{_class_of(text, i, table)}>{escape(text)}</td>" for i, text in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    tall = " tall" if len(table.rows) > _TALL_ROWS else ""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    # Focusable, so that the keyboard can scroll it.
    return (
        f'<figure class="table"><figcaption>{escape(table.caption)}</figcaption>'
        f'<div class="scroll{tall}" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table>'
        f"<thead>{head}<tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>{notes}</figure>"
    )


def _class_of(text: str, column: int, table: Table) -> str:
    classes = ["text"] if column in table.text_columns else []
    if len(text) > _LONG_TEXT:
        classes.append("long")
    verdict = _CLASSES.get(text.partition(" (")[0])  # without "(tuned)" or "(of those run)"
    if verdict:
        classes.append(verdict)
    return f' class="{" ".join(classes)}"' if classes else ""


def _boxes(kind: str, texts: Iterable[str]) -> str:
    return "".join(f'<p class="{kind}" role="note">{escape(text)}</p>' for text in texts)


def _list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""

"""The tables of step.py's rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from contenders import FIXED_THRESHOLD, GHOST, ONLINE, PER_EXAMPLE, PLAIN, RIVALS, SAME_LAYOUT
from floor import FLOOR

from dp_bench.report.table import Column, Table

Row = dict[str, Any]


def steps_table(rows: Sequence[Row]) -> Table:
    numbers = ("ms", "quartiles", "× plain", "× our layout", "peak MB", "× plain", "of sgemm", "clipped", "turns")
    return Table(
        name="steps",
        caption="One training step, batch size 512: median milliseconds, and ratios of neighbours in time",
        head=("model", Column("threads", "number"), "step", *(Column(heading, "number") for heading in numbers)),
        rows=[_cells(row) for row in rows],
        notes=(
            "Peak MB: what half a second of steps, three or more, adds to the resident set once libraries are loaded. "
            "Of sgemm: the floating-point operations of a plain step's forward and backward pass per second, as a "
            "fraction of a 1024³ matrix product's. Clipped: the share of examples after the last step. The floor is "
            "computed from sgemm and copy (floor.py), it is not run.",
            *(f"{r['contender']} does not run the {r['model']}: {r['reason']}" for r in rows if r["reason"]),
        ),
    )


def _cells(row: Row) -> tuple[str, ...]:
    first = (row["model"], str(row["threads"]), row["contender"])
    if row["reason"]:
        return (*first, "does not run", *[""] * 8)
    spread = f"{number(row['ms_low'])} to {number(row['ms_high'])}"
    rest = ("ratio_plain", "ratio_same_layout", "peak_mb", "peak_ratio", "sgemm_fraction", "clipped")
    return (*first, number(row["ms"]), spread, *(number(row.get(key)) for key in rest), str(row.get("turns", "")))


def headline_table(rows: Sequence[Row]) -> Table:
    """Times a plain step. Opacus twice: the modes that could release what Online releases, and ghost clipping."""
    lines = []
    for model, threads in dict.fromkeys((r["model"], r["threads"]) for r in rows):
        ratios = of(rows, model, threads, "ratio_plain")
        per_example = [ratios[name] for name in PER_EXAMPLE if ratios.get(name)]
        ours = (ratios.get(name) for name in (FLOOR, SAME_LAYOUT, FIXED_THRESHOLD, ONLINE))
        rival = strongest_rival(ratios)
        named = (rival or "not measured", number(ratios[rival]) if rival else "")
        milliseconds = number(of(rows, model, threads, "ms").get(PLAIN))
        opacus = (min(per_example, default=None), ratios.get(GHOST))
        lines.append((model, str(threads), milliseconds, *map(number, ours), *named, *map(number, opacus)))
    numbers = ("threads", "plain, ms", FLOOR, "plain, our layout", "FixedThreshold", "Online")
    opacus_headings = ("Opacus, fastest per-example mode", "Opacus, ghost clipping")
    return Table(
        name="headline",
        caption="Times a plain PyTorch step",
        head=(
            "model",
            *(Column(heading, "number") for heading in numbers),
            "strongest rival",
            *(Column(heading, "number") for heading in ("its time", *opacus_headings)),
        ),
        rows=lines,
        notes=("Ghost clipping has no per-example gradients and cannot release the second sum of Online.",),
    )


def strongest_rival(ratios: Mapping[str, float]) -> str | None:
    """Of those that were measured, the fastest."""
    return min((name for name in RIVALS if name in ratios), key=ratios.__getitem__, default=None)


def of(rows: Sequence[Row], model: str, threads: int, key: str) -> dict[str, float]:
    """One number of every contender that has it."""
    here = [row for row in rows if (row["model"], row["threads"]) == (model, threads)]
    return {row["contender"]: row[key] for row in here if row.get(key) is not None}


def number(value: float | None) -> str:
    """Three digits; nothing where there is none."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"

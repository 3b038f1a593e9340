"""Colours, markers and dashes of what is drawn. A strategy may declare its colour; the rest follows from its name."""

import zlib
from dataclasses import dataclass
from typing import Any

from dp_bench.strategies import STRATEGIES


@dataclass(frozen=True)
class Look:
    """Colours of Okabe and Ito, which the colour-blind can tell apart; markers and dashes do so without colour."""

    color: str
    marker: str = "o"
    dashes: Any = "-"


_LOOKS: dict[str, Look] = {
    # Budgets, t: from dark to light, and from solid to dotted.
    "epsilon0": Look("#30123B", "o", "-"),
    "epsilon1": Look("#3B6FB6", "s", (0, (6, 1.5))),
    "epsilon2": Look("#1FA187", "^", (0, (4, 1.5, 1, 1.5))),
    "epsilon3": Look("#E08E0B", "D", (0, (1.2, 1.2))),
    "epsilon4": Look("#B0413E", "v", (0, (3, 1.2, 1, 1.2, 1, 1.2))),
    "chosen": Look("#000000", "*", "-"),
}
# For a strategy without a colour of its own.
_COLORS = ("#882255", "#999933", "#6699CC", "#AA4499", "#117733", "#CC6677", "#44AA99", "#663333")
_MARKERS = ("o", "s", "^", "D", "", "v", "P", "X", "p", "h", "<", ">", "d", "8")
_DASHES = (
    "-",
    (5, 1.5),
    (5, 1.5, 1, 1.5),
    (1.2, 1.2),
    (8, 3),
    (3, 1),
    (7, 1, 1, 1),
    (2, 1),
    (4, 2),
    (3, 1, 1, 1, 1, 1),
    (9, 1),
    (1, 3),
    (6, 1, 2, 1),
    (2, 2, 1, 2),
)


def look_of(name: str) -> Look:
    """Of a series: one listed above, or a strategy's. The built-in ones' markers and dashes follow their order."""
    if name in _LOOKS:
        return _LOOKS[name]
    if name not in STRATEGIES:
        return Look("#777777", "X", (0, (2, 1)))
    # Of any other, they follow from its name alone: installing another package must not change them.
    built_in = STRATEGIES.built_in
    place = built_in.index(name) if name in built_in else len(built_in) + zlib.crc32(name.encode())
    color = vars(STRATEGIES[name]).get("color") or _COLORS[place % len(_COLORS)]
    dashes = _DASHES[place % len(_DASHES)]
    marker = _MARKERS[place % len(_MARKERS)] or "*" * (name not in built_in)
    return Look(color, marker, dashes if dashes == "-" else (0, dashes))


def drawing_order() -> list[str]:
    """Of a legend: strategies first."""
    return [*STRATEGIES, *_LOOKS]

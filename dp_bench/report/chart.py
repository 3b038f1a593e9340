"""A figure as plain data: what is drawn, before any drawing library sees it. Tests read these."""

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Literal

from dp_bench.report.epsilon_notes import budget_words
from dp_bench.report.load.results import Grid

# Beyond so many standard deviations a mark is drawn at the edge: one outlier must not flatten the rest.
FAR = 12.0

Kind = Literal["line", "bars", "points", "level"]


@dataclass(frozen=True)
class Series:
    """Values to draw. `low` and `high` are the ends of error bars, or the edges of a band around a line."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Kind = "line"  # bars: markers with error bars, joined; points: markers alone; level: a line at y[0]
    look: str = ""  # a strategy's name, or epsilon0, epsilon1, ... for the budgets in ascending order
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    hollow: bool = False
    named_at_end: bool = False  # its label stands at its last point, not in the legend

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (self.x, self.y, self.low, self.high) if values is not None}
        if len(lengths) != 1:
            raise ValueError(f"{self.label}: expected x, y, low and high of one length, got {sorted(lengths)}")


@dataclass(frozen=True)
class HeatMap:
    """A matrix over two axes of a grid, `values[row of y][column of x]`; None if absent."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[tuple[float | None, ...], ...]
    diverged: frozenset[tuple[int, int]] = frozenset()  # (row, column) of points of which every run diverged
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)  # what stands out -> (row, column)
    higher_is_better: bool = True

    @property
    def not_run(self) -> bool:
        empty = {(r, c) for r, row in enumerate(self.values) for c, value in enumerate(row) if value is None}
        return bool(empty - self.diverged)


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...] = ()
    x_log: bool = False
    y_log: bool = False
    x_ticks: tuple[float, ...] | None = None  # these and no others
    y_names: tuple[str, ...] | None = None  # names at 0, 1, ... from the top
    x_band: tuple[float, float] | None = None  # shaded; marks further out than FAR are drawn at the edge
    y_from: float | None = None  # where the axis begins, if not where the data do
    heat_map: HeatMap | None = None


@dataclass(frozen=True)
class Chart:
    name: str  # of its files
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 1
    panel_size: tuple[float, float] = (4.8, 3.3)  # inches
    share_y: bool = False
    grids: InitVar[Sequence[Grid] | None] = None  # of ours in it: what its epsilons mean follows from them
    meaning: str = field(init=False, repr=False, default="")  # of its epsilons; not drawn

    def __post_init__(self, grids: Sequence[Grid] | None) -> None:
        if grids is None and any("ε" in text for text in self._texts()):
            raise ValueError(f"{self.name}: expected the grids whose ε it shows, got none")
        object.__setattr__(self, "meaning", budget_words(grids) if grids else "")

    def _texts(self) -> Iterator[str]:
        yield self.caption
        for panel in self.panels:
            yield from (panel.title, panel.x_label, panel.y_label, *(panel.y_names or ()))
            yield from (series.label for series in panel.series)

    @property
    def text(self) -> str:
        """The caption, and what its epsilons mean."""
        return f"{self.caption.rstrip()} {self.meaning}".rstrip()

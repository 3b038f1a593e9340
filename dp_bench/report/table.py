"""A table: columns that know how their values are printed, and rows of values. `dp_bench.report.render` writes it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Any, Literal, NamedTuple

from dp_bench.files.names import one_line
from dp_bench.privacy.accounting import rounded_up
from dp_bench.report import names
from dp_bench.report.epsilon_notes import budget_words
from dp_bench.report.load.results import Grid, Key
from dp_bench.tasks import TASKS

_ASCII = {"–": "-", "−": "-", "×": "x ", "±": "+-", "∞": "inf", "²": "^2", "†": "", "‡": "", **names.GREEK}


def decimals(value: float) -> str:
    return f"{value:z.2f}".replace("-", "−")


def mean_and_sd(values: Iterable[float | None] | None) -> str:
    return " ± ".join(decimals(value) for value in values or () if value is not None)


# Of a column's values. Text is printed as it is in any column, None as nothing.
_PRINTED: dict[str, Callable[[Any], str]] = {
    "text": str,
    "code": str,  # a command
    "verdict": str,  # text that stands out on the page
    "number": str,  # whatever is compared by its digits: 5, "3 of 5"
    "count": "{:,}".format,
    "metric": decimals,  # in the unit that it is printed in: `printed`
    "mean and sd": mean_and_sd,
    "interval": lambda ends: " to ".join(map(decimals, ends)),
    "deviations": names.deviations,
    "probability": lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}",
    "fraction": "{:.2f}".format,
    "hyperparameter": names.number,
    "budget": names.epsilon,  # an epsilon that was set
    "spent": rounded_up,  # an epsilon that was computed
}


class Marked(NamedTuple):
    """A value with a mark that the table's notes explain. A CSV has no notes, and says it in `guarantees`."""

    value: Any
    mark: str = ""
    opens: str = ""  # the folder of the grid whose runs the page opens there


@dataclass(frozen=True)
class Column:
    heading: str
    kind: str = "text"
    group: str = ""  # a heading over this column and its neighbours of the same group

    def __post_init__(self) -> None:
        if self.kind not in _PRINTED:
            raise ValueError(f"{self.heading}: expected a kind of {', '.join(_PRINTED)}, got {self.kind}")

    @property
    def align(self) -> Literal["left", "right"]:
        return "left" if self.kind in ("text", "code", "verdict") else "right"

    def printed(self, value: Any) -> str:
        if isinstance(value, Marked):
            return self.printed(value.value) + value.mark
        return "" if value is None else one_line(value) if isinstance(value, str) else _PRINTED[self.kind](value)

    def plain(self, value: Any) -> str:
        """For programs: whole numbers without separators, no marks, ASCII."""
        value = value.value if isinstance(value, Marked) else value
        return str(value) if type(value) is int else in_ascii(self.printed(value))


@dataclass(frozen=True)
class Table:
    """A heading that is a str is a column of text."""

    name: str  # of its files, and its LaTeX label
    caption: str
    head: Sequence[Column | str]
    rows: Sequence[Sequence[Any]]
    notes: tuple[str, ...] = ()
    grids: Sequence[Sequence[Grid]] | None = None  # of ours in each row: what its epsilons mean follows from them
    remarks: tuple[str, ...] = ()  # on each row, for a CSV, which has no notes and is passed on alone
    in_paper: bool = False  # in the paper's layout: written as LaTeX, too

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows} | {len(self.head)}
        if len(widths) != 1:
            raise ValueError(f"{self.name}: expected rows as wide as the columns, got {sorted(widths)}")
        for name, of_rows in (("grids", self.grids), ("remarks", self.remarks or None)):
            if of_rows is not None and len(of_rows) != len(self.rows):
                raise ValueError(f"{self.name}: expected {name} of {len(self.rows)} rows, got {len(of_rows)}")
        if self.rows and self.grids is None and self._shows_epsilons:
            raise ValueError(f"{self.name}: expected the grids of each row, as it shows their ε, got none")

    @property
    def _shows_epsilons(self) -> bool:
        texts = [text for column in self.columns for text in (column.heading, column.group)]
        named = any("ε" in text or "epsilon" in text for text in (self.caption, *texts, *chain(*self.cells)))
        return named or any(column.kind in ("budget", "spent") for column in self.columns)

    @cached_property
    def footnotes(self) -> tuple[str, ...]:
        """The notes, and what the epsilons of all rows mean."""
        ours = [grid for grids in self.grids or () for grid in grids]
        return (*self.notes, budget_words(ours)) if ours else self.notes

    @cached_property
    def guarantees(self) -> tuple[str, ...]:
        """What the epsilon of each row means, for a CSV."""
        if self.grids is None:
            return ()
        words = [budget_words(grids) if grids else "not run" for grids in self.grids]
        return tuple(
            f"{text} {remark}".strip() for text, remark in zip(words, self.remarks or [""] * len(words), strict=True)
        )

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(one) if isinstance(one, str) else one for one in self.head)

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(column.heading for column in self.columns)

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Headings over several columns, as (text, number of columns), covering all of them; none if none is named."""
        spans = [(text, len(list(members))) for text, members in groupby(column.group for column in self.columns)]
        return tuple(spans) if any(text for text, _ in spans) else ()

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows as they are printed."""
        return tuple(tuple(c.printed(v) for c, v in zip(self.columns, row, strict=True)) for row in self.rows)

    def opens(self, row: int, column: int) -> str:
        value = self.rows[row][column]
        return value.opens if isinstance(value, Marked) else ""


Row = Mapping[Column | str, Any]  # values by column
K, EPSILON = Column("k", "number"), Column("ε", "budget")


def by_column(rows: Sequence[Row]) -> tuple[list[Column | str], list[list[Any]]]:
    """The head and the rows of a table, of rows that name their columns, all of them the same ones."""
    return [*rows[0]], [[*row.values()] for row in rows]


def place(key: Key) -> Row:
    """The columns that say which grid."""
    return {
        "data set": names.dataset(key.dataset),
        "strategy": names.strategy(key.strategy),
        K: key.k,
        EPSILON: key.epsilon,
    }


def budget_place(key: Key) -> Row:
    """The same in a table about budgets, of one data set."""
    return {"strategy": names.strategy(key.strategy), K: key.k, Column("ε budget", "budget"): key.epsilon}


def printed(dataset: str, value: float | None) -> float | None:
    """A metric in the unit that it is printed in: accuracy in percent, for example."""
    return None if value is None or value != value else TASKS[dataset].scale * value


def printed_pair(dataset: str, mean: float | None, sd: float | None) -> tuple[float | None, float | None] | None:
    """A mean and its standard deviation, likewise; None without a mean."""
    return None if mean is None else (printed(dataset, mean), printed(dataset, sd))


def in_ascii(text: str) -> str:
    """As programs that read CSVs like it."""
    return "".join(_ASCII.get(letter, letter) for letter in text)

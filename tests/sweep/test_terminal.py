"""Tables on a terminal and elsewhere, names without variants, curves in one line."""

import io
import math
from dataclasses import replace

import pytest
from report_helpers import synthetic_spec

from dp_bench.sweep.terminal import as_lines, console, plain_table, print_table, rich_table, short_names, sparkline

HEADINGS = ("data set", "k", "best")
ROWS = [["mnist", "5", "91.2"], ["[red]mine[/red]", "7", "-"]]


def test_without_a_terminal_lines_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEADINGS, ROWS)
    told = capsys.readouterr().out
    assert told.splitlines() == plain_table(HEADINGS, ROWS)
    assert "\x1b" not in told
    assert plain_table(HEADINGS, ROWS)[1].split() == ["mnist", "5", "91.2"]
    assert as_lines(HEADINGS, ROWS) == plain_table(HEADINGS, ROWS)


@pytest.mark.parametrize("no_color", [True, False])
def test_a_terminal_has_colors_unless_no_color_says_no(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1") if no_color else monkeypatch.delenv("NO_COLOR", raising=False)
    file = io.StringIO()
    shown = console(file)
    shown.print(rich_table(("grid", "failed"), [["mnist", "3"]]))
    assert ("\x1b[31m" in file.getvalue()) is not no_color
    shown.print(rich_table(HEADINGS, ROWS))
    assert "[red]mine[/red]" in file.getvalue(), "a name is not markup"


def test_names_say_no_more_of_a_variant_than_tells_grids_apart() -> None:
    long = synthetic_spec(variant="dataset.limit=6000,train.epochs=1.6", lr=0.3162)
    assert short_names([long]) == {str(long.grid_folder): ("mnist", "online", "5", "3", "")}
    other = synthetic_spec(variant="dataset.limit=6000,strategy.momentum=0,train.epochs=1.6", lr=0.3162)
    assert list(map(str, short_names([long, other]).values())) == [
        "mnist/online/k5/eps3",
        "mnist (strategy.momentum=0)/online/k5/eps3",
    ]
    default = synthetic_spec(lr=0.3162)
    assert len(set(short_names([default, replace(default, profile="quick")]).values())) == 2
    assert short_names([default, other])[str(default.grid_folder)].dataset == "mnist (default)"


def test_an_epsilon_that_is_not_a_guarantee_is_marked() -> None:
    spec = synthetic_spec(variant="privacy.accountant=rdp_wor", accountant="rdp_wor", lr=0.3162)
    (name,) = short_names([spec]).values()
    assert name.cells == ["mnist", "online", "5", "3 (rdp_wor: not private)"]
    assert str(name) == "mnist/online/k5/eps3"


def test_sparkline() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, math.nan, 2]) == "▁ █"
    assert sparkline([]) == sparkline([math.inf]) == ""
    assert len(sparkline(list(range(1000)))) == 60

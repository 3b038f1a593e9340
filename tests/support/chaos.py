"""Every system call of every kind of work, each failing in every way: `make chaos`, and a sample in the ordinary tests.

After each fault the same work is done again, without faults: it must end in the same bits. What failed with an error,
and was not killed, must have said so in one line.
"""

import contextlib
import io
import itertools
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults import FAULTS, Faults, applies, intercepted_in_a_child
from running import contents

from dp_bench.errors import JobsFailed, failure_of
from dp_bench.files import system

Work = Callable[[Path], None]


@dataclass(frozen=True)
class Scenario:
    """Work in a folder, what there was before it, and what it must leave."""

    name: str
    work: Work
    prepare: Work = lambda folder: None
    result: Callable[[Path], dict[str, bytes]] = contents
    # What must hold after a fault, before the work is done again.
    always: Callable[[Path], bool] = lambda folder: True

    def run(self, folder: Path) -> int:
        """As the command line would: one line and a code for what the user can fix."""
        try:
            failure = failure_of(lambda: self.work(folder))
        except JobsFailed as error:  # one line per job
            print(f"dp-bench: {str(error).splitlines()[-1]}", file=sys.stderr)
            return 1
        if failure is not None:
            print(f"dp-bench: {failure}", file=sys.stderr)
        return 0 if failure is None else failure.exit_code


@dataclass
class Outcome:
    points: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    told: int = 0  # failed, in one line
    survived: int = 0  # a fault that cost nothing: a cache that was not written, a short write
    lost: list[str] = field(default_factory=list)  # the same work again did not end
    changed: list[str] = field(default_factory=list)  # it ended in other bits
    untold: list[str] = field(default_factory=list)  # anything but one line
    broken: list[str] = field(default_factory=list)  # halves were to be seen

    def lines(self) -> list[str]:
        rows = [f"  {name}: {self.points[name]} points, {self.injected[name]} faults" for name in self.points]
        return [
            *rows,
            f"{self.points.total()} points enumerated, {self.injected.total()} faults injected: {self.killed} kills "
            f"and losses of power, {self.told} errors told in one line, {self.survived} without consequence",
            f"{len(self.lost)} runs lost, {len(self.changed)} results changed, {len(self.untold)} errors not told in "
            f"one line, {len(self.broken)} halves seen",
        ]

    @property
    def problems(self) -> list[str]:
        return [*self.lost, *self.changed, *self.untold, *self.broken]

    @property
    def clean(self) -> bool:
        return not self.problems

    def add(self, other: "Outcome") -> None:
        """Everything of another walk."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def walk(scenarios: list[Scenario], choose: Callable[[int], bool] = lambda number: True) -> Outcome:
    """Inject every fault at every point of the scenarios that `choose` picks, by its number."""
    outcome, numbers = Outcome(), itertools.count()
    for scenario in scenarios:
        with tempfile.TemporaryDirectory() as place:
            before, reference = Path(place) / "before", Path(place) / "reference"
            before.mkdir()
            scenario.prepare(before)
            counting = Faults()
            for listing in (Faults(), counting):  # the first time it also fills the cache
                shutil.rmtree(reference, ignore_errors=True)
                shutil.copytree(before, reference, symlinks=True)
                with system.intercepted(listing):
                    assert scenario.run(reference) == 0
            expected = scenario.result(reference)
            outcome.points[scenario.name] = len(counting.calls)
            for at, (call, path) in enumerate(counting.calls):
                for fault in FAULTS:
                    if applies(fault, call) and choose(next(numbers)):
                        title = f"{scenario.name}, call {at} ({call} {path}), {fault}"
                        folder = Path(place) / "now"
                        shutil.copytree(before, folder, symlinks=True)
                        _inject(scenario, folder, Faults(fault, at), title, expected, outcome)
                        shutil.rmtree(folder)
    return outcome


def _inject(
    scenario: Scenario, folder: Path, faults: Faults, title: str, expected: dict[str, bytes], outcome: Outcome
) -> None:
    said = folder.with_name("said")
    outcome.injected[scenario.name] += 1
    code = intercepted_in_a_child(lambda: scenario.run(folder), faults, said)
    text = said.read_text()
    if code == -signal.SIGKILL:
        outcome.killed += 1
    elif code == 0:
        outcome.survived += 1
    elif code in (1, 2, 3) and len(text.strip().splitlines()) == 1:
        outcome.told += 1
    else:
        outcome.untold.append(f"{title}: exit code {code}, {text[-300:]!r}")
    if not scenario.always(folder):
        outcome.broken.append(title)
    if problem := _again(scenario, folder):
        outcome.lost.append(f"{title}: then {problem}")
    elif (found := scenario.result(folder)) != expected:
        outcome.changed.append(f"{title}: {sorted({name for name, _ in found.items() ^ expected.items()})}")


def _again(scenario: Scenario, folder: Path) -> str | None:
    """The work without faults, in this process, as a fork costs more than the work; what went wrong, if anything."""
    with io.StringIO() as said, contextlib.redirect_stderr(said), system.intercepted(Faults()):
        try:
            code = scenario.run(folder)
        except Exception as error:
            return repr(error)
        return f"exit code {code}, {said.getvalue()[-300:]!r}" if code else None

"""What is known of a run that was trained: its spec, its result, its evaluations, and where they come from."""

import csv
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dp_bench.errors import DamagedFile, UserError, invalid
from dp_bench.experiment.spec import RunSpec, digest_of
from dp_bench.files.checksummed import RUN_AGAIN
from dp_bench.files.from_json import FOREIGN, from_plain
from dp_bench.privacy.guarantee import LAST_WITH_FLOAT32_SUMS
from dp_bench.tasks import TASKS


@dataclass(frozen=True)
class Evaluation:
    """The metric on the test set after some step; None if it was not finite."""

    step: int
    value: float | None

    @property
    def number(self) -> float:
        return math.nan if self.value is None else float(self.value)


@dataclass(frozen=True)
class UsedData:
    """The data that a run was trained on."""

    kind: str
    where: str
    caveats: list[str]


@dataclass(frozen=True)
class RunResult:
    """What `result.json` stores."""

    digest: str  # of the spec
    status: str  # finished | diverged | stopped
    reason: str | None  # why it diverged, or where it was stopped
    metric: str
    best: Evaluation
    final: Evaluation
    steps_charged: int
    epsilon_run: float | None
    epsilon_grid: float | None
    delta: float | None
    accountant: str | None
    source: UsedData
    no_guarantee: str | None = None
    metrics_sha256: str | None = None  # of the evaluations; results of older versions do not say

    @property
    def diverged(self) -> bool:
        return self.status == "diverged"


@dataclass(frozen=True)
class Provenance:
    """Where and how a run was made, for a reader's eyes: nothing here is compared, and any of it may be missing."""

    commit: str = "unknown"
    host: str = "unknown"
    where: str = ""  # the data were found
    seconds: float = math.nan  # of the last session
    finished: str = ""  # when
    versions: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Any) -> "Provenance":
        """Of whatever shape: a run counts without it."""
        content = stored if isinstance(stored, dict) else {}
        groups = (content.get(name) for name in ("source", "packages", "machine"))
        source, packages, machine = (group if isinstance(group, dict) else {} for group in groups)
        seconds = content.get("seconds_of_last_session")
        return cls(
            commit=str(content.get("commit") or "unknown"),
            host=str(content.get("host", "unknown")),
            where=str(source.get("where", "")),
            seconds=float(seconds) if isinstance(seconds, int | float) else math.nan,
            finished=str(content.get("finished", "")),
            versions={"dp_bench": content.get("dp_bench"), "python": content.get("python"), **packages},
            machine={"processor": content.get("processor"), **machine},
        )

    @property
    def arithmetic(self) -> int:
        """The number of the arithmetic that made the run; one that does not say is from before there was another."""
        found = self.machine.get("arithmetic")
        return found if isinstance(found, int) else LAST_WITH_FLOAT32_SUMS


@dataclass(frozen=True)
class Stored:
    """A run as it is stored, in a folder of its own or as a line of an archive: plain JSON without checksums."""

    folder: str  # relative to the root of the store
    spec: dict[str, Any]
    result: dict[str, Any] | None  # None: unfinished
    metrics: str | None  # the evaluations, as CSV; None: missing
    provenance: Any  # None: missing, or damaged

    def same_run(self, other: "Stored") -> bool:
        """Whether both hold the same training; its machine, and where it was carried out, may differ."""
        return self.metrics == other.metrics and _trained(self) == _trained(other)


def _trained(stored: Stored) -> object:
    result = stored.result and {name: value for name, value in stored.result.items() if name != "source"}
    return digest_of(stored.spec["protocol"]), result


@dataclass(frozen=True)
class RunRecord:
    """One run. What its files say fits together: spec, folder, result and evaluations."""

    spec: RunSpec
    result: RunResult | None  # None: unfinished
    metrics: str  # the evaluations so far, as CSV; "" if they are not known
    provenance: Provenance

    @property
    def folder(self) -> str:
        return str(self.spec.folder)

    @property
    def status(self) -> str:
        return self.result.status if self.result else "unfinished"

    def columns(self) -> dict[str, list[float]]:
        """The evaluations by column, the step among them; nothing where they cannot be read."""
        try:
            return number_columns(self.metrics)
        except FOREIGN:
            return {}


def number_columns(text: str) -> dict[str, list[float]]:
    """The columns of a CSV that holds nothing but numbers under its headings, and at least a row of them."""
    rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(text.splitlines())]
    return {name: [row[name] for row in rows] for name in rows[0]}


def record_of(stored: Stored) -> RunRecord:
    """Raises UserError for what does not fit together, else what looking into JSON of another shape does."""
    spec = RunSpec.from_json(stored.spec)
    result = None if stored.result is None else _checked_result(stored.result, spec)
    spec.check_folder()
    if stored.folder != str(spec.folder):
        raise invalid("folder", "its own run", f"that of {spec.folder}", "move it there")
    if result is not None and result.digest != digest_of(stored.spec["protocol"]):
        raise not_believed("result", "the protocol of its spec", "another protocol")
    check_metrics(spec, result, stored.metrics)
    return RunRecord(spec, result, stored.metrics or "", Provenance.from_json(stored.provenance))


def not_believed(key: str, expected: str, got: object) -> UserError:
    """The error for a stored run that is not what was written, or whose files do not fit together."""
    return invalid(key, expected, got, RUN_AGAIN, DamagedFile)


def check_metrics(spec: RunSpec, result: RunResult | None, metrics: str | None) -> None:
    """Refuse a run without the evaluations that its result was made of, and one that took other steps than its spec
    says, of which its epsilon is: more of them spent more.

    Only a run that diverged, or that halving stopped at the end of a rung, may have ended early.
    """
    if result is not None and result.metrics_sha256 is not None:
        found = None if metrics is None else hashlib.sha256(metrics.encode()).hexdigest()
        if found != result.metrics_sha256:
            got = "none that can be read" if found is None else "something else"
            raise not_believed("metrics", "what fits the checksum in its result", got)
    evaluated = _steps(metrics)
    ends = {max(evaluated)} if evaluated else set()
    last = spec.steps
    if result is not None:
        ends |= {result.final.step, *evaluated[-1:]}
        if result.status == "stopped":
            last = _end_of_rung(spec, result.final.step)
        elif result.diverged and spec.allocation is not None and result.steps_charged != last:
            last = _end_of_rung(spec, result.steps_charged)
        if spec.allocation is not None and result.steps_charged != last:
            raise not_believed("result: steps_charged", f"the {last} of its spec", result.steps_charged)
        if len(ends) > 1:
            got = " and ".join(map(str, sorted(ends)))
            raise not_believed("metrics", "the last step of its result", got)
    for end in ends:
        if end > last or (result is not None and not result.diverged and end < last):
            raise not_believed("metrics", f"evaluations up to step {last}, as its spec says", end)


def _end_of_rung(spec: RunSpec, step: int) -> int:
    """The step, if halving may stop a run there."""
    ends = {spec.steps, *(rung.step for rung in (spec.allocation.rungs if spec.allocation else ()))}
    if step not in ends:
        expected = f"the {' or '.join(map(str, sorted(ends)))} of its spec"
        raise not_believed("result: steps_charged", expected, step)
    return step


def _steps(metrics: str | None) -> list[int]:
    """The steps of the evaluations; empty if they cannot be read."""
    try:
        return [int(row["step"]) for row in csv.DictReader((metrics or "").splitlines())]
    except FOREIGN:
        return []


def _checked_result(stored: Mapping[str, Any], spec: RunSpec) -> RunResult:
    result, task = from_plain(RunResult, stored), TASKS[spec.dataset.name]
    if result.status not in ("finished", "diverged", "stopped") or result.metric != task.metric:
        raise ValueError(f"its result has status {result.status} and metric {result.metric}")
    low, high = task.metric_range
    for which, found in (("best", result.best), ("final", result.final)):
        if found.value is not None and not (math.isfinite(found.value) and low <= found.value <= high):
            expected = f"a number from {low:g} to {high:g}"
            raise not_believed(f"result: {which} {task.metric}", expected, found.value)
    return result

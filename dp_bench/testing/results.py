"""What an audit found, as plain values: written to and read from JSON without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from dp_bench.files.from_json import from_plain

PARTS = {
    "canary": "One step with and without an example at its bound: the claim is mu = 1/nu.",
    "identity": "Whole short runs with the real sampler: the likelihood ratio's mean is 1 if the noise is as claimed.",
    "noise": "The noise of each query in training's own steps: its scale, and that no number of it comes again.",
    "replay": "Neighbouring data sets under the same keys: how far all sums move together, in units of 1/nu.",
    "accumulation": "Examples made so that one decides how all others are rounded: how far it moves a sum.",
    "isolation": "One example more in a batch must not change a bit of the others' norms: thresholds make it a jump.",
    "keys": "Two training sets of one name: their batches and their noise must differ.",
}
FORMAT = 1
AUDIT = "audit.json"  # beside the profiles of a store


@dataclass(frozen=True)
class Finding:
    """One claim that was checked on the code as it is."""

    part: str  # one of PARTS
    subject: str  # a strategy, or the layers and the batch size
    measured: str  # what was measured, with its unit
    value: float | None  # None if it is not finite
    claimed: str  # what it must not exceed or must be
    holds: bool
    seconds: float = 0.0


@dataclass(frozen=True)
class Caught:
    """One planted bug and what found it."""

    bug: str
    subject: str
    part: str | None  # the part that found it; None if it was missed
    measured: str
    what: str  # the bug in one sentence


@dataclass(frozen=True)
class Bug:
    """One planted bug: which parts found it, in what, or where it was missed."""

    name: str
    what: str
    found_by: tuple[str, ...]
    subjects: tuple[str, ...]
    missed: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """Everything that one audit found. It holds if no claim was refuted and no planted bug was missed."""

    findings: tuple[Finding, ...]
    caught: tuple[Caught, ...]
    false_alarm: float  # at most this often, correct code is refuted by one whole audit
    seconds: float

    @property
    def refuted(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.holds)

    @property
    def missed(self) -> tuple[Caught, ...]:
        return tuple(bug for bug in self.caught if bug.part is None)

    @property
    def bugs(self) -> tuple[Bug, ...]:
        """The planted bugs, one after the other."""
        return tuple(
            Bug(
                name=name.replace("_", " "),
                what=next(bug.what for bug in self.caught if bug.bug == name),
                found_by=tuple(dict.fromkeys(b.part for b in self.caught if b.bug == name and b.part is not None)),
                subjects=tuple(dict.fromkeys(b.subject for b in self.caught if b.bug == name)),
                missed=tuple(f"{b.subject}: {b.measured}" for b in self.missed if b.bug == name),
            )
            for name in dict.fromkeys(bug.bug for bug in self.caught)
        )

    @property
    def verdict(self) -> str:
        """The audit in one sentence."""
        bugs = self.bugs
        found = sum(not bug.missed for bug in bugs)
        planted = f"{found} of {len(bugs)} planted bugs found" if bugs else "no bugs planted"
        return (
            f"{len(self.refuted)} of {len(self.findings)} claims refuted; {planted}; {self.seconds:.0f} s. "
            f"Correct code is refuted by at most one audit in {1 / self.false_alarm:,.0f}."
        )

    @property
    def holds(self) -> bool:
        return not self.refuted and not self.missed

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises one of `FOREIGN` if `content` is not an audit of this format."""
        if content["format"] != FORMAT:
            raise ValueError(f"format: expected {FORMAT}, got {content['format']!r}")
        return from_plain(cls, {field.name: content[field.name] for field in fields(cls)})

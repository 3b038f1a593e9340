"""What `dp-bench audit` found on this machine: believed only where its file is whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_bench.errors import UserError
from dp_bench.files.checksummed import read_checksummed
from dp_bench.files.from_json import FOREIGN
from dp_bench.report import names
from dp_bench.report.contents import Part, shown
from dp_bench.report.table import Column, Table
from dp_bench.testing.results import AUDIT, PARTS, Audit


@shown("Audit", 10, main_only=True)
def audited(root: Path) -> Part | None:
    """What the store at `root` knows of an audit; None if there was none."""
    try:
        content = read_checksummed(root / AUDIT)
        audit = Audit.from_json(content)
        paragraphs = [_when(content), audit.verdict, *(f"{part}: {what}" for part, what in PARTS.items()), _LIMITS]
    except FileNotFoundError:
        return None
    except (UserError, OSError, *FOREIGN):
        damage = f"{AUDIT} is damaged or of another version, and was skipped: run dp-bench audit again."
        return Part("Audit", warnings=[damage])
    warnings = [f"REFUTED: {f.part}, {f.subject}: {f.measured}, claimed {f.claimed}." for f in audit.refuted]
    warnings += [f"MISSED, a planted bug: {bug.name}, {'; '.join(bug.missed)}." for bug in audit.bugs if bug.missed]
    return Part("Audit", paragraphs, [_claims(audit), *([_planted(audit)] if audit.bugs else [])], warnings)


_LIMITS = "An audit can refute a claim, never prove it; what it found concerns the code and the machine named here."


def _when(content: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in content["packages"].items())
    extent = "quick audit" if content["quick"] else "full audit"
    strategy = f" of {content['strategy']}" if content["strategy"] else ""
    return (
        f"{extent.capitalize()}{strategy}, finished {content['finished']} at commit "
        f"{names.commit(content['commit'] or 'unknown')}, arithmetic {content['arithmetic']}, "
        f"dp_bench {content['dp_bench']}, {packages}, Python {content['python']}, {content['processor']}."
    )


def _claims(audit: Audit) -> Table:
    return Table(
        "audit",
        "What was audited: what was measured of each claim.",
        ("part", "strategy or layer", "measured", "claimed", Column("verdict", "verdict")),
        [(f.part, f.subject, f.measured, f.claimed, "holds" if f.holds else "does not hold") for f in audit.findings],
    )


def _planted(audit: Audit) -> Table:
    return Table(
        "audit_planted",
        "Bugs that were planted, one at a time, and the parts that found them.",
        ("planted bug", "what it does", "found by", "in"),
        [
            (bug.name, bug.what, "missed" if bug.missed else ", ".join(bug.found_by), ", ".join(bug.subjects))
            for bug in audit.bugs
        ],
    )

"""Text from elsewhere that becomes the name of a folder, a cell of a table or a line on a terminal."""

import re
from typing import Any

# Of a profile: a folder below the store and below the reports.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_NUMBER = re.compile(r"[-+]([\d.]+(e[-+]?\d+)?|inf|nan)( (to|\+-) [-+]?[\d.]+)?", re.IGNORECASE)


def is_plain(name: str) -> bool:
    """Whether it names one folder below another, and nothing else."""
    return name not in ("", ".", "..") and "/" not in name and not _CONTROL.search(name)


def one_line(text: str) -> str:
    """Without line breaks, and without what moves a terminal's cursor or changes the direction of reading."""
    return _CONTROL.sub(" ", text)


def no_formula(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe before what one would."""
    risky = text.startswith(("=", "@")) or (text.startswith(("+", "-")) and not _NUMBER.fullmatch(text))
    return f"'{text}" if risky else text


def short(value: Any) -> str:
    """A value as a part of a folder's name."""
    if isinstance(value, dict):
        return "+".join(f"{k}:{short(v)}" for k, v in sorted(value.items()) if v)
    if isinstance(value, list):
        return "-".join(short(v) for v in value)
    # All its digits: a name stands for one number only.
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)

"""The YAML files of a user's own --config-dir, looked at before Hydra composes them.

A configuration may come from somebody else: it may say what is run, and nothing more. Hydra would import what
`_target_` names and write where `hydra.run.dir` says; an alias that repeats itself would keep it busy for hours. A file
that is not YAML is left to Hydra, which names it if it is chosen.
"""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf._utils import get_yaml_loader

from dp_bench.errors import invalid
from dp_bench.experiment.conf import dotted_values
from dp_bench.experiment.config import boolean_keys
from dp_bench.experiment.overrides import is_for_users

_OPTIONS = ("-cd", "--config-dir", "-cp", "--config-path")
_MOST_ENTRIES = 10_000  # of a folder of configurations
_MOST_VALUES = 10_000  # of a file, with every alias in full
_PACKAGE = re.compile(r"#\s*@package\s+(\S+)")


def check_files(words: Sequence[str]) -> None:
    """Refuse a file in a folder that the command names if it does more than choose what is run."""
    booleans = boolean_keys()
    for place, word in enumerate(words):
        option, separate, folder = word.partition("=")
        if option in _OPTIONS:
            folder = folder if separate else "".join(words[place + 1 : place + 2])
            for path in _files(option, Path(folder)):
                _check_file(path, path.relative_to(folder), booleans)


def _files(option: str, folder: Path) -> Iterator[Path]:
    seen = 0
    for parent, _, names in os.walk(folder, followlinks=True):
        seen += 1 + len(names)
        if seen > _MOST_ENTRIES:
            got = f"more than {_MOST_ENTRIES:,} files in {folder}"
            raise invalid(option, "a folder of configurations", got, "give them a folder of their own")
        yield from (Path(parent) / name for name in names if name.endswith(".yaml"))


def _check_file(path: Path, name: Path, booleans: Collection[str]) -> None:
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.load(text, Loader=get_yaml_loader())
    except UnicodeDecodeError as error:
        raise invalid(str(path), "text in UTF-8", error.reason, "save it as such") from None
    except (yaml.YAMLError, OSError, ValueError, RecursionError):
        return
    if _size(content, {}) > _MOST_VALUES:
        got = "more, with every alias in full"
        raise invalid(str(path), f"at most {_MOST_VALUES:,} values", got, "write what is meant without aliases")
    package = _PACKAGE.search(text)
    where = package[1] if package else ".".join(name.parent.parts)
    prefix = "" if where == "_global_" else f"{where}."
    for key, value in dotted_values(content if isinstance(content, dict) else {}, prefix):
        if not is_for_users(key):
            raise invalid(f"{path}: {key}", "a choice of what is run", "one of Hydra's own keys", "leave it out")
        if key in booleans and isinstance(value, int | float) and not isinstance(value, bool):
            raise invalid(f"{path}: {key}", "true or false", value, "correct it")
    defaults = content.get("defaults") if isinstance(content, dict) else None
    for entry in defaults if isinstance(defaults, list) else ():
        if re.search("@.*hydra", str(entry)):
            raise invalid(f"{path}: defaults", "groups in their own places", entry, "leave it out")


def _size(value: Any, known: dict[int, float]) -> float:
    """How many values there are if every alias is written in full; infinite for one that contains itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = float("inf")  # until its parts are counted
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]

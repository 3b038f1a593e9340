"""conf/, the shipped configuration files: where it is, what a command chooses from, and how keys are written there."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def configuration_folder() -> Path:
    """conf/ of the source tree, or the copy that an installed package carries."""
    package = Path(__file__).parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


@functools.cache
def groups() -> dict[str, frozenset[str]]:
    """The names of each group's files: the folders of conf/, but for Hydra's own."""
    folders = sorted(path for path in configuration_folder().iterdir() if path.is_dir() and path.name != "hydra")
    return {folder.name: frozenset(path.stem for path in folder.glob("*.yaml")) for folder in folders}


def dotted(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Every key of a nested mapping, as it is written on a command line."""
    for name, value in tree.items():
        yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{name}.")


def dotted_values(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The innermost keys of nested mappings and lists, as they are written on a command line, and their values."""
    for name, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        if isinstance(value, Mapping | list) and value:
            yield from dotted_values(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

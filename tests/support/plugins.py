"""Packages of other people, as pip would leave them in a folder: a module or package and its entry points."""

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path


def install(target: Path, name: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """The metadata of a package of this name in `target`: the part of an installation that entry points need."""
    info = target / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, entries in entry_points.items():
        lines += [f"[{group}]", *(f"{entry} = {path}" for entry, path in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def install_project(project: Path, target: Path) -> None:
    """A pure Python project, without network or build tools: its packages, and the entry points of its pyproject."""
    described = tomllib.loads((project / "pyproject.toml").read_text())
    for package in described["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        shutil.copytree(project / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    install(target, described["project"]["name"], described["project"]["entry-points"])

"""conf/, the shipped configuration files: where it is, and what a command chooses from."""

import functools
from pathlib import Path


def configuration_folder() -> Path:
    """conf/ of the source tree, or the copy that an installed package carries."""
    package = Path(__file__).parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


@functools.cache
def groups() -> dict[str, frozenset[str]]:
    """The names of each group's files: the folders of conf/, but for Hydra's own."""
    folders = sorted(path for path in configuration_folder().iterdir() if path.is_dir() and path.name != "hydra")
    return {folder.name: frozenset(path.stem for path in folder.glob("*.yaml")) for folder in folders}

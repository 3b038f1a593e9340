"""Which code, libraries and machine made a result: for a reader's eyes, nothing here is compared."""

import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

_SOURCES = ("dp_bench", "conf", "hydra_plugins", "pyproject.toml", "constraints.txt")  # what a result may depend on


def provenance(*packages: str) -> dict[str, Any]:
    """Of what is finished now, with the versions of these packages."""
    return {
        "dp_bench": metadata.version("dp_bench"),
        "commit": source_commit(),
        "packages": {package: metadata.version(package) for package in packages},
        "python": platform.python_version(),
        "processor": platform.processor() or platform.machine(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def source_commit(source_tree: Path = Path(__file__).parents[2]) -> str | None:
    """The commit of the source tree, "+" if it was changed since; None for an installed package."""
    if not (source_tree / "pyproject.toml").exists():  # installed, perhaps below another project's repository
        return None
    # A new strategy or configuration file is a change as well, hence status and not diff.
    status = ["status", "--porcelain", "--", *_SOURCES]
    try:
        commit, changes = (_git(source_tree, *words) for words in (["rev-parse", "HEAD"], status))
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + "+" * bool(changes)


def _git(folder: Path, *words: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]  # a look must not be in anyone's way
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

"""Every block of the short pages runs as printed, in an empty folder, without network or data."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("concepts", "own-strategy", "own-task", "library", "cluster", "reading-the-report", "pitfalls")
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, file to save it as, text."""
    return [(language, file, text) for language, file, text in BLOCK.findall(page.read_text())]


def script(found: list[tuple[str, str, str]]) -> str:
    """One shell script for the whole page: what a reader would do from top to bottom."""
    lines = ["set -e"]
    for number, (language, file, text) in enumerate(found):
        if language == "sh":
            lines.append(text)
            continue
        name = file or f"block{number}.py"
        lines.append(f"cat > {name} <<'END_OF_BLOCK'\n{text}END_OF_BLOCK")
        lines += [] if file else [f"python {name}"]
    return "\n".join(lines)


@pytest.mark.slow(reason="trains what the page says")
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_as_printed(page: str, tmp_path: Path) -> None:
    found = blocks(ROOT / "docs" / f"{page}.md")
    assert found
    assert {language for language, _, _ in found} <= {"sh", "python"}
    (tmp_path / "bin").mkdir()
    for name, code in {
        "python": f'exec {sys.executable} "$@"',
        "dp-bench": f'exec {sys.executable} -c "import sys; from dp_bench.cli import main; sys.exit(main())" "$@"',
    }.items():
        command = tmp_path / "bin" / name
        command.write_text(f"#!/bin/sh\n{code}\n")
        command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "DP_BENCH_OFFLINE": "1",
        "DP_BENCH_DATA": str(tmp_path / "data"),
    }
    done = subprocess.run(
        ["bash", "-c", script(found)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]

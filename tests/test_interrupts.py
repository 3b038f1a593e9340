"""SIGINT and SIGTERM at any moment, start-up included: one line, an exit code, no traceback."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dp_bench.cli import main

# Until the command line is imported, the signal is the interpreter's: it is sent once this has printed a line.
CODE = "import sys; from dp_bench.cli import main; print('ready', flush=True); sys.exit(main({words}))"
SMOKE = ["run", "profile=smoke", "dataset=ag_news", "strategy=online", "strategy.lr=0.316", "train.epochs=50"]


@pytest.mark.slow(reason="starts a dozen interpreters")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_start_up_or_later_is_one_line(number: int, tmp_path: Path) -> None:
    moments = random.Random(number)
    for words in (SMOKE, ["plan", *SMOKE[1:4]], ["report"]):
        for _ in range(2):
            code = CODE.format(words=words)
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
            process = subprocess.Popen(
                [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True, stdout=-1, stderr=-1
            )
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.3 + moments.uniform(0, 2.5))
            process.send_signal(number)
            _, told = process.communicate(timeout=120)
            assert "Traceback" not in told
            # It may have been done before; while the interpreter ends, the signal is the system's (a shell's 128 + N).
            assert process.returncode in (0, 2, 128 + number, -number), told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plan"], "interrupted; nothing was written"),
        (["report"], "interrupted; the report that was there is unchanged"),
        (["data"], "interrupted; the same command fetches what is missing"),
        (["run"], "interrupted; the same command resumes from the last checkpoint"),
    ],
)
def test_what_an_interrupt_leaves(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("dp_bench.cli.usage_errors_in_one_line", interrupted)
    try:
        assert main(words) == 130
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.unraisablehook = sys.__unraisablehook__
    assert capsys.readouterr().err == f"\ndp-bench: {told}\n"

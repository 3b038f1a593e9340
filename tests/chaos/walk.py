"""`make chaos`: every fault at every point. `make soak`: a thousand kills at random moments."""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from chaos import Outcome, Scenario, walk
from running import contents, in_a_child
from scenarios import prepared

_MOST_KILLS_OF_A_RUN = 20


def soak(first: Scenario, kills: int, seconds: float) -> tuple[int, int]:
    """Kill a run at random moments until it is done, again and again: how many kills there were, and other results."""
    moments = random.Random(0)
    killed = changed = 0
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as place:
        reference, folder = Path(place) / "reference", Path(place) / "now"
        for _ in range(2):  # the first one also fills the caches
            shutil.rmtree(reference, ignore_errors=True)
            started = time.monotonic()
            assert first.run(reference) == 0
            whole = time.monotonic() - started
        while killed < kills and time.monotonic() < ends:
            code = -signal.SIGKILL
            for _ in range(_MOST_KILLS_OF_A_RUN):
                code = in_a_child(lambda: _done(first, folder), kill_after=moments.uniform(0, whole))
                killed += code == -signal.SIGKILL
                if code != -signal.SIGKILL:
                    break
            assert code in (0, -signal.SIGKILL), f"exit code {code}"
            _done(first, folder)
            changed += contents(folder) != contents(reference)
            shutil.rmtree(folder)
    return killed, changed


def _done(scenario: Scenario, folder: Path) -> None:
    assert scenario.run(folder) == 0


def main() -> int:
    """`make chaos` and `make soak`."""
    os.environ |= {"DP_BENCH_OFFLINE": "1", "DP_BENCH_CACHE": tempfile.mkdtemp()}
    os.environ.pop("DP_BENCH_DATA", None)
    started = time.monotonic()
    if "soak" in sys.argv:
        with prepared() as scenarios:
            kills, changed = soak(scenarios[0], 1000, seconds=float(sys.argv[-1]))
        print(f"{kills} random kills of a run, {changed} results changed, {time.monotonic() - started:.0f} s")
        return int(changed > 0)
    total = Outcome()
    with prepared() as scenarios:
        for scenario in scenarios:  # each is told when it is done: all take half an hour
            outcome = walk([scenario])
            print("\n".join(outcome.lines()[:1] + outcome.problems[:20]), flush=True)
            total.add(outcome)
    print("\n".join([*total.lines()[-2:], f"{time.monotonic() - started:.0f} s"]))
    return int(not total.clean)


if __name__ == "__main__":
    sys.exit(main())

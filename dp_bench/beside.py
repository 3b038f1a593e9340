"""Work that waits for a disk, done beside work that needs a core."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

Later = Callable[[Callable[[], object]], None]


@contextlib.contextmanager
def beside() -> Iterator[Later]:
    """A function that does one thing after another in a thread; all is done when the context ends, however it ends.

    It waits for the thing before. What fails there is raised by the next call, or at the end.
    """
    thread = ThreadPoolExecutor(1)
    before: Future[object] | None = None

    def later(work: Callable[[], object]) -> None:
        nonlocal before
        if before is not None:
            before.result()
        before = thread.submit(work)

    try:
        yield later
        if before is not None:
            before.result()
    finally:
        _finished(thread)


def _finished(thread: ThreadPoolExecutor) -> None:
    """Wait, however often someone presses Ctrl-C: what the caller does next may be in the way of what is written."""
    while True:
        try:
            thread.shutdown(wait=True)
        except KeyboardInterrupt:
            continue
        return

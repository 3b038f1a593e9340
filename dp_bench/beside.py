"""Work that waits for a disk, done beside work that needs a core."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

Later = Callable[[Callable[[], object]], None]


@contextlib.contextmanager
def beside() -> Iterator[Later]:
    """A function that does one thing after another in a thread; all is done when the context ends.

    It waits for the thing before. What fails there is raised by the next call, or at the end.
    """
    with ThreadPoolExecutor(1) as thread:
        before: Future[object] | None = None

        def later(work: Callable[[], object]) -> None:
            nonlocal before
            if before is not None:
                before.result()
            before = thread.submit(work)

        yield later
        if before is not None:
            before.result()

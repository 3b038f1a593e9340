"""A background thread that writes files while training continues."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

Submit = Callable[[Callable[[], object]], None]


@contextlib.contextmanager
def background_writer() -> Iterator[Submit]:
    """A function that submits work to one background thread. All of it is done when the context ends, however it ends.

    Submitting waits for the previous work. What fails there is raised by the next call, or at the end.
    """
    executor = ThreadPoolExecutor(1)
    pending: Future[object] | None = None

    def submit(work: Callable[[], object]) -> None:
        nonlocal pending
        if pending is not None:
            pending.result()
        pending = executor.submit(work)

    try:
        yield submit
        if pending is not None:
            pending.result()
    finally:  # wait, however often someone presses Ctrl-C: the caller may next touch the files that are being written
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                executor.shutdown(wait=True)
                break

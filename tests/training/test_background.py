import threading
import time

import pytest

import dp_bench.training.background
from dp_bench.training.background import background_writer


def test_things_are_done_in_order_in_another_thread_and_all_of_them():
    done = []
    with background_writer() as submit:
        for i in range(5):
            submit(lambda i=i: (time.sleep(0.01), done.append((i, threading.get_ident()))))
    assert [i for i, _ in done] == list(range(5))
    assert threading.get_ident() not in {thread for _, thread in done}


def test_the_caller_continues_meanwhile():
    released = threading.Event()
    with background_writer() as submit:
        submit(lambda: released.wait(60) or pytest.fail("it was not released"))
        released.set()


def test_one_thing_at_a_time():
    running, most = [], []

    def work():
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()

    with background_writer() as submit:
        for _ in range(5):
            submit(work)
    assert max(most) == 1


def fail():
    raise OSError("no space left on device")


def test_what_fails_is_raised_by_the_next_call():
    reached = []

    def caller():
        with background_writer() as submit:
            submit(fail)
            submit(lambda: reached.append("next"))
            reached.append("after")

    with pytest.raises(OSError, match="no space"):
        caller()
    assert reached == []


def test_or_at_the_end():
    with pytest.raises(OSError, match="no space"), background_writer() as submit:
        submit(fail)


def test_an_error_of_the_caller_comes_first_and_what_was_begun_is_finished():
    done = []

    def caller():
        with background_writer() as submit:
            submit(lambda: (time.sleep(0.02), done.append("written"), fail()))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        caller()
    assert done == ["written"]


def test_impatience_leaves_nothing_half_done(monkeypatch):
    """A caller that is interrupted again while it waits: the next one must find no thread still writing."""

    class Impatient(dp_bench.training.background.ThreadPoolExecutor):
        left = 2

        def shutdown(self, wait=True, **options):
            if Impatient.left:
                Impatient.left -= 1
                raise KeyboardInterrupt
            super().shutdown(wait, **options)

    monkeypatch.setattr(dp_bench.training.background, "ThreadPoolExecutor", Impatient)
    done = []
    with background_writer() as submit:
        submit(lambda: (time.sleep(0.02), done.append("written")))
    assert done == ["written"]
    assert Impatient.left == 0

"""Lines of work: in order, one at a time, and none in the way of another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from dueline.server.lines import Lines


def _wait(event: threading.Event) -> None:
    event.wait(30)


def test_work_of_a_line_is_done_in_order_and_never_at_once() -> None:
    order: list[int] = []
    alone = threading.Lock()

    def work(number: int) -> None:
        assert alone.acquire(blocking=False), "two at once"
        order.append(number)
        alone.release()

    with ThreadPoolExecutor(4) as threads:
        lines = Lines(threads)
        for number in range(500):
            lines.submit("a", partial(work, number))

    assert order == list(range(500))


def test_line_that_waits_keeps_one_thread_and_the_others_go_on() -> None:
    go_on, other = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as threads:
        lines = Lines(threads)
        for _ in range(10):
            lines.submit("a", partial(_wait, go_on))
        lines.submit("b", other.set)

        assert other.wait(30)
        go_on.set()


def test_busy_line_goes_behind_the_others() -> None:
    order: list[str] = []
    is_there, is_over = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        lines = Lines(threads)

        def again() -> None:
            order.append("a, again")
            is_over.set()

        def first() -> None:
            is_there.wait(30)
            lines.submit("a", again)
            order.append("a")

        lines.submit("a", first)
        lines.submit("b", lambda: order.append("b"))
        is_there.set()
        assert is_over.wait(30)

    assert order == ["a", "b", "a, again"]


def test_failure_does_not_stop_the_line(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def fail() -> None:
        raise ValueError("no")

    with ThreadPoolExecutor(1) as threads:
        lines = Lines(threads)
        lines.submit("a", fail)
        lines.submit("a", done.set)

    assert done.is_set()
    assert "work in a line failed" in caplog.text


def test_what_has_come_is_done_when_the_threads_end() -> None:
    done: list[int] = []
    is_there = threading.Event()
    threads = ThreadPoolExecutor(1)
    lines = Lines(threads)
    lines.submit("a", partial(_wait, is_there))
    for number in range(3):
        lines.submit("a", partial(done.append, number))
    threads.shutdown(wait=False)
    is_there.set()
    threads.shutdown()

    assert done == [0, 1, 2]
    with pytest.raises(RuntimeError):
        lines.submit("a", lambda: None)
    with pytest.raises(RuntimeError):
        lines.submit("a", lambda: None)

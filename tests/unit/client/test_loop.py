"""An event loop in a thread: who waits for what, and what happens to the rest at the end."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading

import pytest
from tests.waiting import PATIENCE_S, wait_until

from dueline.client.loop import Loop


class Work:
    """A coroutine that goes on until it is let go or cancelled, and says how it ended."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_over = threading.Event()
        self.ended_by = ""
        self._go_on = asyncio.Event()

    async def run(self) -> None:
        self.has_begun.set()
        try:
            await self._go_on.wait()
            self.ended_by = "itself"
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # there is a loop to tidy up in
            self.ended_by = "cancelling"
            raise
        finally:
            self.is_over.set()

    async def let_go(self) -> None:
        self._go_on.set()


def test_a_result_and_an_error_come_back_to_the_caller() -> None:
    loop = Loop()

    async def thread() -> str:
        return threading.current_thread().name

    async def failing() -> None:
        raise KeyError("k")

    assert loop.run(thread()) == "dueline-client"
    with pytest.raises(KeyError, match="k"):
        loop.run(failing())
    assert loop.run(thread()) == "dueline-client"
    loop.close()


def test_threads_do_not_wait_for_each_others_work() -> None:
    loop = Loop()
    work = Work()
    waiting = threading.Thread(target=loop.run, args=(work.run(),))
    waiting.start()
    assert work.has_begun.wait(PATIENCE_S)

    loop.run(work.let_go())  # would never come to its turn if the first were waited for

    waiting.join(PATIENCE_S)
    assert work.ended_by == "itself"
    loop.close()


def test_what_is_started_goes_on_while_the_caller_does() -> None:
    loop = Loop()
    work = Work()

    future = loop.start(work.run())

    assert work.has_begun.wait(PATIENCE_S)
    assert not future.done()
    loop.run(work.let_go())
    future.result(PATIENCE_S)
    loop.close()


def test_closing_lets_what_is_under_way_tidy_up_and_ends_the_thread() -> None:
    before = threading.active_count()
    loop = Loop()
    works = [Work(), Work()]
    futures = [loop.start(work.run()) for work in works]
    for work in works:
        assert work.has_begun.wait(PATIENCE_S)

    loop.close()

    assert [work.ended_by for work in works] == ["cancelling", "cancelling"]
    assert all(future.cancelled() for future in futures)
    assert threading.active_count() == before


def test_work_that_fails_while_it_is_cancelled_does_not_keep_the_loop() -> None:
    loop = Loop()
    has_begun = threading.Event()

    async def stubborn() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the peer has gone")

    future = loop.start(stubborn())
    assert has_begun.wait(PATIENCE_S)

    loop.close()

    assert isinstance(future.exception(), OSError)


def test_interrupted_waiting_takes_its_work_back() -> None:
    """Ctrl-C comes to the main thread, which is this one; nobody wants the answer any more."""
    loop = Loop()
    work = Work()
    main = threading.main_thread().ident or 0
    interrupts: list[int] = []

    def once(number: int, _: object) -> None:
        interrupts.append(number)
        if len(interrupts) == 1:
            raise KeyboardInterrupt

    def is_interrupted() -> bool:
        """Press again: a signal just before the thread falls asleep does not wake it."""
        signal.pthread_kill(main, signal.SIGINT)
        return bool(interrupts)

    def interrupt() -> None:
        wait_until(lambda: work.has_begun.is_set() and is_asleep(main), "somebody who waits")
        wait_until(is_interrupted, "the interrupt")

    handler = signal.signal(signal.SIGINT, once)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(work.run())
        wait_until(work.is_over.is_set, "the end of what nobody waits for")
        interrupter.join()
    finally:
        signal.signal(signal.SIGINT, handler)

    assert work.ended_by == "cancelling"
    loop.close()


def is_asleep(thread_id: int) -> bool:
    frame = sys._current_frames()[thread_id]
    return frame.f_code.co_name == "wait" and frame.f_code.co_filename == threading.__file__

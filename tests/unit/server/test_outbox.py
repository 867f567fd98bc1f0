"""Calls from other threads arrive in order, and one that fails stops no other."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from dueline.server.outbox import Outbox


def test_calls_of_a_thread_are_made_in_order_in_the_loop() -> None:
    async def run() -> tuple[list[int], set[int]]:
        outbox = Outbox(asyncio.get_running_loop())
        found: list[int] = []
        threads: set[int] = set()
        done = asyncio.Event()

        def post() -> None:
            for number in range(1_000):
                outbox.post(lambda number=number: found.append(number))  # type: ignore[misc]
            outbox.post(lambda: threads.add(threading.get_ident()))
            outbox.post(done.set)

        thread = threading.Thread(target=post)
        thread.start()
        async with asyncio.timeout(30):
            await done.wait()
        thread.join()
        return found, threads

    found, threads = asyncio.run(run())

    assert found == list(range(1_000))
    assert threads == {threading.get_ident()}


def test_failing_call_is_logged_and_the_next_is_made(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        done = asyncio.Event()
        outbox.post(lambda: [][0])
        outbox.post(done.set)
        async with asyncio.timeout(30):
            await done.wait()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())

    assert "IndexError" in caplog.text


def test_calls_after_the_loops_end_are_dropped() -> None:
    loop = asyncio.new_event_loop()
    outbox = Outbox(loop)
    loop.close()

    outbox.post(lambda: None)


def test_calls_of_the_loops_own_thread_come_later_and_wake_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        outbox, found = Outbox(loop), list[str]()
        monkeypatch.delattr(asyncio.BaseEventLoop, "call_soon_threadsafe")
        outbox.post(lambda: found.append("called"))
        found.append("posted")
        await asyncio.sleep(0)
        monkeypatch.undo()
        return found

    assert asyncio.run(run()) == ["posted", "called"]

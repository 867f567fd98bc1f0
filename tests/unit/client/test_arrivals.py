"""Messages between the loop that reads them and those who receive them, tasks or threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

import pytest
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import Received
from dueline.client.arrivals import HELD_MAX, Arrivals, ThreadArrivals
from dueline.client.direct import finished
from dueline.client.loop import Loop
from dueline.client.pulling import QueuePuller

ONE, OTHER = cast(Any, "one queue"), cast(Any, "another queue")


def message(offset: int) -> Received:
    return Received(
        topic="orders",
        body=b"%d" % offset,
        id="",
        tag=None,
        keys=(),
        properties={},
        queue_id=0,
        queue_offset=offset,
        attempt=0,
        born_ms=0,
        store_ms=0,
        position=0,
    )


async def made() -> ThreadArrivals:
    return ThreadArrivals()


@pytest.fixture
def loop() -> Iterator[Loop]:
    running = Loop()
    yield running
    running.close()


@pytest.fixture
def arrivals(loop: Loop) -> ThreadArrivals:
    return loop.run(made())


def put(loop: Loop, arrivals: Arrivals, reader: QueuePuller, *offsets: int) -> None:
    loop.run(arrivals.put(reader, [message(offset) for offset in offsets]))


def test_what_has_come_is_taken_in_order_and_no_more_than_asked_for(
    loop: Loop, arrivals: ThreadArrivals
) -> None:
    put(loop, arrivals, ONE, 3, 4, 5)

    assert [each.queue_offset for each in finished(arrivals.take(2))] == [3, 4]
    assert [each.queue_offset for each in finished(arrivals.take(2))] == [5]
    assert finished(arrivals.take(2, timeout_s=0.0)) == []


def test_one_is_taken_if_it_is_here(loop: Loop, arrivals: ThreadArrivals) -> None:
    assert arrivals.take_one() is None

    put(loop, arrivals, ONE, 3, 4)
    put(loop, arrivals, OTHER, 8)

    taken = [arrivals.take_one() for _ in range(3)]
    assert [each and each.queue_offset for each in taken] == [3, 4, 8]
    assert arrivals.take_one() is None
    assert arrivals.offsets() == [(ONE, 5), (OTHER, 9)]


def test_pulls_are_taken_together(loop: Loop, arrivals: ThreadArrivals) -> None:
    put(loop, arrivals, ONE, 3, 4)
    put(loop, arrivals, OTHER, 8, 9)

    assert [each.queue_offset for each in finished(arrivals.take(3))] == [3, 4, 8]
    assert arrivals.offsets() == [(ONE, 5), (OTHER, 9)]
    assert [each.queue_offset for each in finished(arrivals.take(3))] == [9]


def test_a_thread_waits_for_what_comes(loop: Loop, arrivals: ThreadArrivals) -> None:
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(finished, arrivals.take(1))
        wait_until(lambda: arrivals._change._waiters, "a thread that waits")  # type: ignore[attr-defined]
        put(loop, arrivals, ONE, 7)

        assert taking.result(PATIENCE_S) == [message(7)]


def test_a_thread_that_waits_is_let_go_at_the_end(arrivals: ThreadArrivals) -> None:
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(finished, arrivals.take(1))
        arrivals.close()

        with pytest.raises(CancelledError):
            taking.result(PATIENCE_S)


def test_nothing_more_is_put_in_until_there_is_room(loop: Loop, arrivals: ThreadArrivals) -> None:
    full = loop.start(arrivals.put(ONE, [message(offset) for offset in range(HELD_MAX)]))
    assert len(finished(arrivals.take(1))) == 1

    full.result(PATIENCE_S)


def test_all_who_put_go_on_when_there_is_room(loop: Loop, arrivals: ThreadArrivals) -> None:
    full = [
        loop.start(arrivals.put(each, [message(offset) for offset in range(HELD_MAX)]))
        for each in (ONE, OTHER)
    ]
    wait_until(lambda: arrivals._held_count == 2 * HELD_MAX, "both")

    for _ in range(HELD_MAX):
        assert arrivals.take_one() is not None
    assert not any(each.done() for each in full)
    assert arrivals.take_one() is not None

    for each in full:
        each.result(PATIENCE_S)


def test_places_are_those_of_what_was_received_until_the_broker_knows_them(
    loop: Loop, arrivals: ThreadArrivals
) -> None:
    put(loop, arrivals, ONE, 3, 4, 5)
    put(loop, arrivals, OTHER, 8)
    finished(arrivals.take(2))
    assert arrivals.offsets() == [(ONE, 5)]

    finished(arrivals.take(2))
    arrivals.commit(ONE, 5)  # the broker's answer is older than what was received since

    assert arrivals.offsets() == [(ONE, 6), (OTHER, 9)]
    arrivals.commit(ONE, 6)
    assert arrivals.offsets() == [(OTHER, 9)]


def test_tasks_of_the_loop_wait_too() -> None:
    async def run() -> list[list[Received]]:
        arrivals = Arrivals()
        taking = asyncio.create_task(arrivals.take(5))
        await asyncio.sleep(0)
        await arrivals.put(ONE, [message(1), message(2)])
        return [await taking, await arrivals.take(5, timeout_s=0.0)]

    assert asyncio.run(run()) == [[message(1), message(2)], []]


def test_threads_that_receive_together_get_each_message_once(
    loop: Loop, arrivals: ThreadArrivals
) -> None:
    count, found, lock = 5_000, list[int](), threading.Lock()

    def receive() -> None:
        with suppress(CancelledError):
            while mine := finished(arrivals.take(7)):
                with lock:
                    found.extend(each.queue_offset for each in mine)

    with ThreadPoolExecutor(4) as threads:
        receiving = [threads.submit(receive) for _ in range(4)]
        for start in range(0, count, 500):
            put(loop, arrivals, ONE, *range(start, start + 500))
        wait_until(lambda: len(found) >= count, "all messages")
        arrivals.close()
        for each in receiving:
            each.result(PATIENCE_S)

    assert sorted(found) == list(range(count))

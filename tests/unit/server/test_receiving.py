"""A loop that waits for messages: woken, out of time, pushed out, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.inflight.house import House, bodies

from dueline.broker.inflight import Held, Receive
from dueline.errors import LimitExceeded, StoreClosed
from dueline.server.outbox import Outbox
from dueline.server.receiving import looked, received
from dueline.server.runtime import Runtime
from dueline.server.shares import GiveUp, Share, Shares


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


@dataclass(slots=True)
class Door:
    """One client of a loop."""

    runtime: Runtime
    shares: Shares
    give_up: list[GiveUp] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    looking: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, receive: Receive) -> Awaitable[list[Held]]:
        return received(
            receive,
            lambda: self._look(receive),
            runtime=self.runtime,
            enter=self._enter,
        )

    async def _look(self, receive: Receive) -> list[Held]:
        look = asyncio.ensure_future(looked(receive, self.runtime))
        await asyncio.sleep(0)  # it is handed to a thread now
        self.looking.set()
        return await look

    def _enter(self, give_up: GiveUp) -> Share:
        self.give_up.append(give_up)
        self.waiting.set()
        return self.shares.take("peer", object(), give_up)


def run(test: Callable[[Door], Awaitable[Any]], *, share_count: int = 10) -> Any:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:
            runtime = Runtime(loop=loop, outbox=Outbox(loop), threads=threads)
            door = Door(runtime, Shares("waiting consumers", share_count))
            async with asyncio.timeout(30):
                result = await test(door)
            assert door.shares.count == 0
            return result

    return asyncio.run(main())


def test_what_is_there_needs_no_share(house: House) -> None:
    house.send("a")

    found = run(lambda door: door.receive(house.receive(wait_ms=60_000)), share_count=1)

    assert bodies(found) == ["a"]
    assert len(house.broker.reading.watches) == 0


def test_nothing_and_no_time_to_wait_is_an_empty_answer(house: House) -> None:
    assert run(lambda door: door.receive(house.receive()), share_count=1) == []


def test_waiting_receive_is_woken_and_leaves_nothing_behind(house: House) -> None:
    async def test(door: Door) -> list[Held]:
        waiting = asyncio.ensure_future(door.receive(house.receive(wait_ms=60_000)))
        await door.waiting.wait()
        await asyncio.to_thread(house.send, "news")
        return await waiting

    assert bodies(run(test)) == ["news"]
    assert len(house.broker.reading.watches) == 0


def test_receive_that_has_to_make_room_is_answered_with_nothing(house: House) -> None:
    async def test(door: Door) -> list[Held]:
        receive = house.receive(wait_ms=60_000)
        waiting = asyncio.ensure_future(door.receive(receive))
        await door.waiting.wait()
        door.give_up[0]()
        return await waiting

    assert run(test) == []


def test_no_share_is_an_error(house: House) -> None:
    async def test(door: Door) -> None:
        with door.shares.take("peer", object()), pytest.raises(LimitExceeded):
            await door.receive(house.receive(wait_ms=60_000))

    run(test, share_count=1)


def test_failed_look_is_an_error(house: House) -> None:
    house.send("a")
    house.broker.inflight.close()

    with pytest.raises(StoreClosed):
        run(lambda door: door.receive(house.receive()))


def test_cancelled_while_a_thread_takes_messages_gives_them_back(house: House) -> None:
    house.send("a")
    lanes = house.broker.inflight._lanes.of("g", "t")

    async def test(door: Door) -> None:
        lanes.lock.acquire()
        try:
            task = asyncio.ensure_future(door.receive(house.receive()))
            await door.looking.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        finally:
            lanes.lock.release()

    run(test)

    assert [held.attempt for held in house.take()] == [1]

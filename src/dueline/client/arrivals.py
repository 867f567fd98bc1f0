"""Messages that have come and were not received yet.

Tasks of the event loop put them in, and wait while there are too many. `Arrivals` is for those who
receive in the same loop, `ThreadArrivals` for threads: there `take` never suspends, so a thread
runs it by itself, and is woken without another turn of the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import CancelledError
from time import monotonic
from typing import Final

from dueline.client.pulling import QueuePuller
from dueline.client.values import Received

__all__ = ["Arrivals", "ThreadArrivals"]

HELD_MAX: Final = 1_024
"""While so many have come and were not received, no queue is asked for more."""


class Arrivals:
    """Made in the loop of those who put messages in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[QueuePuller, Received]] = deque()
        self._offsets: dict[QueuePuller, int] = {}
        self._has_come = asyncio.Event()
        self._has_room = asyncio.Event()
        self._change = threading.Condition()
        self._is_closed = False

    async def put(self, reader: QueuePuller, messages: list[Received]) -> None:
        """Let others receive messages of a queue; returns when there is room for more."""
        if not messages:
            return
        with self._change:
            self._held.extend([(reader, message) for message in messages])
            self._change.notify_all()
        self._has_come.set()
        while len(self._held) >= HELD_MAX:
            self._has_room.clear()
            if len(self._held) >= HELD_MAX:  # still: a thread may have taken some
                await self._has_room.wait()

    async def take(self, count_max: int, *, timeout_s: float | None = None) -> list[Received]:
        """What has come; waits for one message, or until the time is up."""
        end_s = None if timeout_s is None else monotonic() + timeout_s
        while not (found := self._first(max(count_max, 1))):
            left_s = None if end_s is None else max(end_s - monotonic(), 0.0)
            if not await self._wait(left_s):
                break
        return found

    def _first(self, count_max: int) -> list[Received]:
        with self._change:
            taken = [self._held.popleft() for _ in range(min(count_max, len(self._held)))]
            self._offsets.update([(reader, each.queue_offset + 1) for reader, each in taken])
        if taken and len(self._held) < HELD_MAX and not self._has_room.is_set():
            self._loop.call_soon_threadsafe(self._has_room.set)
        return [message for _, message in taken]

    async def _wait(self, left_s: float | None) -> bool:
        """Wait until something has come, perhaps for others; False: the time is up."""
        self._has_come.clear()
        try:
            async with asyncio.timeout(left_s):
                return await self._has_come.wait()
        except TimeoutError:
            return False

    def close(self) -> None:
        """Threads that wait are let go."""
        with self._change:
            self._is_closed = True
            self._held.clear()
            self._change.notify_all()

    # Places

    def offsets(self) -> list[tuple[QueuePuller, int]]:
        """Where to go on in each queue of which something was received and not committed."""
        with self._change:
            return list(self._offsets.items())

    def commit(self, reader: QueuePuller, offset: int) -> None:
        """Note that the broker knows a place."""
        with self._change:
            if self._offsets.get(reader) == offset:
                del self._offsets[reader]


class ThreadArrivals(Arrivals):
    """For threads that receive; the one that waits is the caller's."""

    async def _wait(self, left_s: float | None) -> bool:
        with self._change:
            if self._is_closed:
                raise CancelledError
            return bool(self._held) or self._change.wait(left_s)

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
from dataclasses import dataclass
from time import monotonic
from typing import Final

from dueline.client.pulling import QueuePuller
from dueline.client.values import Received

__all__ = ["Arrivals", "ThreadArrivals"]

HELD_MAX: Final = 1_024
"""While so many have come and were not received, no queue is asked for more."""


@dataclass(slots=True)
class _Pulled:
    """Messages of one pull, and how many of them were received."""

    reader: QueuePuller
    messages: list[Received]
    taken_count: int = 0


class Arrivals:
    """Made in the loop of those who put messages in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._held: deque[_Pulled] = deque()
        self._held_count = 0
        self._is_full = False
        self._last: dict[QueuePuller, Received] = {}
        self._has_come = asyncio.Event()
        self._has_room = asyncio.Event()
        self._change = threading.Condition()
        self._is_closed = False

    async def put(self, reader: QueuePuller, messages: list[Received]) -> None:
        """Let others receive messages of a queue; returns when there is room for more."""
        if not messages:
            return
        with self._change:
            self._held.append(_Pulled(reader, messages))
            self._held_count += len(messages)
            self._change.notify_all()
        self._has_come.set()
        while not self._has_found_room():
            await self._has_room.wait()

    def _has_found_room(self) -> bool:
        """Is there room? If not, the next one who makes some says so."""
        with self._change:
            self._is_full = self._held_count >= HELD_MAX
            if self._is_full:
                self._has_room.clear()
            return not self._is_full

    async def take(self, count_max: int, *, timeout_s: float | None = None) -> list[Received]:
        """What has come; waits for one message, or until the time is up."""
        end_s = None if timeout_s is None else monotonic() + timeout_s
        while not (found := self._first(max(count_max, 1))):
            left_s = None if end_s is None else max(end_s - monotonic(), 0.0)
            if not await self._wait(left_s):
                break
        return found

    def take_one(self) -> Received | None:
        """The next message if it is here; waits for nothing."""
        with self._change:
            if not self._held:
                return None
            pulled = self._held[0]
            message = pulled.messages[pulled.taken_count]
            self._note_taken(pulled, message, 1)
        return message

    def _first(self, count_max: int) -> list[Received]:
        found: list[Received] = []
        with self._change:
            while self._held and len(found) < count_max:
                pulled = self._held[0]
                start = pulled.taken_count
                part = pulled.messages[start : start + count_max - len(found)]
                self._note_taken(pulled, part[-1], len(part))
                found += part
        return found

    def _note_taken(self, pulled: _Pulled, last: Received, count: int) -> None:
        pulled.taken_count += count
        if pulled.taken_count == len(pulled.messages):
            self._held.popleft()
        self._held_count -= count
        self._last[pulled.reader] = last
        if self._is_full and self._held_count < HELD_MAX:
            self._is_full = False
            self._loop.call_soon_threadsafe(self._has_room.set)

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
            self._held_count = 0
            self._change.notify_all()

    # Places

    def offsets(self) -> list[tuple[QueuePuller, int]]:
        """Where to go on in each queue of which something was received and not committed."""
        with self._change:
            return [(reader, last.queue_offset + 1) for reader, last in self._last.items()]

    def commit(self, reader: QueuePuller, offset: int) -> None:
        """Note that the broker knows a place."""
        with self._change:
            last = self._last.get(reader)
            if last is not None and last.queue_offset + 1 == offset:
                del self._last[reader]


class ThreadArrivals(Arrivals):
    """For threads that receive; the one that waits is the caller's."""

    async def _wait(self, left_s: float | None) -> bool:
        with self._change:
            if self._is_closed:
                raise CancelledError
            return bool(self._held) or self._change.wait(left_s)

"""Room for answers: how many bytes of them a peer may leave unread, and all peers together.

An answer's bytes pass three places, and each of them counts:

    reserved    it is being made: somebody reads a queue for it
    written     it waits for the end of the loop's turn
    buffered    the transport has it, and the peer has not read it

A maker of a large answer reserves room first and waits until there is some: reading comes after,
so a thousand requests that a peer sends at once cost as much memory as the room and not as their
answers. A connection's room is half for what is being made and written, half for the transport:
that one says when it is full (`is_paused`) and when the peer has read (`sent`).

The pool is the room of all connections. When it is full `on_full` is called, to close those that do
not read; the others wait. Everything here runs in the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Pool", "Room"]


class Pool:
    """The unread answers of all connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        size_bytes_max: int,
        on_full: Callable[[], None] = lambda: None,
    ) -> None:
        self.loop = loop
        self.size_bytes = 0
        self._size_bytes_max = size_bytes_max
        self._on_full = on_full
        self._waiting: set[Room] = set()

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self._size_bytes_max

    def wait(self, room: Room) -> None:
        """Wake this room when there is some again."""
        self._waiting.add(room)
        self._on_full()

    def change(self, by_bytes: int) -> None:
        self.size_bytes += by_bytes
        if by_bytes < 0 and self._waiting and not self.is_full:
            waiting, self._waiting = self._waiting, set()
            for room in waiting:
                room.wake_soon()


class Room:
    """The unread answers of one connection."""

    def __init__(self, pool: Pool, size_bytes_max: int) -> None:
        self._pool = pool
        self._size_bytes_max = size_bytes_max
        self._half = size_bytes_max // 2
        self._reserved = 0
        self._written = 0
        self._buffered = 0
        self._is_waking = False
        self._is_closed = False
        self._waiting: deque[Callable[[], None]] = deque()
        self.is_paused = False

    @property
    def size_bytes(self) -> int:
        return self._reserved + self._written + self._buffered

    @property
    def buffered_size_max(self) -> int:
        """How much the transport may have before it says that it is full."""
        return self._half

    @property
    def is_free(self) -> bool:
        """May the next request be looked at? What is being made elsewhere does not matter."""
        if self.is_paused or self._written >= self._half:
            return False
        if self._pool.is_full:
            self._pool.wait(self)
            return False
        return True

    # What a request does

    def reserve(self, size_bytes: int) -> bool:
        """Room for an answer that is to be made; one is always possible if the peer reads."""
        pending = self._reserved + self._written
        if self._is_closed:
            return True  # nothing will be kept
        if self.is_paused or (pending and pending + size_bytes > self._half):
            return False
        if self._pool.is_full:
            self._pool.wait(self)
            return False
        self._reserved += size_bytes
        self._pool.change(size_bytes)
        return True

    def has(self, size_bytes: int) -> bool:
        """Would `reserve` find room? Nobody is asked to make some."""
        pending = self._reserved + self._written
        is_full = self.is_paused or self._is_closed or self._pool.is_full
        return not is_full and (not pending or pending + size_bytes <= self._half)

    def release(self, size_bytes: int) -> None:
        """The answer is made, or will not be."""
        if size_bytes and not self._is_closed:
            self._reserved -= size_bytes
            self._pool.change(-size_bytes)
            self.wake_soon()

    def wait(self, callback: Callable[[], None]) -> None:
        """Call back when there may be room; it has to try again, and perhaps to wait again."""
        self._waiting.append(callback)
        if self._is_closed:
            self.wake_soon()

    # What the connection does

    def write(self, size_bytes: int) -> bool:
        """An answer was written; False: so much was unread before that the peer has stopped."""
        unread = self._written + self._buffered
        self._written += size_bytes
        self._pool.change(size_bytes)
        return unread <= 2 * self._size_bytes_max

    def flushed(self, buffered: int) -> None:
        """What was written is the transport's now, which has so much."""
        if buffered or self._buffered or self._written:
            self._pool.change(buffered - self._buffered - self._written)
            self._written = 0
            self._buffered = buffered
        if self._waiting:
            self.wake_soon()

    def sent(self, buffered: int) -> None:
        """The peer has read: the transport has so much now."""
        self._pool.change(buffered - self._buffered)
        self._buffered = buffered
        self.wake_soon()

    def close(self) -> None:
        """The connection has gone, and what was unread with it; those who wait are called."""
        self._is_closed = True
        self._pool.change(-self.size_bytes)
        self._reserved = self._written = self._buffered = 0
        self.wake_soon()

    def wake_soon(self) -> None:
        if self._waiting and not self._is_waking:
            self._is_waking = True
            self._pool.loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for _ in range(len(self._waiting)):
            if not self._is_closed and not self.is_free:
                return
            self._waiting.popleft()()

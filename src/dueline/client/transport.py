"""What a client's coroutines wait with: connections, pauses, and works side by side.

The verbs of the clients are coroutines, each written once. `AsyncTransport` is for those that an
event loop runs; `dueline.client.direct` is for callers who wait for each answer themselves.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from dueline.client.connection import AnyConnection, AsyncConnection, Dialling

__all__ = ["AsyncTransport", "Transport", "Work"]

Work = Callable[[], Coroutine[Any, Any, None]]


class Transport(ABC):
    """Connections by address, and ways to wait."""

    @abstractmethod
    def known(self, address: str) -> AnyConnection | None:
        """The connection to an address; None: it has to be opened."""

    @abstractmethod
    async def connection(self, address: str, how: Dialling) -> AnyConnection:
        """The connection to an address, opened if need be.

        Raises:
            Unavailable: nobody answers there, or not with TLS.
        """

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait."""

    @abstractmethod
    async def side_by_side(self, works: Iterable[Work], *, count_max: int) -> None:
        """Do all of them, at most so many at a time."""

    @abstractmethod
    async def disconnect(self) -> None:
        """End all connections."""


class AsyncTransport(Transport):
    """One connection for each address, which all share."""

    def __init__(self) -> None:
        self._connections: dict[str, AsyncConnection] = {}
        self._opening = asyncio.Lock()

    def known(self, address: str) -> AsyncConnection | None:
        found = self._connections.get(address)
        return found if found is not None and found.is_open else None

    async def connection(self, address: str, how: Dialling) -> AsyncConnection:
        if (known := self.known(address)) is not None:
            return known
        async with self._opening:
            if (known := self.known(address)) is not None:
                return known
            made = await AsyncConnection.open(address, how)
            self._connections[address] = made
            return made

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def side_by_side(self, works: Iterable[Work], *, count_max: int) -> None:
        room = asyncio.Semaphore(count_max)

        async def one(work: Work) -> None:
            async with room:
                await work()

        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(one(work))

    async def disconnect(self) -> None:
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

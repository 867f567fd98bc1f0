"""Reading a topic without a group: every message, from where you say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from dueline.client.cluster import Cluster
from dueline.client.pulling import QueueReader
from dueline.client.values import Received
from dueline.errors import Unavailable

__all__ = ["AsyncReader"]

WAIT_S: Final = 15.0
PAUSE_S: Final = 1.0
_HELD_MAX: Final = 1_024


class AsyncReader:
    """Reads all queues of a topic; an async context manager and an async iterator.

        async with AsyncReader("127.0.0.1:9876", "orders") as reader:
            async for message in reader:
                print(message.body)

    Messages of one queue come in order. Nothing is committed: the next reader starts where it says.
    """

    def __init__(  # noqa: PLR0913 - what to read, and by keyword how
        self,
        name_server: str,
        topic: str,
        *,
        start: str = "start",
        tags: str = "*",
        group: str = "dueline_reader",
        timeout_s: float = 5.0,
    ) -> None:
        """`start` is "start" or "end"."""
        self._name_server = name_server
        self._topic = topic
        self._start = start
        self._tags = tags
        self._group = group
        self._timeout_s = timeout_s
        self._messages: asyncio.Queue[Received] = asyncio.Queue(_HELD_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        cluster = self._cluster = Cluster(self._name_server, timeout_s=self._timeout_s)
        try:
            for queue in await cluster.queues(self._topic):
                reader = QueueReader(cluster, self._group, queue, self._tags)
                offset = await (reader.end() if self._start == "end" else reader.start())
                self._tasks.append(asyncio.create_task(self._read(reader, offset)))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._cluster is not None:
            await self._cluster.close()

    async def __aiter__(self) -> AsyncIterator[Received]:
        while True:
            yield await self.receive()

    async def receive(self) -> Received:
        """The next message; waits for one."""
        return await self._messages.get()

    async def _read(self, reader: QueueReader, offset: int) -> None:
        while True:
            try:
                pulled = await reader.pull(offset, wait_s=WAIT_S)
            except Unavailable:
                await asyncio.sleep(PAUSE_S)
                continue
            offset = pulled.next_offset
            for message in pulled.messages:
                await self._messages.put(message)

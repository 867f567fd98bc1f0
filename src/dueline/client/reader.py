"""Reading a topic, every message, from where you say or from where a group left off.

One task per queue pulls and one looks for queues that are new, every 30 seconds, or twice a second
while the topic does not exist yet. A broker that goes away is asked again every second, so a reader
outlives its restart; `on_connection` tells when it is lost and when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Final, Self

from dueline.client.cluster import ROUTE_S_MAX, Cluster, TopicQueue
from dueline.client.loop import end_tasks
from dueline.client.pulling import QueuePuller
from dueline.client.values import Received
from dueline.credentials import Credentials
from dueline.errors import BrokerError, InvalidRequest, NotFound
from dueline.schedule import DelayLevels
from dueline.tls import ClientTls

__all__ = ["AsyncReader"]

WAIT_S: Final = 15.0
PAUSE_S: Final = 1.0
TOPIC_PAUSE_S: Final = 0.5
_HELD_MAX: Final = 1_024
_NO_GROUP: Final = "dueline_reader"

OnConnection = Callable[[BrokerError | None], None]


class AsyncReader:
    """Reads all queues of a topic; an async context manager and an async iterator.

        async with AsyncReader("127.0.0.1:9876", "orders") as reader:
            async for message in reader:
                print(message.body)

    Messages of one queue come in order. A topic that does not exist is waited for and then read
    from its start. Without a group nothing is remembered: the next reader starts where it says.
    """

    def __init__(  # noqa: PLR0913 - what to read, and by keyword how
        self,
        name_server: str,
        topic: str,
        *,
        start: str = "start",
        tags: str = "*",
        group: str | None = None,
        timeout_s: float = 5.0,
        tls: ClientTls | None = None,
        credentials: Credentials | None = None,
        on_connection: OnConnection = lambda error: None,
    ) -> None:
        """Say what to read.

        Args:
            start: "start" or "end".
            group: go on where it left off, if it has read the topic before; see `commit`.
            on_connection: called with the error when the broker is lost, with None when it is back.
        """
        if start not in ("start", "end"):
            raise InvalidRequest(f"start: expected start or end, found {start!r}")
        self._topic = topic
        self._start = start
        self._tags = tags
        self._group = group
        self._new_cluster = partial(
            Cluster, name_server, timeout_s=timeout_s, tls=tls, credentials=credentials
        )
        self._on_connection = on_connection
        self._is_lost = False
        self._messages: asyncio.Queue[tuple[QueuePuller, Received]] = asyncio.Queue(_HELD_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._queues: dict[TopicQueue, QueuePuller] = {}
        self._offsets: dict[QueuePuller, int] = {}
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        cluster = self._cluster = self._new_cluster()
        try:
            await self._take_queues(cluster, start=self._start)
        except NotFound:
            pass
        except BaseException:
            await self._close()
            raise
        self._tasks.append(asyncio.create_task(self._watch(cluster)))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        await end_tasks(self._tasks)
        self._tasks.clear()
        self._queues.clear()
        self._offsets.clear()
        self._messages = asyncio.Queue(_HELD_MAX)
        if self._cluster is not None:
            await self._cluster.close()
            self._cluster = None

    # Receiving

    @property
    def has_topic(self) -> bool:
        """Whether the topic has been found."""
        return bool(self._queues)

    async def __aiter__(self) -> AsyncIterator[Received]:
        while True:
            yield await self.receive()

    async def receive(self) -> Received:
        """The next message; waits for one."""
        self._open()
        return self._taken(await self._messages.get())

    async def receive_many(
        self, count_max: int, *, timeout_s: float | None = None
    ) -> list[Received]:
        """What has come; waits for one message, or until the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                found = [await self.receive()]
        except TimeoutError:
            return []
        while len(found) < count_max and not self._messages.empty():
            found.append(self._taken(self._messages.get_nowait()))
        return found

    def _taken(self, item: tuple[QueuePuller, Received]) -> Received:
        reader, message = item
        self._offsets[reader] = message.queue_offset + 1
        return message

    async def commit(self) -> None:
        """Remember for the group what was received so far.

        Raises:
            InvalidRequest: the reader has no group.
            Unavailable: the broker cannot be asked; say it again later.
        """
        if self._group is None:
            raise InvalidRequest("commit: expected a reader with a group, found one without")
        for reader, offset in list(self._offsets.items()):
            await reader.commit(offset, is_answered=True)
            if self._offsets.get(reader) == offset:
                del self._offsets[reader]

    async def levels(self) -> DelayLevels:
        """The delay levels of the topic's broker.

        Raises:
            BrokerError: it does not say, or there is no broker yet.
        """
        return await self._open().levels(self._topic)

    def _open(self) -> Cluster:
        if self._cluster is None:
            raise InvalidRequest(
                "reader: expected to be used inside `async with`, found it not entered or closed"
            )
        return self._cluster

    # Reading

    async def _take_queues(self, cluster: Cluster, *, start: str) -> None:
        for queue in await cluster.queues(self._topic):
            if queue in self._queues:
                continue
            reader = QueuePuller(cluster, self._group or _NO_GROUP, queue, self._tags)
            offset = await reader.committed() if self._group is not None else None
            if offset is None:
                offset = await (reader.end() if start == "end" else reader.start())
            self._queues[queue] = reader
            self._tasks.append(asyncio.create_task(self._read(reader, offset)))

    async def _watch(self, cluster: Cluster) -> None:
        """Queues that are new since the start are read from their start."""
        while True:
            await asyncio.sleep(ROUTE_S_MAX if self._queues else TOPIC_PAUSE_S)
            try:
                await self._take_queues(cluster, start="start")
            except NotFound:
                pass
            except BrokerError as error:
                self._note(error)
            else:
                self._note(None)

    async def _read(self, reader: QueuePuller, offset: int) -> None:
        while True:
            try:
                pulled = await reader.pull(offset, wait_s=WAIT_S)
            except BrokerError as error:
                self._note(error)
                await asyncio.sleep(PAUSE_S)
                continue
            self._note(None)
            offset = pulled.next_offset
            for message in pulled.messages:
                await self._messages.put((reader, message))

    def _note(self, error: BrokerError | None) -> None:
        if self._is_lost != (error is not None):
            self._is_lost = error is not None
            self._on_connection(error)

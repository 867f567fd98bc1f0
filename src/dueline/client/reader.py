"""Reading a topic, every message, from where you say or from where a group left off.

One task per queue pulls and one looks for queues that are new, every 30 seconds, or twice a second
while the topic does not exist yet. A broker that goes away is asked again every second, so a reader
outlives its restart; `on_connection` tells when it is lost and when it is back.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
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
PULL_COUNT_MAX: Final = 1_024
"""Messages that a pull asks for; Apache's brokers give 32, unless their settings say more."""
_HELD_MAX: Final = 1_024
"""While so many have come and were not received, no queue is asked for more."""
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
        self._held: deque[tuple[QueuePuller, Received]] = deque()
        self._has_come = asyncio.Event()
        self._has_room = asyncio.Event()
        self._taking = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._queues: dict[TopicQueue, QueuePuller] = {}
        self._offsets: dict[QueuePuller, int] = {}
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        cluster = self._cluster = self._new_cluster()
        self._loop = asyncio.get_running_loop()
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
        self._held.clear()
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
        return (await self._wait(1))[0]

    async def receive_many(
        self, count_max: int, *, timeout_s: float | None = None
    ) -> list[Received]:
        """What has come; waits for one message, or until the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._wait(max(count_max, 1))
        except TimeoutError:
            return []

    async def _wait(self, count_max: int) -> list[Received]:
        while not (found := self.take(count_max)):
            self._has_come.clear()
            await self._has_come.wait()
        return found

    def take(self, count_max: int) -> list[Received]:
        """What has come and is held here, which may be nothing; any thread may call it."""
        self._open()
        with self._taking:
            taken = [self._held.popleft() for _ in range(min(count_max, len(self._held)))]
            self._offsets.update((reader, message.queue_offset + 1) for reader, message in taken)
        if taken and len(self._held) < _HELD_MAX and not self._has_room.is_set():
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._has_room.set)
        return [message for _, message in taken]

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
                pulled = await reader.pull(offset, wait_s=WAIT_S, count_max=PULL_COUNT_MAX)
            except BrokerError as error:
                self._note(error)
                await asyncio.sleep(PAUSE_S)
                continue
            self._note(None)
            offset = pulled.next_offset
            self._held.extend((reader, message) for message in pulled.messages)
            if pulled.messages:
                self._has_come.set()
            while len(self._held) >= _HELD_MAX:
                self._has_room.clear()
                if len(self._held) >= _HELD_MAX:  # still: another thread may have taken some
                    await self._has_room.wait()

    def _note(self, error: BrokerError | None) -> None:
        if self._is_lost != (error is not None):
            self._is_lost = error is not None
            self._on_connection(error)

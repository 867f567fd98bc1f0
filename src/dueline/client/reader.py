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

from dueline.client.arrivals import Arrivals, ThreadArrivals
from dueline.client.cluster import ROUTE_S_MAX, Cluster, TopicQueue
from dueline.client.loop import end_tasks
from dueline.client.pulling import QueuePuller
from dueline.client.values import Received
from dueline.credentials import Credentials
from dueline.errors import BrokerError, InvalidRequest, NotFound
from dueline.schedule import DelayLevels
from dueline.tls import ClientTls

__all__ = ["AsyncReader", "ThreadedReader"]

WAIT_S: Final = 15.0
PAUSE_S: Final = 1.0
TOPIC_PAUSE_S: Final = 0.5
PULL_COUNT_MAX: Final = 1_024
"""Messages that a pull asks for; Apache's brokers give 32, unless their settings say more."""
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
        self._tasks: list[asyncio.Task[None]] = []
        self._queues: dict[TopicQueue, QueuePuller] = {}
        self._entered: tuple[Cluster, Arrivals] | None = None

    async def __aenter__(self) -> Self:
        cluster = self._new_cluster()
        self._entered = cluster, self._new_arrivals()
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
        if self._entered is not None:
            cluster, arrivals = self._entered
            self._entered = None
            arrivals.close()
            await cluster.close()

    def _new_arrivals(self) -> Arrivals:
        return Arrivals()

    # Receiving

    @property
    def has_topic(self) -> bool:
        """Whether the topic has been found."""
        return bool(self._queues)

    async def __aiter__(self) -> AsyncIterator[Received]:
        while True:
            yield self.take_one() or await self.receive()

    def take_one(self) -> Received | None:
        """The next message if it has come already; waits for nothing."""
        _, arrivals = self._open()
        return arrivals.take_one()

    async def receive(self) -> Received:
        """The next message; waits for one."""
        _, arrivals = self._open()
        return (await arrivals.take(1))[0]

    async def receive_many(
        self, count_max: int, *, timeout_s: float | None = None
    ) -> list[Received]:
        """What has come; waits for one message, or until the time is up."""
        _, arrivals = self._open()
        return await arrivals.take(count_max, timeout_s=timeout_s)

    async def commit(self) -> None:
        """Remember for the group what was received so far.

        Raises:
            InvalidRequest: the reader has no group.
            Unavailable: the broker cannot be asked; say it again later.
        """
        if self._group is None:
            raise InvalidRequest("commit: expected a reader with a group, found one without")
        _, arrivals = self._open()
        for reader, offset in arrivals.offsets():
            await reader.commit(offset, is_answered=True)
            arrivals.commit(reader, offset)

    async def levels(self) -> DelayLevels:
        """The delay levels of the topic's broker.

        Raises:
            BrokerError: it does not say, or there is no broker yet.
        """
        cluster, _ = self._open()
        return await cluster.levels(self._topic)

    def _open(self) -> tuple[Cluster, Arrivals]:
        if self._entered is None:
            raise InvalidRequest(
                "reader: expected to be used inside `async with`, found it not entered or closed"
            )
        return self._entered

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
        _, arrivals = self._open()
        while True:
            try:
                pulled = await reader.pull(offset, wait_s=WAIT_S, count_max=PULL_COUNT_MAX)
            except BrokerError as error:
                self._note(error)
                await asyncio.sleep(PAUSE_S)
                continue
            self._note(None)
            offset = pulled.next_offset
            await arrivals.put(reader, pulled.messages)

    def _note(self, error: BrokerError | None) -> None:
        if self._is_lost != (error is not None):
            self._is_lost = error is not None
            self._on_connection(error)


class ThreadedReader(AsyncReader):
    """Its messages are received in threads outside of its loop."""

    def _new_arrivals(self) -> Arrivals:
        return ThreadArrivals()

"""Consuming as a group: queues are shared by all its clients, refused messages come again later.

A handler that raises refuses its message: the broker sends it again after 10 s, 30 s, 1 m and so on
(the delay levels from 3 on) or after the `backoff`, and after the last attempt puts it to the dead
letters. Messages of one queue are handled side by side, up to `concurrency` in all; a queue's
offset moves on when all messages before it are handled or sent back. After a crash some messages
come twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from dueline.client.cluster import Cluster, TopicQueue, error_of
from dueline.client.loop import end_tasks
from dueline.client.pulling import COUNT_MAX, PullResult, QueuePuller
from dueline.client.values import Received
from dueline.credentials import Credentials
from dueline.errors import BrokerError, InvalidRequest, NotFound, Unavailable
from dueline.times import Duration, duration_ms, time_ms
from dueline.tls import ClientTls
from dueline.wire import Command, RequestCode, ResponseCode
from dueline.wire.headers import ConsumerGroupRequest, SendBackRequest, UnregisterClientRequest

__all__ = ["AsyncConsumer", "BatchHandler", "Handler", "ThreadedConsumer"]

WAIT_S: Final = 15.0
PAUSE_S: Final = 1.0
REBALANCE_S: Final = 20.0
FINISH_S_MAX: Final = 30.0
"""How long handlers may take when the consumer leaves; what is not finished then comes again."""

Handler = Callable[[Received], Awaitable[object] | object]
T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class BatchHandler:
    """A function that is called with several messages of one queue, in order.

    They are what one request has brought, at most `count_max`. If the function raises, all of them
    are refused.
    """

    function: Callable[[Sequence[Received]], Awaitable[object] | object]
    count_max: int = COUNT_MAX


log = logging.getLogger(__name__)


class AsyncConsumer:
    """Calls a handler for each message of a topic; an async context manager.

    async with AsyncConsumer("127.0.0.1:9876", "orders", "billing", handler):
        await stopping.wait()
    """

    def __init__(  # noqa: PLR0913 - who, what and how, the rest by keyword
        self,
        name_server: str,
        topic: str,
        group: str,
        handler: Handler | BatchHandler,
        *,
        tags: str = "*",
        start: datetime | str = "start",
        concurrency: int = 16,
        attempts_max: int = 16,
        backoff: Sequence[Duration] = (),
        timeout_s: float = 5.0,
        tls: ClientTls | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """Say what to consume, and how.

        Args:
            handler: is called with each message; a `BatchHandler` with several.
            start: where a group begins that has read nothing of the topic: "start", "end", or at
                the first message that was stored at a time or after it.
            concurrency: how many handlers may run at a time.
            attempts_max: how often a message is tried again before it goes to the dead letters.
            backoff: how long to wait before the second attempt, the third and so on; the last one
                holds for all others. The broker rounds up to its next delay level.
        """
        self._batch_count = handler.count_max if isinstance(handler, BatchHandler) else 1
        _check_least("concurrency", concurrency, 1)
        _check_least("attempts_max", attempts_max, 0)
        _check_least("count_max", self._batch_count, 1)
        self._start = _start_of(start)
        self._backoff_ms = [duration_ms(each, name="backoff") for each in backoff]
        self._concurrency = concurrency
        self._topic = topic
        self._group = group
        self._handler = handler
        self._tags = tags
        self._attempts_max = attempts_max
        self._timeout_s = timeout_s
        self._new_cluster = partial(
            Cluster, name_server, timeout_s=timeout_s, tls=tls, credentials=credentials
        )
        self._client_id = f"python@{os.getpid()}#{uuid.uuid4().hex[:12]}"
        self._room = asyncio.Semaphore(concurrency)
        self._change = asyncio.Event()
        self._queues: dict[TopicQueue, asyncio.Task[None]] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        self._cluster = self._new_cluster(on_request=self._asked)
        try:
            with contextlib.suppress(NotFound):  # the topic is made by its first message
                await self._beat(self._cluster)
        except BaseException:
            await self._cluster.close()
            raise
        self._task = asyncio.create_task(self._run(self._cluster))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        own = [] if self._task is None else [self._task]
        await end_tasks([*self._queues.values(), *own])
        self._queues.clear()
        if self._works:
            _, unfinished = await asyncio.wait(self._works, timeout=FINISH_S_MAX)
            for work in unfinished:
                work.cancel()
        assert self._cluster is not None
        ext = UnregisterClientRequest(client_id=self._client_id, consumer_group=self._group)
        with contextlib.suppress(BrokerError):
            for connection in await self._cluster.brokers(self._topic):
                await connection.call(
                    RequestCode.UNREGISTER_CLIENT, ext.encode(), timeout_s=self._timeout_s
                )
        await self._cluster.close()

    def _asked(self, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._change.set()

    # The group

    async def _run(self, cluster: Cluster) -> None:
        """Beat and divide queues, each 20 s and whenever the group changes."""
        is_topic_missed = False
        while True:
            self._change.clear()
            is_whole = False
            try:
                await self._beat(cluster)
                is_whole = await self._divide(cluster)
                is_topic_missed = False
            except NotFound as error:
                if not is_topic_missed:
                    log.info("consumer %s waits: %s", self._group, error)
                is_topic_missed = True
            except BrokerError as error:
                log.warning("consumer %s: %s", self._group, error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REBALANCE_S if is_whole else PAUSE_S):
                    await self._change.wait()

    async def _beat(self, cluster: Cluster) -> None:
        subscriptions = [
            {"topic": topic, "subString": tags, "subVersion": 1, "expressionType": "TAG"}
            for topic, tags in ((self._topic, self._tags), (f"%RETRY%{self._group}", "*"))
        ]
        body = {
            "clientID": self._client_id,
            "consumerDataSet": [
                {
                    "groupName": self._group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "subscriptionDataSet": subscriptions,
                    "unitMode": False,
                }
            ],
            "producerDataSet": [],
        }
        for connection in await cluster.brokers(self._topic):
            answer = await connection.call(
                RequestCode.HEART_BEAT, {}, json.dumps(body).encode(), timeout_s=self._timeout_s
            )
            if answer.code != ResponseCode.SUCCESS:
                raise error_of(answer)

    async def _divide(self, cluster: Cluster) -> bool:
        """Take this client's part of the queues; False: some are not known yet."""
        clients = await self._clients(cluster)
        mine: set[TopicQueue] = set()
        is_whole = True
        for topic in (self._topic, f"%RETRY%{self._group}"):
            try:
                mine |= set(part_of(await cluster.queues(topic), clients, self._client_id))
            except NotFound:
                is_whole = False  # the retry topic's route may come a little later
        for queue in [queue for queue in self._queues if queue not in mine]:
            self._queues.pop(queue).cancel()
        for queue in mine - set(self._queues):
            self._queues[queue] = asyncio.create_task(self._consume(cluster, queue))
        return is_whole

    async def _clients(self, cluster: Cluster) -> list[str]:
        ext = ConsumerGroupRequest(consumer_group=self._group).encode()
        connection = (await cluster.brokers(self._topic))[0]
        answer = await connection.call(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext, timeout_s=self._timeout_s
        )
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)
        return sorted(json.loads(answer.body)["consumerIdList"])

    # One queue

    async def _consume(self, cluster: Cluster, queue: TopicQueue) -> None:
        reader = QueuePuller(
            cluster, self._group, queue, self._tags if queue.topic == self._topic else "*"
        )
        offset: int | None = None
        while True:
            try:
                if offset is None:
                    offset = await self._offset(reader)
                pulled = await reader.pull(
                    offset, wait_s=WAIT_S, count_max=max(COUNT_MAX, self._batch_count)
                )
                # What has begun is finished and committed, also when this client leaves or the
                # queue goes to another one.
                work = asyncio.create_task(self._finish(cluster, reader, pulled))
                self._works.add(work)
                work.add_done_callback(self._works.discard)
                await asyncio.shield(work)
                offset = pulled.next_offset
            except BrokerError as error:
                log.warning("consumer %s, %s: %s", self._group, queue, error)
                await asyncio.sleep(PAUSE_S)
                self._change.set()  # a broker that was started again does not know us

    async def _offset(self, reader: QueuePuller) -> int:
        """Where the group left off, else where it is to begin; what is refused is never skipped."""
        known = await reader.committed()
        if known is not None:
            return known
        if self._start == "start" or reader.queue.topic != self._topic:
            return await reader.start()
        if isinstance(self._start, int):
            offset = await reader.at(self._start)
        else:
            offset = await reader.end()
        # The next owner of the queue has to go on from here, and not from a later end.
        await reader.commit(offset, is_answered=True)
        return offset

    async def _finish(self, cluster: Cluster, reader: QueuePuller, pulled: PullResult) -> None:
        messages, size = pulled.messages, self._batch_count
        parts = [messages[start : start + size] for start in range(0, len(messages), size)]
        await asyncio.gather(*(self._handle(cluster, reader.queue, part) for part in parts))
        await reader.commit(pulled.next_offset)

    async def _handle(
        self, cluster: Cluster, queue: TopicQueue, messages: Sequence[Received]
    ) -> None:
        async with self._room:
            try:
                if isinstance(self._handler, BatchHandler):
                    await self._call(self._handler.function, messages)
                else:
                    await self._call(self._handler, messages[0])
            except Exception:
                # What a handler raises is its way to refuse a message.
                names = ", ".join(message.id for message in messages)
                log.exception("message %s was refused and comes again", names)
            else:
                return
        for message in messages:
            await self._send_back(cluster, queue, message)

    async def _call(self, handler: Callable[[A], object], argument: A) -> None:
        result = handler(argument)
        if inspect.isawaitable(result):
            await result

    async def _level(self, cluster: Cluster, message: Received) -> int:
        """The delay level of the next attempt; 0 leaves it to the broker."""
        if not self._backoff_ms:
            return 0
        wanted_ms = self._backoff_ms[min(message.attempt, len(self._backoff_ms) - 1)]
        delays_ms = (await cluster.levels(self._topic)).delays_ms
        fitting = [delay_ms for delay_ms in delays_ms if delay_ms >= wanted_ms]
        return delays_ms.index(min(fitting, default=max(delays_ms))) + 1

    async def _send_back(self, cluster: Cluster, queue: TopicQueue, message: Received) -> None:
        while True:
            try:
                header = self._header(message, await self._level(cluster, message))
                connection = await cluster.broker(queue.topic, queue.broker_name)
                answer = await connection.call(
                    RequestCode.CONSUMER_SEND_MESSAGE_BACK,
                    header.encode(),
                    timeout_s=self._timeout_s,
                )
                if answer.code == ResponseCode.SUCCESS:
                    return
                log.warning("message %s: sending back: %s", message.id, error_of(answer))
            except Unavailable as error:
                log.warning("message %s: sending back: %s", message.id, error)
            # The offset must not move on before the message is safe.
            await asyncio.sleep(PAUSE_S)

    def _header(self, message: Received, delay_level: int) -> SendBackRequest:
        return SendBackRequest(
            offset=message.position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.id,
            origin_topic=message.topic,
            max_reconsume_times=self._attempts_max,
        )


class ThreadedConsumer(AsyncConsumer):
    """Calls handlers that are plain functions in threads of its own."""

    _threads: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="dueline-handler")
        return await super().__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)

    async def _call(self, handler: Callable[[A], object], argument: A) -> None:
        if inspect.iscoroutinefunction(handler):
            await handler(argument)
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, handler, argument)


def _check_least(name: str, number: int, least: int) -> None:
    if number < least:
        raise InvalidRequest(f"{name}: expected {least} or more, found {number}")


def _start_of(start: datetime | str) -> str | int:
    if isinstance(start, str) and start in ("start", "end"):
        return start
    try:
        return time_ms(start, name="start")
    except InvalidRequest as error:
        raise InvalidRequest(f"start: expected start, end or a time; {error.message}") from error


def part_of(items: Sequence[T], clients: Sequence[str], client_id: str) -> list[T]:
    """One client's equal part, in one piece, as every client of the group works it out.

    >>> part_of("abcde", ["x", "y"], "y")
    ['d', 'e']
    """
    if client_id not in clients:
        return []
    place = list(clients).index(client_id)
    size, rest = divmod(len(items), len(clients))
    start = place * size + min(place, rest)
    return list(items[start : start + size + (place < rest)])

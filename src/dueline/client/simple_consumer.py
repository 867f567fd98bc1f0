"""Taking messages and acknowledging each one: for queues of work.

A message that was taken is invisible to the other consumers of the group for a while. The consumer
that took it acknowledges it, and it does not come again; or releases it, and it comes again at once
or later. As long as this consumer is open and the process lives, the time is renewed, however long
the work takes. A process that dies renews nothing: its messages come to another consumer when their
time is over, one attempt older, and after the last attempt (16 by default, see the group's
settings) they go to the dead letters.

RocketMQ calls it POP; it needs a broker that has it: Dueline, or RocketMQ 5.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Final, Self

from dueline.client.cluster import Cluster, error_of
from dueline.client.loop import end_tasks
from dueline.client.values import Received, read_messages
from dueline.clock import Clock
from dueline.credentials import Credentials
from dueline.errors import BrokerError, InvalidRequest, NotFound, Unavailable
from dueline.times import Duration, duration_ms
from dueline.tls import ClientTls
from dueline.wire import Command, RequestCode, ResponseCode
from dueline.wire.headers import (
    AckRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopRequest,
    PopResponse,
)

__all__ = ["AsyncSimpleConsumer", "Taken"]

POLL_S: Final = 15.0
PAUSE_S: Final = 1.0
TOPIC_PAUSE_S: Final = 0.5
COUNT_MAX: Final = 32
IN_FLIGHT_MAX: Final = 64
RENEWAL_COUNT: Final = 3
"""So often a message's time is renewed before it would be over."""
INVISIBLE_MS_MIN: Final = 1_000
_ANY_QUEUE: Final = -1
_EMPTY: Final = (
    ResponseCode.POLLING_TIMEOUT,
    ResponseCode.POLLING_FULL,
    ResponseCode.PULL_NOT_FOUND,
)

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Taken:
    """A message that belongs to this consumer until it is acknowledged or released."""

    message: Received
    broker_name: str
    receipt: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    """Renewing changes the receipt: an acknowledgement waits for that."""


class AsyncSimpleConsumer:
    """Takes messages of a topic for a group; an async context manager.

    async with AsyncSimpleConsumer("127.0.0.1:9876", "orders", "billing") as consumer:
        for taken in await consumer.receive(10, timeout_s=30):
            bill(taken.message.body)
            await consumer.ack(taken)
    """

    def __init__(  # noqa: PLR0913 - who and what, and by keyword how
        self,
        name_server: str,
        topic: str,
        group: str,
        *,
        tags: str = "*",
        invisible: Duration = 60,
        timeout_s: float = 5.0,
        tls: ClientTls | None = None,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Say what to take.

        Args:
            invisible: how long a message is kept for a process that has died, from a second on.
        """
        self._invisible_ms = duration_ms(invisible)
        if self._invisible_ms < INVISIBLE_MS_MIN:
            raise InvalidRequest(
                f"invisible: expected a second or more, found {self._invisible_ms} ms"
            )
        self._topic = topic
        self._group = group
        self._tags = tags
        self._timeout_s = timeout_s
        self._new_cluster = partial(
            Cluster, name_server, timeout_s=timeout_s, tls=tls, credentials=credentials
        )
        self._clock = clock or Clock()
        self._cluster: Cluster | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._ready: deque[Taken] = deque()
        self._held: dict[Taken, None] = {}
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._cluster = self._new_cluster()
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        own = [] if self._renewing is None else [self._renewing]
        await end_tasks([*self._polls.values(), *own])
        if self._cluster is None:
            return
        # With its connections end the requests that wait at brokers: they would be given what is
        # released now, and nobody would read the answer.
        await self._cluster.close()
        await self._each(self.release, list(self._held))
        cluster, self._cluster = self._cluster, None
        await cluster.close()

    # Taking

    async def receive(self, count_max: int = 1, *, timeout_s: float | None = None) -> list[Taken]:
        """What nobody else has; waits for one message, or until the time is up.

        A topic that does not exist yet is waited for, and so is a broker that is away.
        """
        cluster = self._open()
        _check_count(count_max)
        try:
            async with asyncio.timeout(timeout_s):
                while not self._ready:
                    self._news.clear()
                    await self._poll_all(cluster, count_max)
                    if not self._ready:
                        await self._news.wait()
        except TimeoutError:
            pass
        return self._first(count_max)

    async def receive_now(self, count_max: int = 1) -> list[Taken]:
        """What nobody else has and is there now: if that is nothing, every broker has said so.

        What a request of `receive` gets that still waits at a broker comes with the next call.

        Raises:
            Unavailable: a broker cannot be asked.
        """
        cluster = self._open()
        _check_count(count_max)
        if not self._ready:
            try:
                queues = await cluster.queues(self._topic)
            except NotFound:
                return []
            for name in {queue.broker_name for queue in queues}:
                self._take(await self._pop(cluster, name, min(count_max, COUNT_MAX), poll_s=0.0))
        return self._first(count_max)

    def _first(self, count_max: int) -> list[Taken]:
        return [self._ready.popleft() for _ in range(min(count_max, len(self._ready)))]

    def _take(self, found: list[Taken]) -> None:
        self._held.update(dict.fromkeys(found))
        self._ready.extend(found)

    async def _poll_all(self, cluster: Cluster, count_max: int) -> None:
        """Ask each broker that is not being asked; what it answers later is not lost."""
        try:
            queues = await cluster.queues(self._topic)
        except NotFound:
            await asyncio.sleep(TOPIC_PAUSE_S)
            self._news.set()
            return
        except Unavailable as error:
            log.warning("consumer %s: %s", self._group, error)
            await asyncio.sleep(PAUSE_S)
            self._news.set()
            return
        for name in {queue.broker_name for queue in queues} - set(self._polls):
            task = asyncio.create_task(self._poll(cluster, name, min(count_max, COUNT_MAX)))
            self._polls[name] = task

    async def _poll(self, cluster: Cluster, broker_name: str, count_max: int) -> None:
        try:
            self._take(await self._pop(cluster, broker_name, count_max))
        except BrokerError as error:
            log.warning("consumer %s: %s", self._group, error)
            await asyncio.sleep(PAUSE_S)
        finally:
            self._polls.pop(broker_name, None)
            self._news.set()

    async def _pop(
        self, cluster: Cluster, broker_name: str, count_max: int, *, poll_s: float = POLL_S
    ) -> list[Taken]:
        header = PopRequest(
            consumer_group=self._group,
            topic=self._topic,
            queue_id=_ANY_QUEUE,
            max_msg_nums=count_max,
            invisible_time=self._invisible_ms,
            poll_time=int(poll_s * 1_000),
            born_time=self._clock.now_ms(),
            init_mode=0,
            exp_type="TAG",
            exp=self._tags,
        )
        connection = await cluster.broker(self._topic, broker_name)
        answer = await connection.call(
            RequestCode.POP_MESSAGE, header.encode(), timeout_s=poll_s + self._timeout_s
        )
        if answer.code in _EMPTY:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)
        response = PopResponse.decode(answer.ext)
        return [
            Taken(
                message=message,
                broker_name=broker_name,
                receipt=message.properties.get("POP_CK")
                or _receipt(response, message, broker_name),
            )
            for message in read_messages(answer.body)
        ]

    # Having done with it

    async def ack(self, taken: Taken) -> bool:
        """Say that the work is done; False: the message had gone back, and comes or came again.

        Raises:
            Unavailable: the broker cannot be asked; say it again later.
        """
        async with taken.lock:
            header = AckRequest(
                consumer_group=self._group,
                topic=self._topic,
                queue_id=taken.message.queue_id,
                extra_info=taken.receipt,
                offset=taken.message.queue_offset,
            )
            connection = await self._open().broker(self._topic, taken.broker_name)
            answer = await connection.call(
                RequestCode.ACK_MESSAGE, header.encode(), timeout_s=self._timeout_s
            )
            is_accepted = _is_accepted(answer)
            self._held.pop(taken, None)
            return is_accepted

    async def release(self, taken: Taken, *, delay: Duration = 0) -> bool:
        """Give a message back: it comes again, to any consumer, at once or after a delay.

        False: it had gone back before.

        Raises:
            Unavailable: the broker cannot be asked; the message comes again when its time is over.
        """
        self._held.pop(taken, None)
        async with taken.lock:
            return await self._change(taken, duration_ms(delay))

    async def _change(self, taken: Taken, invisible_ms: int) -> bool:
        header = ChangeInvisibleTimeRequest(
            consumer_group=self._group,
            topic=self._topic,
            queue_id=taken.message.queue_id,
            extra_info=taken.receipt,
            offset=taken.message.queue_offset,
            invisible_time=invisible_ms,
        )
        connection = await self._open().broker(self._topic, taken.broker_name)
        answer = await connection.call(
            RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME, header.encode(), timeout_s=self._timeout_s
        )
        if not _is_accepted(answer):
            return False
        changed = ChangeInvisibleTimeResponse.decode(answer.ext)
        words = taken.receipt.split(" ")
        words[1:4] = map(str, (changed.pop_time, changed.invisible_time, changed.revive_qid))
        taken.receipt = " ".join(words)
        return True

    # Keeping

    async def _renew(self) -> None:
        """While the process lives, its messages are its own."""
        while True:
            await asyncio.sleep(self._invisible_ms / 1_000 / RENEWAL_COUNT)
            await self._each(self._keep, list(self._held))

    async def _keep(self, taken: Taken) -> None:
        async with taken.lock:
            if taken not in self._held:
                return
            if not await self._change(taken, self._invisible_ms):
                log.warning("message %s: it was kept for too long, and went back", taken.message.id)
                self._held.pop(taken, None)

    async def _each(
        self, work: Callable[[Taken], Awaitable[object]], messages: Iterable[Taken]
    ) -> None:
        """Side by side; what fails is logged, and its message comes again in time."""
        room = asyncio.Semaphore(IN_FLIGHT_MAX)

        async def one(taken: Taken) -> None:
            async with room:
                try:
                    await work(taken)
                except BrokerError as error:
                    log.warning("message %s: %s", taken.message.id, error)

        await asyncio.gather(*map(one, messages))

    def _open(self) -> Cluster:
        if self._cluster is None:
            raise InvalidRequest(
                "consumer: expected to be used inside `async with`, found it not entered or closed"
            )
        return self._cluster


def _check_count(count_max: int) -> None:
    if count_max < 1:
        raise InvalidRequest(f"count_max: expected 1 or more, found {count_max}")


def _is_accepted(answer: Command) -> bool:
    """False: the receipt does not count any more."""
    if answer.code == ResponseCode.SUCCESS:
        return True
    error = error_of(answer)
    if isinstance(error, InvalidRequest):
        return False
    raise error


def _receipt(response: PopResponse, message: Received, broker_name: str) -> str:
    """Made up from the answer's header, for a message that has no room for it."""
    words = (
        message.queue_offset,
        response.pop_time,
        response.invisible_time,
        response.revive_qid,
        0,
        broker_name,
        message.queue_id,
        message.queue_offset,
    )
    return " ".join(map(str, words))

"""Sending: at once, later, many, and taking back."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from dueline.client.batches import batches_of, is_in_delay_log, sent_batch
from dueline.client.cluster import Cluster, TopicQueue, error_of
from dueline.client.delayed import DelayedMessages
from dueline.client.direct import Direct
from dueline.client.transport import AsyncTransport, Transport
from dueline.client.values import Outgoing, Sent
from dueline.clock import Clock
from dueline.credentials import Credentials
from dueline.errors import (
    BrokerError,
    InvalidRequest,
    LimitExceeded,
    OutcomeUnknown,
    Unavailable,
)
from dueline.message import HOST_UNKNOWN, UniqueIds, encode_properties
from dueline.schedule import DelayLevels
from dueline.times import Duration
from dueline.tls import ClientTls
from dueline.wire import Command, Language, RequestCode, ResponseCode
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.headers import SendRequest, StoredResponse
from dueline.wire.request_pattern import RequestPattern

__all__ = ["AsyncProducer", "DirectProducer"]

ATTEMPT_COUNT: Final = 3
GROUP: Final = "dueline_producer"
IN_FLIGHT_MAX: Final = 256
RETRY_S: Final = 0.1
PATTERN_COUNT_MAX: Final = 10_000
_VARYING: Final = SendRequest.short_names("born_timestamp", "properties")
_STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
"""The message is there; brokers of Apache's say that their disk or replica is late with it."""

OnResult = Callable[[int, Sent | BrokerError], None]
"""Called with a message's place among those given, and its answer."""


class AsyncProducer(DelayedMessages):
    """Sends messages, and changes those that wait; an async context manager.

    async with AsyncProducer("127.0.0.1:9876") as producer:
        await producer.send("orders", b"17", delay=timedelta(minutes=30))
    """

    def __init__(  # noqa: PLR0913 - where, and by keyword how
        self,
        name_server: str,
        *,
        group: str = GROUP,
        timeout_s: float = 5.0,
        tls: ClientTls | None = None,
        credentials: Credentials | None = None,
        attempts_max: int = ATTEMPT_COUNT,
        clock: Clock | None = None,
    ) -> None:
        """Say where and how.

        Args:
            attempts_max: how often a send is tried. Each but the first may make a copy, with the
                same id, of a message whose answer was lost.
        """
        if attempts_max < 1:
            raise InvalidRequest(f"attempts_max: expected 1 or more, found {attempts_max}")
        self._attempts_max = attempts_max
        self._group = group
        self._timeout_s = timeout_s
        self._new_cluster = functools.partial(
            Cluster, name_server, timeout_s=timeout_s, tls=tls, credentials=credentials
        )
        self._clock = clock or Clock()
        self._ids = UniqueIds(host=HOST_UNKNOWN, start_ms=self._clock.now_ms())
        self._turn = itertools.count(os.getpid())
        self._batching: dict[str, bool] = {}
        """By topic, whether its brokers take batches of delayed messages."""
        self._patterns: dict[tuple[TopicQueue, bool], RequestPattern] = {}
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        self._cluster = self._new_cluster(transport=self._new_transport())
        return self

    def _new_transport(self) -> Transport:
        return AsyncTransport()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._cluster is not None:
            await self._cluster.close()
            self._cluster = None

    async def send(  # noqa: PLR0913 - a message's parts, by keyword
        self,
        topic: str,
        body: bytes,
        *,
        delay: Duration | None = None,
        delay_level: int | None = None,
        deliver_at: datetime | str | None = None,
        tag: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> Sent:
        """Send one message; returns when the broker has it.

        Raises:
            InvalidRequest, NotFound, LimitExceeded: the broker refuses it.
            Unavailable: no broker could be asked, or it refuses for now. The message is not there.
            OutcomeUnknown: a broker was asked and did not say. The message may be there.
        """
        return await self.send_one(
            Outgoing(
                topic=topic,
                body=body,
                tag=tag,
                keys=keys,
                properties=properties or {},
                delay=delay,
                delay_level=delay_level,
                deliver_at=deliver_at,
                queue_id=queue_id,
            )
        )

    async def send_one(self, message: Outgoing) -> Sent:
        """Send a message that was made before."""
        unique_id = self._ids.next()
        properties = encode_properties(
            message.to_properties(unique_id, self._clock.now_ms())
        ).decode()
        answer, queue = await self._deliver(message, properties, message.body)
        response = StoredResponse.decode(answer.ext)
        self._note_answer(message, response.msg_id)
        return Sent(
            topic=message.topic,
            id=unique_id,
            offset_id=response.msg_id,
            queue_id=queue.queue_id,
            queue_offset=response.queue_offset,
            handle=response.recall_handle,
        )

    async def send_many(self, messages: Sequence[Outgoing]) -> list[Sent]:
        """Send many; messages of one topic travel in batches.

        Delayed ones do so where the broker is Dueline, which the answer to the first of them says.
        To others they go one by one, many at a time: RocketMQ has no batches of those.

        Raises:
            BrokerError: of the first message that could not be sent; others may have been.
        """
        sent = []
        for result in await self.send_each(messages):
            if isinstance(result, BrokerError):
                raise result
            sent.append(result)
        return sent

    async def send_each(
        self, messages: Sequence[Outgoing], *, on_result: OnResult | None = None
    ) -> list[Sent | BrokerError]:
        """Like `send_many`, with an answer for each: sent, or why not.

        Args:
            on_result: is told each answer when it comes, for callers that may be interrupted.
        """
        found: dict[int, Sent | BrokerError] = {}

        async def work(places: list[int]) -> None:
            found.update(zip(places, await self._send_together(messages, places), strict=True))
            if on_result is not None:
                for place in places:
                    on_result(place, found[place])

        first, *others = batches_of(messages, takes_delayed=self._takes_delayed) or [[]]
        if first:
            await work(first)  # alone: it may create the topic, and it finds the way for the others
        if others:
            others = batches_of(messages, start=len(first), takes_delayed=self._takes_delayed)
        await self._open().transport.side_by_side(
            (functools.partial(work, places) for places in others), count_max=IN_FLIGHT_MAX
        )
        return [found[place] for place in range(len(messages))]

    async def _send_together(
        self, messages: Sequence[Outgoing], places: list[int]
    ) -> list[Sent | BrokerError]:
        chosen = [messages[place] for place in places]
        try:
            if len(chosen) == 1:
                return [await self.send_one(chosen[0])]
            return list(await self._send_batch(chosen))
        except InvalidRequest as error:
            if len(chosen) == 1 or not chosen[0].is_delayed:
                return [error] * len(chosen)
        except BrokerError as error:
            return [error] * len(chosen)
        # Refused as a whole for the sake of one of them: each gets the answer that is its own.
        return [
            answer for place in places for answer in await self._send_together(messages, [place])
        ]

    def _takes_delayed(self, topic: str) -> bool:
        """Do all brokers of a topic that were sent to take batches of delayed messages?"""
        return self._batching.get(topic, False)

    def _note_answer(self, message: Outgoing, offset_id: str) -> None:
        """Learn from an answer whether its broker is Dueline: its ids name the delay log."""
        if self._batching.get(message.topic, True) and message.is_delayed:
            self._batching[message.topic] = is_in_delay_log(offset_id)

    async def _send_batch(self, messages: Sequence[Outgoing]) -> list[Sent]:
        ids = self._ids.many(len(messages))
        now_ms = self._clock.now_ms()
        body = encode_batch(
            BatchMessage(
                body=each.body, properties=encode_properties(each.to_properties(unique, now_ms))
            )
            for each, unique in zip(messages, ids, strict=True)
        )
        answer, queue = await self._deliver(messages[0], "", body, is_batch=True)
        return sent_batch(
            messages, ids, StoredResponse.decode(answer.ext), queue=queue, now_ms=now_ms
        )

    async def _deliver(
        self, message: Outgoing, properties: str, body: bytes, *, is_batch: bool = False
    ) -> tuple[Command, TopicQueue]:
        """Ask brokers until one has it; the same id each time, so a copy can be told."""
        cluster = self._open()
        failure: BrokerError | None = None
        unknown: BrokerError | None = None  # a refusal says nothing of attempts before it
        for attempt in range(self._attempts_max):
            if attempt:
                await cluster.transport.sleep(RETRY_S * 2**attempt)
            try:
                topic = message.topic
                queues = cluster.known_queues(topic) or await cluster.queues(
                    topic, for_writing=True
                )
                queue = self._chosen(queues, message)
                name = queue.broker_name
                connection = cluster.known_broker(topic, name) or await cluster.broker(topic, name)
                pattern = self._pattern(queue, is_batch=is_batch)
                values = (str(self._clock.now_ms()), properties)
                try:
                    answer = await connection.call_known(
                        pattern, values, body, timeout_s=self._timeout_s
                    )
                except Unavailable as error:
                    raise OutcomeUnknown(f"{error.message}; the message may be there") from error
                _check_stored(answer)
                return answer, queue
            except OutcomeUnknown as error:
                failure = unknown = error
            except (Unavailable, LimitExceeded) as error:
                failure = error
        assert failure is not None
        raise unknown or failure

    def _chosen(self, queues: Sequence[TopicQueue], message: Outgoing) -> TopicQueue:
        if message.queue_id is None:
            return queues[next(self._turn) % len(queues)]
        for queue in queues:
            if queue.queue_id == message.queue_id:
                return queue
        raise InvalidRequest(
            f"topic {message.topic}: expected a queue id of {len(queues)} queues, "
            f"found {message.queue_id}"
        )

    def _pattern(self, queue: TopicQueue, *, is_batch: bool) -> RequestPattern:
        """All sends to a queue, but for when they were born and the properties."""
        known = self._patterns.get((queue, is_batch))
        if known is None:
            if len(self._patterns) >= PATTERN_COUNT_MAX:
                self._patterns.clear()
            known = self._patterns[queue, is_batch] = self._new_pattern(queue, is_batch=is_batch)
        return known

    def _new_pattern(self, queue: TopicQueue, *, is_batch: bool) -> RequestPattern:
        ext = SendRequest(
            producer_group=self._group,
            topic=queue.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="",
            reconsume_times=0,
            batch=is_batch,
            broker_name=queue.broker_name,
        ).encode_short()
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        return RequestPattern(code, ext, _VARYING, Language.PYTHON)

    async def levels(self, topic: str) -> DelayLevels:
        """The delay levels of the topic's broker."""
        return await self._open().levels(topic)

    def _open(self) -> Cluster:
        if self._cluster is None:
            raise InvalidRequest(
                "producer: expected to be used inside `async with`, found it not entered or closed"
            )
        return self._cluster


def _check_stored(answer: Command) -> None:
    """Raise what an answer says if it is not that the message is there."""
    if answer.code == ResponseCode.SYSTEM_ERROR:
        raise OutcomeUnknown(f"{answer.remark or 'the broker failed'}; it may be there")
    if answer.code not in _STORED:
        raise error_of(answer)


class DirectProducer(AsyncProducer):
    """One whose coroutines are for `Direct.run`, in any thread."""

    @functools.cached_property
    def direct(self) -> Direct:
        return Direct()

    def _new_transport(self) -> Direct:
        return self.direct

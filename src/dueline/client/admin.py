"""What operators ask of all brokers: topics, consumer groups with their lag, dead letters.

These are the requests of RocketMQ's own tools, so an Apache broker answers them as well; only how
many messages wait is Dueline's. Not in `dueline.client` itself: programs that send need none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, TypeVar

from dueline.admission import DEAD_PREFIX, RESERVED_PROPERTIES
from dueline.client.cluster import DEFAULT_TOPIC, Cluster, TopicQueue, error_of
from dueline.client.connection import AnyConnection
from dueline.client.pulling import QueuePuller
from dueline.client.values import Outgoing, Received
from dueline.credentials import Credentials
from dueline.errors import NotFound
from dueline.tls import ClientTls
from dueline.wire import Command, RequestCode, ResponseCode
from dueline.wire.admin_bodies import (
    ConsumerConnections,
    ConsumeStats,
    GroupConfigs,
    QueueOffsets,
    TopicConfigs,
    TopicList,
    TopicStats,
)
from dueline.wire.admin_headers import (
    ConsumeStatsRequest,
    CreateTopicRequest,
    ResetOffsetRequest,
    TopicRequest,
)
from dueline.wire.delayed import CountPending, DelayedCode, PendingCounts
from dueline.wire.headers import ConsumerGroupRequest, SendBackRequest

__all__ = ["AsyncAdmin", "DeadLetter", "GroupFigures", "QueuePlace", "TopicFigures"]

AT_ONCE_MAX: Final = 64
RESEND_LEVEL: Final = 1
"""The shortest delay that there is: a message that is sent back always has one."""
_READER: Final = "dueline_reader"
_READ_WRITE: Final = 6

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFigures:
    """A topic on all brokers; `last_ms` is when its last message became visible."""

    topic: str
    queue_count: int
    message_count: int
    pending_count: int
    last_ms: int | None
    is_internal: bool

    def plus(self, other: TopicFigures) -> TopicFigures:
        return replace(
            self,
            queue_count=self.queue_count + other.queue_count,
            message_count=self.message_count + other.message_count,
            pending_count=self.pending_count + other.pending_count,
            last_ms=max(self.last_ms or 0, other.last_ms or 0) or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """How far a group is in one queue; `consumed_ms`: the time of the last message it has read."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    end: int
    consumed_ms: int | None

    @property
    def lag(self) -> int:
        return max(self.end - self.offset, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """A consumer group, the clients that are here, and how far it is."""

    group: str
    clients: tuple[str, ...]
    places: tuple[QueuePlace, ...]

    def plus(self, other: GroupFigures) -> GroupFigures:
        clients = dict.fromkeys(self.clients + other.clients)
        return replace(self, clients=tuple(clients), places=self.places + other.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that a group could not handle, and where it lies."""

    message: Received
    queue: TopicQueue

    @property
    def origin(self) -> str:
        """The topic that it was sent to."""
        return self.message.properties.get("DLQ_ORIGIN_TOPIC", self.message.topic)

    def as_new(self) -> Outgoing:
        """The same message as its sender would send it again: to its topic, for every group."""
        message = self.message
        return Outgoing(
            topic=self.origin,
            body=message.body,
            tag=message.tag,
            keys=message.keys,
            properties={
                name: value
                for name, value in message.properties.items()
                if name not in RESERVED_PROPERTIES
            },
        )


class AsyncAdmin:
    """Asks and tells all brokers of a name server; an async context manager."""

    def __init__(
        self,
        name_server: str,
        *,
        timeout_s: float = 5.0,
        tls: ClientTls | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._timeout_s: Final = timeout_s
        self._cluster = Cluster(name_server, timeout_s=timeout_s, tls=tls, credentials=credentials)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._cluster.close()

    # Topics

    async def topics(self) -> list[TopicFigures]:
        """Every topic, by name, with what all brokers say of it."""
        found: dict[str, TopicFigures] = {}
        for connection in await self._cluster.all_brokers():
            for each in await self._topics_of(connection):
                known = found.get(each.topic)
                found[each.topic] = each if known is None else known.plus(each)
        return sorted(found.values(), key=lambda each: each.topic)

    async def _topics_of(self, connection: AnyConnection) -> list[TopicFigures]:
        answer = await self._ask(connection, RequestCode.GET_ALL_TOPIC_CONFIG)
        configs = TopicConfigs.decode(answer.body).topic_config_table
        answer = await self._ask(connection, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        internal = set(TopicList.decode(answer.body).topic_list)
        pending = await self._pending_of(connection)

        async def stats_of(topic: str) -> TopicStats:
            ext = TopicRequest(topic=topic).encode()
            answer = await self._ask(connection, RequestCode.GET_TOPIC_STATS_INFO, ext)
            return TopicStats.decode(answer.body)

        spans = {
            topic: list(stats.offset_table.values())
            for topic, stats in (await _of_each(list(configs), stats_of)).items()
        }
        return [
            TopicFigures(
                topic=topic,
                queue_count=max(config.read_queue_nums, config.write_queue_nums),
                message_count=sum(span.max_offset - span.min_offset for span in spans[topic]),
                pending_count=pending.get(topic, 0),
                last_ms=max((span.last_update_timestamp for span in spans[topic]), default=0)
                or None,
                is_internal=topic in internal or topic.startswith("%"),
            )
            for topic, config in configs.items()
        ]

    async def _pending_of(self, connection: AnyConnection) -> Mapping[str, int]:
        answer = await connection.call(
            DelayedCode.COUNT_PENDING, {}, CountPending().encode(), timeout_s=self._timeout_s
        )
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return {}  # one of Apache's
        return PendingCounts.decode(_checked(answer).body).topics

    async def create_topic(self, topic: str, *, queue_count: int) -> None:
        """Make a topic on every broker, or change how many queues it has."""
        header = CreateTopicRequest(
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=queue_count,
            write_queue_nums=queue_count,
            perm=_READ_WRITE,
            topic_filter_type="SINGLE_TAG",
        )
        for connection in await self._cluster.all_brokers():
            await self._ask(connection, RequestCode.UPDATE_AND_CREATE_TOPIC, header.encode())

    async def delete_topic(self, topic: str) -> None:
        """Forget a topic on every broker.

        Raises:
            NotFound: none has it.
        """
        if topic not in {each.topic for each in await self.topics()}:
            raise NotFound(f"topic {topic}: expected one that exists, found none", what="topic")
        header = TopicRequest(topic=topic)
        for connection in await self._cluster.all_brokers():
            await self._ask(connection, RequestCode.DELETE_TOPIC_IN_BROKER, header.encode())

    # Groups

    async def groups(self) -> list[GroupFigures]:
        """Every consumer group, by name, with what all brokers say of it."""
        found: dict[str, GroupFigures] = {}
        for connection in await self._cluster.all_brokers():
            for name in await self._group_names(connection):
                each = await self._group_of(connection, name)
                known = found.get(name)
                found[name] = each if known is None else known.plus(each)
        return sorted(found.values(), key=lambda each: each.group)

    async def _group_names(self, connection: AnyConnection) -> list[str]:
        answer = await self._ask(connection, RequestCode.GET_ALL_SUBSCRIPTION_GROUP_CONFIG)
        return sorted(GroupConfigs.decode(answer.body).subscription_group_table)

    async def _group_of(self, connection: AnyConnection, group: str) -> GroupFigures:
        ext = ConsumeStatsRequest(consumer_group=group).encode()
        answer = await self._ask(connection, RequestCode.GET_CONSUME_STATS, ext)
        places = [
            QueuePlace(
                topic=queue.topic,
                broker=queue.broker_name,
                queue_id=queue.queue_id,
                offset=each.consumer_offset,
                end=each.broker_offset,
                consumed_ms=each.last_timestamp or None,
            )
            for queue, each in ConsumeStats.decode(answer.body).offset_table.items()
        ]
        places.sort(key=lambda each: (each.topic, each.broker, each.queue_id))
        clients = await self._clients_of(connection, group)
        return GroupFigures(group=group, clients=clients, places=tuple(places))

    async def _clients_of(self, connection: AnyConnection, group: str) -> tuple[str, ...]:
        ext = ConsumerGroupRequest(consumer_group=group).encode()
        answer = await connection.call(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ext, timeout_s=self._timeout_s
        )
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return ()
        found = ConsumerConnections.decode(_checked(answer).body).connection_set
        return tuple(sorted(each.client_id for each in found))

    async def reset(
        self,
        group: str,
        topic: str,
        *,
        timestamp_ms: int,
        queue_id: int | None = None,
        offset: int | None = None,
    ) -> list[tuple[TopicQueue, int]]:
        """Let a group go on from a time (-1: the end) or an offset; returns where, by queue.

        Raises:
            NotFound: no such group, which a broker might make, or no such topic.
        """
        await self._check_group(group)
        header = ResetOffsetRequest(
            topic=topic,
            group=group,
            timestamp=timestamp_ms,
            is_force=True,
            queue_id=queue_id,
            offset=offset,
        )
        found = []
        for connection in await self._cluster.brokers(topic):
            code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
            answer = await self._ask(connection, code, header.encode())
            for queue, at in QueueOffsets.decode(answer.body).offset_table.items():
                place = TopicQueue(
                    topic=topic, broker_name=queue.broker_name, queue_id=queue.queue_id
                )
                found.append((place, at))
        return sorted(found)

    async def _check_group(self, group: str) -> None:
        for connection in await self._cluster.all_brokers():
            if group in await self._group_names(connection):
                return
        raise NotFound(
            f"consumer group {group}: expected one that exists, found none; `dueline groups` "
            "lists them",
            what="group",
        )

    # Dead letters

    async def dead_letters(
        self, group: str, *, count_max: int | None = None
    ) -> AsyncIterator[DeadLetter]:
        """A group's dead letters, oldest first; with a count, the newest of each queue.

        Raises:
            NotFound: no such group.
        """
        await self._check_group(group)
        try:
            queues = await self._cluster.queues(f"{DEAD_PREFIX}{group}")
        except NotFound:
            return  # the first one makes the topic
        for queue in queues:
            puller = QueuePuller(self._cluster, _READER, queue, "*")
            offset, end = await puller.start(), await puller.end()
            if count_max is not None:
                offset = max(offset, end - count_max)
            while offset < end:
                pulled = await puller.pull(offset, wait_s=0)
                for message in pulled.messages:
                    yield DeadLetter(message=message, queue=queue)
                if pulled.next_offset <= offset:
                    break
                offset = pulled.next_offset

    async def resend(self, group: str, letter: DeadLetter) -> None:
        """Let a group, and no other, have a dead letter once more."""
        message, queue = letter.message, letter.queue
        header = SendBackRequest(
            offset=message.position,
            group=group,
            delay_level=RESEND_LEVEL,
            origin_msg_id=message.id,
            origin_topic=letter.origin,
            max_reconsume_times=message.attempt + 1,
        )
        connection = await self._cluster.broker(queue.topic, queue.broker_name)
        await self._ask(connection, RequestCode.CONSUMER_SEND_MESSAGE_BACK, header.encode())

    async def _ask(
        self, connection: AnyConnection, code: RequestCode, ext: Mapping[str, str] | None = None
    ) -> Command:
        return _checked(await connection.call(code, ext or {}, timeout_s=self._timeout_s))


def _checked(answer: Command) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise error_of(answer)
    return answer


async def _of_each(keys: Sequence[K], ask: Callable[[K], Awaitable[V]]) -> dict[K, V]:
    """The answers by what was asked for, some at a time."""
    found: dict[K, V] = {}
    for start in range(0, len(keys), AT_ONCE_MAX):
        part = keys[start : start + AT_ONCE_MAX]
        found |= zip(part, await asyncio.gather(*map(ask, part)), strict=True)
    return found

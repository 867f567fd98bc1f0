"""PullMessage, and the offsets of groups and queues: consumers that keep their own place.

The offsets are those of the other protocol, in one table: a group that has received or pulled with
either finds its place with both. A pull reads without receipts: nothing is held, and nothing is
consumed until UpdateOffset says so.

    PullMessage     status, then messages, then the offset to go on with; that comes with every
                    outcome that has one, also when nothing was found or the offset cannot be
    GetOffset       how far a group is; OFFSET_NOT_FOUND if it has never consumed from the queue
    UpdateOffset    how far a group has come
    QueryOffset     a queue's beginning, its end, or the first message at or after a time
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from dueline.broker.filters import Filter
from dueline.errors import BrokerError
from dueline.message import decode_properties
from dueline.server.grpc.bodies import is_heavy
from dueline.server.grpc.codes import Code, Refused, ok, status
from dueline.server.grpc.convert import due_ms_of, filter_from, name_of, plain_proto
from dueline.server.grpc.parts import Parts, Peer, client_id_of
from dueline.server.grpc.polling import News, polling_s
from dueline.server.grpc.routes import Routes, topic_of
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class
from dueline.store import ReadStatus, Record
from dueline.store.record import decode

__all__ = ["GrpcOffsets"]

_SCAN_COUNT_MAX: Final = 64
"""Reads without a match before the caller is asked to pull again."""
_POLICY: Final = ENUMS["QueryOffsetPolicy"]

_Pulled: Final = message_class("PullMessageResponse")
_Got: Final = message_class("GetOffsetResponse")
_Updated: Final = message_class("UpdateOffsetResponse")
_Queried: Final = message_class("QueryOffsetResponse")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pull:
    """A pull, understood and checked."""

    topic: str
    queue_id: int
    count_max: int
    wanted: Filter
    polling_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a pull leads to."""

    status: Any
    next_offset: int
    messages: tuple[tuple[Record, dict[str, str]], ...] = ()


class GrpcOffsets:
    """The methods about offsets."""

    def __init__(self, parts: Parts, routes: Routes) -> None:
        self._parts = parts
        self._routes = routes

    # Pulling

    async def pull_message(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            client_id_of(context)
            pull = await self._understand(request, context)
            found = await self._pull(pull, request.offset, self._parts.peers(context.peer()))
        except BrokerError as error:
            yield _Pulled(status=status(error))
            return
        yield _Pulled(status=found.status)
        for record, properties in found.messages:
            yield _Pulled(message=await self._proto(record, properties, request))
        yield _Pulled(next_offset=found.next_offset)

    async def _proto(self, record: Record, properties: dict[str, str], request: Any) -> Any:
        def make() -> Any:
            topic, due_ms = request.message_queue.topic, due_ms_of(record, properties)
            return plain_proto(record, properties, topic=topic, due_ms=due_ms)

        return await self._parts.off_loop(make) if is_heavy(record) else make()

    async def _understand(self, request: Any, context: Any) -> _Pull:
        self._parts.broker.group_table.find(name_of(request.group))
        topic, queue_id = await self._queue(request.message_queue)
        if request.batch_size < 1:
            raise Refused(
                Code.BAD_REQUEST, f"batch size: expected 1 or more, found {request.batch_size}"
            )
        if request.offset < 0:
            raise Refused(
                Code.ILLEGAL_OFFSET, f"offset: expected 0 or more, found {request.offset}"
            )
        return _Pull(
            topic=topic,
            queue_id=queue_id,
            count_max=min(request.batch_size, self._parts.options.receive_count_max),
            wanted=filter_from(request.filter_expression),
            polling_s=polling_s(request, context, self._parts.options, default_ms=0),
        )

    async def _pull(self, pull: _Pull, offset: int, peer: Peer) -> _Found:
        """What there is at the offset; waits at the end of the queue."""
        found = await self._parts.off_loop(lambda: self._read(pull, offset))
        if found is not None or pull.polling_s <= 0:
            return found or _nothing(offset)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + pull.polling_s
        with (
            News(self._parts.engine, [pull.topic]) as news,
            peer.take(self._parts.polls, news.give_up),
        ):
            while True:
                found = await self._parts.off_loop(lambda: self._read(pull, offset))
                left_s = end_s - loop.time()
                is_over = left_s <= 0 or news.is_over
                if found is not None or is_over or not self._parts.engine.is_accepting:
                    return found or _nothing(offset)
                await news.wait(left_s)

    def _read(self, pull: _Pull, offset: int) -> _Found | None:
        """None: the queue ends here."""
        at = offset
        for _ in range(_SCAN_COUNT_MAX):
            result = self._parts.engine.store.read(
                pull.topic,
                pull.queue_id,
                at,
                count_max=pull.count_max,
                accept=pull.wanted.accept,
            )
            if result.status in (ReadStatus.BEFORE_START, ReadStatus.BEYOND_END):
                return self._misplaced(pull, at)
            if result.status is ReadStatus.AT_END:
                break
            chosen = tuple(
                (record, properties)
                for record in map(decode, result.records)
                if _matches(pull.wanted, properties := decode_properties(record.properties))
            )
            at = result.next_offset
            if chosen:
                return _Found(status=ok(), next_offset=at, messages=chosen)
        return None if at == offset else _nothing(at)

    def _misplaced(self, pull: _Pull, offset: int) -> _Found:
        start, end = self._parts.engine.store.offset_range(pull.topic, pull.queue_id)
        error = Refused(Code.ILLEGAL_OFFSET, f"offset: expected {start} to {end}, found {offset}")
        return _Found(status=status(error), next_offset=min(max(offset, start), end))

    # Offsets

    async def get_offset(self, request: Any, context: Any) -> Any:
        group = name_of(request.group)
        self._parts.broker.group_table.find(group)
        topic, queue_id = await self._queue(request.message_queue)
        offset = self._parts.broker.offsets.get(group, topic).get(queue_id)
        if offset is None:
            raise Refused(
                Code.OFFSET_NOT_FOUND,
                f"group {group}: expected one that has consumed from {topic}/{queue_id}",
            )
        return _Got(status=ok(), offset=offset)

    async def update_offset(self, request: Any, context: Any) -> Any:
        group = name_of(request.group)
        self._parts.broker.group_table.find(group)
        topic, queue_id = await self._queue(request.message_queue)
        end = self._parts.engine.store.offset_range(topic, queue_id)[1]
        if not 0 <= request.offset <= end:
            raise Refused(
                Code.ILLEGAL_OFFSET, f"offset: expected 0 to {end}, found {request.offset}"
            )
        self._parts.broker.offsets.set(group, topic, {queue_id: request.offset})
        return _Updated(status=ok())

    async def query_offset(self, request: Any, context: Any) -> Any:
        topic, queue_id = await self._queue(request.message_queue)
        store = self._parts.engine.store
        start, end = store.offset_range(topic, queue_id)
        if request.query_offset_policy == _POLICY["BEGINNING"]:
            return _Queried(status=ok(), offset=start)
        if request.query_offset_policy == _POLICY["END"]:
            return _Queried(status=ok(), offset=end)
        if request.query_offset_policy != _POLICY["TIMESTAMP"] or not request.HasField("timestamp"):
            raise Refused(
                Code.BAD_REQUEST,
                "offset policy: expected BEGINNING, END, or TIMESTAMP with a timestamp",
            )
        wanted_ms = request.timestamp.ToMilliseconds()
        offset = await self._parts.off_loop(lambda: store.search_offset(topic, queue_id, wanted_ms))
        return _Queried(status=ok(), offset=offset)

    async def _queue(self, queue: Any) -> tuple[str, int]:
        topic = topic_of(queue.topic)
        config = await self._routes.find_readable(topic)
        if not 0 <= queue.id < config.read_queue_nums:
            raise Refused(
                Code.BAD_REQUEST,
                f"topic {topic}: expected queue 0 to {config.read_queue_nums - 1}, "
                f"found {queue.id}",
            )
        return topic, queue.id


def _matches(wanted: Filter, properties: dict[str, str]) -> bool:
    return wanted.matches is None or wanted.matches(properties)


def _nothing(offset: int) -> _Found:
    error = Refused(Code.MESSAGE_NOT_FOUND, "no message came while the puller waited")
    return _Found(status=status(error), next_offset=offset)

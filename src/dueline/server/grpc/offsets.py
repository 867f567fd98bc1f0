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
from typing import Any, Final

from dueline.broker.reading import Pull, records_of
from dueline.broker.topics import check_readable
from dueline.broker.values import ReadResult, ReadStatus, Record
from dueline.message import decode_properties
from dueline.server.grpc.bodies import is_heavy
from dueline.server.grpc.call import Call
from dueline.server.grpc.codes import Code, Refused, ok, status
from dueline.server.grpc.convert import due_ms_of, filter_from, name_of, plain_proto
from dueline.server.grpc.parts import Parts, client_id_of
from dueline.server.grpc.peer import Peer
from dueline.server.grpc.polling import News, polling_s
from dueline.server.grpc.routes import Routes, topic_of
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class

__all__ = ["GrpcOffsets"]

_POLICY: Final = ENUMS["QueryOffsetPolicy"]

_Pulled: Final = message_class("PullMessageResponse")
_Got: Final = message_class("GetOffsetResponse")
_Updated: Final = message_class("UpdateOffsetResponse")
_Queried: Final = message_class("QueryOffsetResponse")


class GrpcOffsets:
    """The methods about offsets."""

    def __init__(self, parts: Parts, routes: Routes) -> None:
        self._parts = parts
        self._routes = routes

    # Pulling

    async def pull_message(self, request: Any, call: Call) -> None:
        client_id_of(call)
        pull = await self._understand(request)
        wait_s = polling_s(request, call, self._parts.options, default_ms=0)
        found = await self._pull(pull, request.offset, wait_s, call.peer)
        call.write(
            _Pulled(status=_status(found, request.offset)),
            *[_Pulled(message=await self._proto(record, request)) for record in records_of(found)],
            _Pulled(next_offset=found.next_offset),
        )

    async def _proto(self, record: Record, request: Any) -> Any:
        def make() -> Any:
            properties = decode_properties(record.properties)
            due_ms = due_ms_of(
                properties, is_delayed=record.seq is not None, store_ms=record.store_ms
            )
            topic = request.message_queue.topic
            return plain_proto(record, properties, topic=topic, due_ms=due_ms)

        return await self._parts.off_loop(make) if is_heavy(record) else make()

    async def _understand(self, request: Any) -> Pull:
        group = name_of(request.group)
        self._parts.broker.group_table.find(group)  # before a topic is made for it
        topic, queue_id = await self._queue(request.message_queue)
        self._parts.broker.reading.check(group, topic, queue_id)
        if request.batch_size < 1:
            raise Refused(
                Code.BAD_REQUEST, f"batch size: expected 1 or more, found {request.batch_size}"
            )
        if request.offset < 0:
            raise Refused(
                Code.ILLEGAL_OFFSET, f"offset: expected 0 or more, found {request.offset}"
            )
        return Pull(
            topic=topic,
            queue_id=queue_id,
            group=group,
            wanted=filter_from(request.filter_expression),
            count_max=min(request.batch_size, self._parts.options.receive_count_max),
            is_exact=True,
        )

    async def _pull(self, pull: Pull, offset: int, wait_s: float, peer: Peer) -> ReadResult:
        """What there is at the offset; waits at the end of the queue."""
        found = await self._read(pull, offset)
        if found.status is not ReadStatus.AT_END or wait_s <= 0:
            return found
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        with (
            News(self._parts.broker.reading, [pull.topic]) as news,
            peer.take(self._parts.polls, news.give_up),
        ):
            while True:
                # From behind what was read and not wanted.
                found = await self._read(pull, found.next_offset)
                left_s = end_s - loop.time()
                is_over = left_s <= 0 or news.is_over or not self._parts.broker.acceptance.is_open
                if found.status is not ReadStatus.AT_END or is_over:
                    return found
                await news.wait(left_s)

    async def _read(self, pull: Pull, offset: int) -> ReadResult:
        reading = self._parts.broker.reading
        return (await self._parts.off_loop(lambda: reading.pull(pull, offset))).result

    # Offsets

    async def get_offset(self, request: Any, call: Call) -> Any:
        group = name_of(request.group)
        self._parts.broker.group_table.find(group)
        topic, queue_id = await self._queue(request.message_queue)
        offset = self._parts.broker.progress.offset(group, topic, queue_id)
        if offset is None:
            raise Refused(
                Code.OFFSET_NOT_FOUND,
                f"group {group}: expected one that has consumed from {topic}/{queue_id}",
            )
        return _Got(status=ok(), offset=offset)

    async def update_offset(self, request: Any, call: Call) -> Any:
        topic, queue_id = await self._queue(request.message_queue)
        progress = self._parts.broker.progress
        progress.commit(name_of(request.group), topic, queue_id, request.offset)
        await self._parts.saved()
        return _Updated(status=ok())

    async def query_offset(self, request: Any, call: Call) -> Any:
        topic, queue_id = await self._queue(request.message_queue)
        reading = self._parts.broker.reading
        start, end = reading.offset_range(topic, queue_id)
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
        offset = await self._parts.off_loop(lambda: reading.offset_at(topic, queue_id, wanted_ms))
        return _Queried(status=ok(), offset=offset)

    async def _queue(self, queue: Any) -> tuple[str, int]:
        topic = topic_of(queue.topic)
        check_readable(await self._routes.find(topic), queue.id)
        return topic, queue.id


def _status(found: ReadResult, offset: int) -> Any:
    """How a pull has ended."""
    if found.status is ReadStatus.FOUND:
        return ok()
    if found.status in (ReadStatus.AT_END, ReadStatus.NO_MATCH):
        return status(Refused(Code.MESSAGE_NOT_FOUND, "no message came while the puller waited"))
    text = f"offset: expected {found.start} to {found.end}, found {offset}"
    return status(Refused(Code.ILLEGAL_OFFSET, text))

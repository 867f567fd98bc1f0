"""How far a group is, and where a queue begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dueline.server.remoting.answers import OK, Answer, Refused
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
from dueline.store import record as records
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    TimestampResponse,
    UpdateConsumerOffsetRequest,
)

__all__ = ["Offsets"]

YOUNG_COUNT_MAX: Final = 300_000
"""A new group reads a queue that still has its first message, and no more than these, whole.

RocketMQ does so while the first message is in memory, whatever the group asks for.
"""


class Offsets:
    """Handlers of 14, 15, 29, 30, 31 and 32."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self.end,
            RequestCode.GET_MIN_OFFSET: self.start,
            RequestCode.GET_EARLIEST_MESSAGE_STORE_TIME: self.earliest,
        }

    def query(self, request: Request) -> Answer:
        header = QueryConsumerOffsetRequest.decode(request.command.ext)
        offsets = self._context.broker.offsets.get(header.consumer_group, header.topic)
        if header.queue_id in offsets:
            return _offset(offsets[header.queue_id])
        start, end = self._store.offset_range(header.topic, header.queue_id)
        if header.set_zero_if_not_found is not False and start == 0 and end <= YOUNG_COUNT_MAX:
            return _offset(0)
        raise Refused(
            ResponseCode.QUERY_NOT_FOUND,
            f"consumer group {header.consumer_group[:200]} has not read "
            f"{header.topic[:200]}/{header.queue_id} yet",
        )

    def update(self, request: Request) -> Answer:
        header = UpdateConsumerOffsetRequest.decode(request.command.ext)
        topic = self._context.topics.find(header.topic)
        if not 0 <= header.queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"topic {header.topic}: no queue {header.queue_id}",
            )
        self._context.broker.offsets.set(
            header.consumer_group, header.topic, {header.queue_id: header.commit_offset}
        )
        return OK

    def start(self, request: Request) -> Answer:
        return _offset(self._range(request)[0])

    def end(self, request: Request) -> Answer:
        return _offset(self._range(request)[1])

    def _range(self, request: Request) -> tuple[int, int]:
        header = QueueRequest.decode(request.command.ext)
        return self._store.offset_range(header.topic, header.queue_id)

    def search(self, request: Request) -> Answer:
        """The first message at or after a time; UPPER: the last one at or before it."""
        header = SearchOffsetRequest.decode(request.command.ext)
        is_upper = (header.boundary_type or "").upper() == "UPPER"
        wanted_ms = header.timestamp + 1 if is_upper else header.timestamp
        offset = self._store.search_offset(header.topic, header.queue_id, wanted_ms)
        if is_upper:
            start, _ = self._store.offset_range(header.topic, header.queue_id)
            offset = max(offset - 1, start)
        return _offset(offset)

    def earliest(self, request: Request) -> Answer:
        header = QueueRequest.decode(request.command.ext)
        start, end = self._store.offset_range(header.topic, header.queue_id)
        timestamp = -1
        if start < end:
            found = self._store.read(header.topic, header.queue_id, start, count_max=1).records
            timestamp = records.decode(found[0]).store_ms if found else -1
        return Answer(ext=TimestampResponse(timestamp=timestamp).encode())


def _offset(offset: int) -> Answer:
    return Answer(ext=OffsetResponse(offset=offset).encode())

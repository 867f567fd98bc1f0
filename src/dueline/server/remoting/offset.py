"""How far a group is, and where a queue begins and ends."""

from __future__ import annotations

from collections.abc import Mapping

from dueline.server.remoting.answers import OK, Refused, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
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


class Offsets:
    """Handlers of 14, 15, 29, 30, 31 and 32."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._reading = context.reading
        self._progress = context.broker.progress

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self.end,
            RequestCode.GET_MIN_OFFSET: self.start,
            RequestCode.GET_EARLIEST_MESSAGE_STORE_TIME: self.earliest,
        }

    def query(self, request: Request) -> Response:
        header = QueryConsumerOffsetRequest.decode(request.command.ext)
        is_lenient = header.set_zero_if_not_found is not False
        ask = self._progress.first_offset if is_lenient else self._progress.offset
        offset = ask(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                f"consumer group {header.consumer_group[:200]} has not read "
                f"{header.topic[:200]}/{header.queue_id} yet",
            )
        return _offset(offset)

    def update(self, request: Request) -> Response:
        header = UpdateConsumerOffsetRequest.decode(request.command.ext)
        self._progress.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset
        )
        self._context.save_soon()
        return OK

    def start(self, request: Request) -> Response:
        return _offset(self._range(request)[0])

    def end(self, request: Request) -> Response:
        return _offset(self._range(request)[1])

    def _range(self, request: Request) -> tuple[int, int]:
        header = QueueRequest.decode(request.command.ext)
        return self._reading.offset_range(header.topic, header.queue_id)

    def search(self, request: Request) -> Response:
        """The first message at or after a time; UPPER: the last one at or before it."""
        header = SearchOffsetRequest.decode(request.command.ext)
        is_upper = (header.boundary_type or "").upper() == "UPPER"
        search = self._reading.last_offset_until if is_upper else self._reading.offset_at
        return _offset(search(header.topic, header.queue_id, header.timestamp))

    def earliest(self, request: Request) -> Response:
        header = QueueRequest.decode(request.command.ext)
        start, _ = self._reading.offset_range(header.topic, header.queue_id)
        timestamp = self._reading.shown_ms(header.topic, header.queue_id, start) or -1
        return Response(ext=TimestampResponse(timestamp=timestamp).encode())


def _offset(offset: int) -> Response:
    return Response(ext=OffsetResponse(offset=offset).encode())

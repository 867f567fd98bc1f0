"""Finding messages by key, by unique id, by offset id; taking delayed ones back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dueline.broker.access import Action, topic
from dueline.server.remoting.answers import Refused, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import (
    QueryMessageRequest,
    QueryMessageResponse,
    RecallRequest,
    RecallResponse,
    ViewMessageRequest,
)

__all__ = ["Queries"]

COUNT_MAX: Final = 64
UNIQUE_COUNT: Final = 32
SIZE_BYTES_MAX: Final = 8 << 20


class Queries:
    """Handlers of 12, 33 and 370."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._reading = context.reading
        self._hub = hub

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.QUERY_MESSAGE: blocking(self._hub, self.query),
            RequestCode.VIEW_MESSAGE_BY_ID: blocking(self._hub, self.view),
            RequestCode.RECALL_MESSAGE: blocking(self._hub, self.recall),
        }

    def query(self, request: Request) -> Response:
        header = QueryMessageRequest.decode(request.command.ext)
        count = UNIQUE_COUNT if header.is_unique_key else header.max_num
        found = self._reading.by_key(
            header.topic,
            header.key,
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
            count_max=max(1, min(count, COUNT_MAX)),
            size_bytes_max=SIZE_BYTES_MAX,
        )
        if not found:
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                f"no message of {header.topic[:200]} with {header.key[:200]!r} in this time",
            )
        response = QueryMessageResponse(
            index_last_update_timestamp=max(record.store_ms for record in found),
            index_last_update_phyoffset=max(record.position for record in found),
        )
        body = bytearray()
        while found:  # what was copied is let go: several large answers may be made at a time
            body += found.pop(0).encode()
        return Response(ext=response.encode(), body=bytes(body))

    def view(self, request: Request) -> Response:
        position = ViewMessageRequest.decode(request.command.ext).offset
        record = self._reading.by_position(position)
        request.check(Action.SUB | Action.GET, topic(record.topic.decode("utf-8", "replace")))
        return Response(body=record.encode())

    def recall(self, request: Request) -> Response:
        header = RecallRequest.decode(request.command.ext)
        unique_id = self._context.broker.delayed.recall(
            header.recall_handle,
            topic=header.topic or None,
            admit=lambda name: request.check(Action.PUB, topic(name)),
        )
        request.changed_names = (unique_id,)
        return Response(ext=RecallResponse(msg_id=unique_id).encode())

"""What consumers say beside pulling: that they could not handle a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dueline.broker import retries
from dueline.errors import NotFound
from dueline.server.remoting.answers import OK, Answer, Refused
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
from dueline.store import PutResult
from dueline.wire.codes import VERSION_3_4_9, RequestCode, ResponseCode
from dueline.wire.headers import SendBackRequest

__all__ = ["SendBacks"]


class SendBacks:
    """Handler of 36."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def table(self) -> Mapping[int, Handler]:
        return {RequestCode.CONSUMER_SEND_MESSAGE_BACK: self.send_back}

    def send_back(self, request: Request) -> Answer | None:
        header = SendBackRequest.decode(request.command.ext)
        group = self._context.broker.group_table.get(header.group)
        if group is None:
            raise NotFound(
                f"consumer group {header.group[:200]}: expected one that exists, found none",
                what="group",
            )
        if group.retry_queue_nums <= 0:
            return OK  # the group does not want retries
        try:
            record = self._context.store.record_at(header.offset)
        except NotFound as error:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"send back: {error.message}; it may be too old"
            ) from error
        limit = header.max_reconsume_times
        if request.command.version < VERSION_3_4_9 or limit is None or limit < 0:
            limit = group.retry_max_times
        message = retries.refused(record, group, delay_level=header.delay_level, attempts_max=limit)
        self._context.topics.ensure(message.topic, queue_count=1)

        def write() -> None:
            self._context.write(request, [message], _sent_back, len(message.body))

        if self._context.topics.has_saved(message.topic):
            write()
        else:
            self._context.saved(request, write)
        return None


def _sent_back(request: Request, results: Sequence[PutResult]) -> None:
    request.answer(OK)

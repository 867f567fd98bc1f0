"""What consumers say beside pulling: that they could not handle a message."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dueline.broker.access import Action, topic
from dueline.broker.values import PutResult
from dueline.server.remoting.answers import OK
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context, answer_send
from dueline.server.remoting.hub import Handler
from dueline.wire.codes import VERSION_3_4_9, RequestCode
from dueline.wire.headers import SendBackRequest

__all__ = ["SendBacks"]


class SendBacks:
    """Handler of 36."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def table(self) -> Mapping[int, Handler]:
        return {RequestCode.CONSUMER_SEND_MESSAGE_BACK: self.send_back}

    def send_back(self, request: Request) -> None:
        header = SendBackRequest.decode(request.command.ext)
        attempts_max = header.max_reconsume_times
        if request.command.version < VERSION_3_4_9 or (attempts_max or 0) < 0:
            attempts_max = None
        self._context.sending.send_back(
            header.offset,
            group=header.group,
            delay_level=header.delay_level,
            attempts_max=attempts_max,
            admit=lambda name: request.check(Action.SUB, topic(name)),
            done=partial(answer_send, request, _answer),
        )


def _answer(request: Request, results: list[PutResult]) -> None:
    request.answer(OK)

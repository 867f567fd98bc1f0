"""Replies: the answer of a consumer to a producer that waits for one (request and reply).

A producer that wants a reply puts its client id into the message; the consumer sends the reply with
that id, and the broker passes it on to the producer's connection. A reply is not stored: whoever
waits has gone after its timeout anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

from dueline.message import decode_properties, format_host, pack_host
from dueline.server.remoting.answers import Refused, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import PushReplyRequest, SendRequest, SendResponse

__all__ = ["Replies"]


class Replies:
    """Handlers of 324 and 325; sends 326."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply,
        }

    def reply(self, request: Request) -> Response:
        header = SendRequest.decode(request.command.ext)
        client_id = decode_properties(header.properties or "").get("REPLY_TO_CLIENT", "")
        member = self._context.groups.find_client(client_id)
        if member is None or not isinstance(member.channel, Channel) or not member.channel.is_open:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"reply: expected a client {client_id[:200]!r} that is connected, found none",
            )
        options = self._context.broker.store_options
        forwarded = PushReplyRequest(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=header.properties,
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=format_host(request.channel.host),
            store_host=format_host(pack_host(options.host, options.port)),
            store_timestamp=self._context.clock.now_ms(),
        )
        is_sent = member.channel.notify(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, forwarded.encode(), request.command.body
        )
        if not is_sent:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"reply: expected a client {client_id[:200]!r} that reads, found that it does not",
            )
        response = SendResponse(msg_id="0", queue_id=header.queue_id, queue_offset=0)
        return Response(ext=response.encode())

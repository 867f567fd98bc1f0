"""The methods of consumers: receive, acknowledge, keep longer, put to the dead letters.

The rules are those of `dueline.broker.inflight.receiving`; here they are asked, and answered in
this protocol's messages. A 5.x client also gets what 4.x clients of its group have refused of its
topic.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from dueline.broker.inflight import ACK_COUNT_MAX, Ack, Held, Outcomes, Receive, ReceiveRequest
from dueline.errors import BrokerError
from dueline.server.grpc.bodies import HEAVY_SIZE
from dueline.server.grpc.call import Call
from dueline.server.grpc.codes import Code, Refused, ok, status
from dueline.server.grpc.convert import filter_from, name_of, set_time
from dueline.server.grpc.framing import framed
from dueline.server.grpc.message_writer import MessageWriter
from dueline.server.grpc.parts import Parts, client_id_of, resolve
from dueline.server.grpc.polling import polling_s
from dueline.server.grpc.routes import Routes, topic_of
from dueline.server.grpc.stubs import message_class
from dueline.server.receiving import looked, received

__all__ = ["GrpcReceiving"]

_Received: Final = message_class("ReceiveMessageResponse")
_Ack: Final = message_class("AckMessageResponse")
_Changed: Final = message_class("ChangeInvisibleDurationResponse")
_Forwarded: Final = message_class("ForwardMessageToDeadLetterQueueResponse")

_BEGUN: Final = framed(_Received(status=ok()).SerializeToString())


class GrpcReceiving:
    """The methods of consumers."""

    def __init__(self, parts: Parts, routes: Routes) -> None:
        self._parts = parts
        self._routes = routes
        self._receiving = parts.broker.receiving

    # Receiving

    async def receive_message(self, request: Any, call: Call) -> None:
        receive = await self._receive(request, call)
        messages = await self._received(receive, call)
        if not messages:
            call.write(_Received(status=_nothing()))
            return
        try:
            call.write_framed(await self._written(messages, request, receive))
            call.finish()
            await call.flushed()
        except asyncio.CancelledError:
            receive.cancel()
            raise

    async def _written(self, messages: list[Held], request: Any, receive: Receive) -> bytes:
        """All answers to a receive: that it went well, each message, and when that was."""
        topic = request.message_queue.topic
        writer = MessageWriter(topic, receive.invisible_ms, group=receive.group)
        last = _Received()
        set_time(last.delivery_timestamp, self._parts.now_ms())

        def make() -> bytes:
            shown = writer.write_all(messages)
            return b"".join((_BEGUN, *shown, framed(last.SerializeToString())))

        # To unpack megabytes and to sum them up takes long enough for others to notice.
        is_heavy = any(len(held.data) > HEAVY_SIZE or held.is_compressed for held in messages)
        return await self._parts.off_loop(make) if is_heavy else make()

    async def _receive(self, request: Any, call: Call) -> Receive:
        owner, group = client_id_of(call), name_of(request.group)
        topic = topic_of(request.message_queue.topic)
        self._parts.broker.group_table.find(group)  # before the topic is made
        await self._routes.find(topic)
        options = self._parts.options
        wait_s = polling_s(request, call, options, default_ms=options.polling_ms_default)
        invisible_ms = request.invisible_duration.ToMilliseconds()
        return self._receiving.receive(
            ReceiveRequest(
                group=group,
                topic=topic,
                count_max=request.batch_size,
                invisible_ms=None if request.auto_renew else invisible_ms,
                invisible_ms_min=options.invisible_ms_min,
                owner=owner,
                wanted=filter_from(request.filter_expression),
                wait_ms=int(wait_s * 1_000),
                with_retries=True,
            )
        )

    async def _received(self, receive: Receive, call: Call) -> list[Held]:
        parts = self._parts
        return await received(
            receive,
            lambda: looked(receive, parts.runtime),
            runtime=parts.runtime,
            enter=lambda give_up: call.peer.take(parts.polls, give_up),
        )

    # Receipts

    async def forward_message_to_dead_letter_queue(self, request: Any, call: Call) -> Any:
        group, topic = name_of(request.group), topic_of(request.topic)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            self._parts.outbox.post(lambda: resolve(answer, error))

        await self._parts.off_loop(
            lambda: self._receiving.forward(group, topic, request.receipt_handle, done)
        )
        await answer
        return _Forwarded(status=ok())

    def ack_message(self, request: Any, call: Call) -> None:
        group, topic = name_of(request.group), topic_of(request.topic)
        if not 1 <= len(request.entries) <= ACK_COUNT_MAX:
            raise Refused(
                Code.BAD_REQUEST,
                f"entries: expected 1 to {ACK_COUNT_MAX}, found {len(request.entries)}",
            )
        acks = [Ack(group, topic, entry.receipt_handle) for entry in request.entries]

        def done(outcomes: Outcomes) -> None:
            self._parts.outbox.post(lambda: call.answer(_acknowledged(request, outcomes)))

        self._parts.broker.inflight.acknowledge_all(acks, done)

    async def change_invisible_duration(self, request: Any, call: Call) -> Any:
        """Clients take over the handle of the answer even with an error: there is always one."""
        answer = _Changed(receipt_handle=request.receipt_handle)
        try:
            answer.receipt_handle = self._change(request, client_id_of(call))
            answer.status.CopyFrom(ok())
        except BrokerError as error:
            answer.status.CopyFrom(status(error))
        return answer

    def _change(self, request: Any, client_id: str) -> str:
        group, topic = name_of(request.group), topic_of(request.topic)
        invisible_ms = int(request.invisible_duration.ToMilliseconds())
        # A push consumer changes the duration for no other reason than that it has refused.
        is_refusal = self._parts.clients.is_push_consumer(client_id)
        change = self._receiving.refuse if is_refusal else self._receiving.extend
        return change(group, topic, request.receipt_handle, invisible_ms)


def _nothing() -> Any:
    return status(Refused(Code.MESSAGE_NOT_FOUND, "no message came while the receiver waited"))


def _acknowledged(request: Any, outcomes: Outcomes) -> Any:
    answer = _Ack()
    for entry, error in zip(request.entries, outcomes, strict=True):
        answer.entries.add(
            message_id=entry.message_id,
            receipt_handle=entry.receipt_handle,
            status=ok() if error is None else status(error),
        )
    codes = {entry.status.code for entry in answer.entries}
    if len(codes) == 1:
        answer.status.CopyFrom(answer.entries[0].status)
    else:
        answer.status.code = Code.MULTIPLE_RESULTS
    return answer

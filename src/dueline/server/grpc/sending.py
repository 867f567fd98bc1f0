"""SendMessage and RecallMessage.

All messages of a request are stored together and each is answered on its own;
`dueline.broker.sending` has the rules, also for the queue that each goes to. A delayed message is
answered with a handle to recall it. A recall has a definite answer: OK, or that it is too late, or
that there is no such message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from dueline.broker.topics import TopicConfig
from dueline.broker.values import PutResult
from dueline.broker.writing import Results
from dueline.errors import BrokerError
from dueline.message import Message
from dueline.server.grpc.call import Call
from dueline.server.grpc.codes import Code, Refused, ok, status
from dueline.server.grpc.convert import MessageType, Sender, from_proto, name_of, type_of
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.routes import accepted_types, topic_of
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class

__all__ = ["GrpcSending"]


_TYPES: Final = frozenset(ENUMS["MessageType"].values())
_SendResponse: Final = message_class("SendMessageResponse")
_Status: Final = message_class("Status")
_Entry: Final = message_class("SendResultEntry")
_RecallResponse: Final = message_class("RecallMessageResponse")


class GrpcSending:
    """The methods of producers, but for transactions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._broker = parts.broker
        self._sending = parts.sending

    def send_message(self, request: Any, call: Call) -> None:
        topic = self._check(request)
        destination = self._sending.destination(topic)
        sender = Sender(
            born_host=call.peer.packed,
            body_size_max=self._broker.store_options.body_size_max,
            now_ms=self._parts.now_ms(),
            queue_of=partial(self._sending.queue_id, destination),
        )
        messages = [from_proto(each, topic, sender=sender) for each in request.messages]
        for message in messages:
            _check_type(message, destination.config)
        size_bytes = sum([len(message.body) for message in messages])
        answer = partial(self._answer, call, messages)
        self._sending.send(
            destination,
            messages,
            answer,
            size_bytes=size_bytes,
            caller=call.caller,
        )

    def _answer(
        self, call: Call, messages: Sequence[Message], results: Results | BaseException
    ) -> None:
        """The messages are on disk, or are not."""
        if isinstance(results, BaseException):
            call.answer(_SendResponse(status=status(results)))
            return
        entries = [
            self._entry(message, result) for message, result in zip(messages, results, strict=True)
        ]
        first = entries[0].status
        if all(entry.status.code == first.code for entry in entries):
            call.answer(_SendResponse(status=first, entries=entries))
        else:
            call.answer(_SendResponse(status=_Status(code=Code.MULTIPLE_RESULTS), entries=entries))

    def _check(self, request: Any) -> str:
        count_max = self._parts.options.send_count_max
        if not 1 <= len(request.messages) <= count_max:
            raise Refused(
                Code.BAD_REQUEST,
                f"messages: expected 1 to {count_max}, found {len(request.messages)}",
            )
        topic = topic_of(request.messages[0].topic)
        for message in request.messages:
            if name_of(message.topic) != topic:
                raise Refused(Code.BAD_REQUEST, "messages: expected all of one topic")
            if message.system_properties.message_type not in _TYPES:
                raise Refused(
                    Code.NOT_IMPLEMENTED,
                    "message type: expected NORMAL, FIFO, DELAY or TRANSACTION, found "
                    f"{message.system_properties.message_type}",
                )
        return topic

    def _entry(self, message: Message, result: PutResult | BrokerError) -> Any:
        if isinstance(result, BrokerError):
            return _Entry(status=status(result), message_id=message.properties["UNIQ_KEY"])
        entry = _Entry(status=ok(), message_id=result.unique_id, offset=result.queue_offset)
        handle = self._sending.recall_handle(result)
        if message.properties.get("TRAN_MSG") == "true":
            entry.transaction_id = result.message_id
        elif handle is not None:
            entry.recall_handle = handle
        return entry

    async def recall_message(self, request: Any, call: Call) -> Any:
        topic = topic_of(request.topic)
        recall = partial(self._broker.delayed.recall, request.recall_handle, topic=topic)
        return _RecallResponse(status=ok(), message_id=await self._parts.off_loop(recall))


def _check_type(message: Message, config: TopicConfig) -> None:
    """Refuse a message of a type that the operator did not make the topic for."""
    kind = type_of(message.properties)
    allowed = accepted_types(config)
    if kind not in allowed:
        names = {number: name for name, number in MessageType.items()}
        raise Refused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"topic {config.topic_name}: expected messages of type "
            f"{', '.join(names[each] for each in allowed)}, found {names[kind]}",
        )

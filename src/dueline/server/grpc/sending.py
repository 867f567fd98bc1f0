"""SendMessage and RecallMessage.

All messages of a request are stored together and each is answered on its own. A queue is chosen
here: in turn, or by the message group, so that a message group stays in one queue.

A delayed message is answered with a handle to recall it: RocketMQ's own form, `v1 topic broker
time id` in base64. A recall has a definite answer: OK, or that it is too late, or that there is no
such message.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Final

from dueline.broker.recall_handle import RecallHandle
from dueline.errors import BrokerError, LimitExceeded
from dueline.message import Message, string_hash
from dueline.server.grpc.codes import Code, Refused, ok, status
from dueline.server.grpc.convert import MessageType, Sender, from_proto, name_of, type_of
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.routes import Routes, accepted_types, topic_of
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class
from dueline.store import Answer, PutResult
from dueline.wire.admin_bodies import TopicConfig
from dueline.wire.codes import Permission

__all__ = ["Sending"]


_SendResponse: Final = message_class("SendMessageResponse")
_Entry: Final = message_class("SendResultEntry")
_RecallResponse: Final = message_class("RecallMessageResponse")


class Sending:
    """The methods of producers, but for transactions."""

    def __init__(self, parts: Parts, routes: Routes) -> None:
        self._parts = parts
        self._routes = routes
        self._turns = itertools.count()

    async def send_message(self, request: Any, context: Any) -> Any:
        topic = self._check(request)
        sender = Sender(
            born_host=self._parts.peers(context.peer()).packed,
            body_size_max=self._parts.engine.store.options.body_size_max,
            now_ms=self._parts.now_ms(),
        )
        # Looked at before the topic is: what is refused makes none.
        found = [from_proto(each, topic, sender=sender) for each in request.messages]
        if any("TRAN_MSG" in message.properties for message in found):
            self._parts.broker.transactions.check_room()
        if self._parts.broker.topics.get(topic) is None:
            self._check_first(found)
        config = await self._routes.find(topic)
        if not config.perm & Permission.WRITE or not config.write_queue_nums:
            raise Refused(Code.FORBIDDEN, f"topic {topic}: expected one that may be sent to")
        messages = [self._placed(message, config) for message in found]
        results = await self._parts.sent(messages)
        entries = [
            self._entry(message, result) for message, result in zip(messages, results, strict=True)
        ]
        codes = {entry.status.code for entry in entries}
        answer = _SendResponse(entries=entries)
        if len(codes) == 1:
            answer.status.CopyFrom(entries[0].status)
        else:
            answer.status.code = Code.MULTIPLE_RESULTS
        return answer

    def _check_first(self, messages: list[Message]) -> None:
        """Refuse the first messages to a topic if the store would take none of them."""
        faults = []
        for message in messages:
            try:
                self._parts.engine.store.check(message)
            except BrokerError as error:
                faults.append(error)
        if len(faults) == len(messages):
            raise _send_error(faults[0])

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
            if message.system_properties.message_type not in ENUMS["MessageType"].values():
                raise Refused(
                    Code.NOT_IMPLEMENTED,
                    "message type: expected NORMAL, FIFO, DELAY or TRANSACTION, found "
                    f"{message.system_properties.message_type}",
                )
        return topic

    def _placed(self, message: Message, config: TopicConfig) -> Message:
        kind = type_of(dict(message.properties))
        if kind not in accepted_types(config):
            names = {number: name for name, number in MessageType.items()}
            allowed = ", ".join(names[each] for each in accepted_types(config))
            raise Refused(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"topic {config.topic_name}: expected messages of type {allowed}, "
                f"found {names[kind]}",
            )
        message_group = message.properties.get("__SHARDINGKEY")
        turn = next(self._turns) if message_group is None else string_hash(message_group)
        return replace(message, queue_id=turn % config.write_queue_nums)

    def _entry(self, message: Message, result: PutResult | BrokerError) -> Any:
        if isinstance(result, BrokerError):
            return _Entry(
                status=status(_send_error(result)), message_id=message.properties["UNIQ_KEY"]
            )
        entry = _Entry(status=ok(), message_id=result.unique_id, offset=result.queue_offset)
        if message.properties.get("TRAN_MSG") == "true":
            entry.transaction_id = result.message_id
        elif result.due_ms is not None:
            entry.recall_handle = RecallHandle(
                topic=message.topic,
                broker_name=self._parts.broker.options.broker_name,
                due_ms=result.due_ms,
                unique_id=result.unique_id,
            ).encode()
        return entry

    async def recall_message(self, request: Any, context: Any) -> Any:
        topic = topic_of(request.topic)
        handle = RecallHandle.decode(request.recall_handle)
        handle.check(topic=topic, broker_name=self._parts.broker.options.broker_name)
        message_id = handle.unique_id
        answer = await self._parts.off_loop(lambda: self._parts.engine.recall(topic, message_id))
        if answer is Answer.CANCELLED:
            return _RecallResponse(status=ok(), message_id=message_id)
        if answer is Answer.DELIVERED:
            raise Refused(
                Code.PRECONDITION_FAILED,
                f"recall: message {message_id} was delivered before; it is too late",
            )
        raise Refused(Code.MESSAGE_NOT_FOUND, f"recall: no delayed message {message_id} is known")


def _send_error(error: BrokerError) -> BrokerError:
    """Of a message's bounds only the delay's is found out by the store."""
    if isinstance(error, LimitExceeded) and error.message.startswith("delay:"):
        return Refused(Code.ILLEGAL_DELIVERY_TIME, error.message)
    return error

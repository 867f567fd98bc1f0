"""Sends: one message or a batch, with the checks that RocketMQ makes, in its order.

The answer goes out when the message is on disk. A send to a new topic first makes the topic
durable. A delayed message is answered with its place in the delay log and with a handle by which it
can be taken back.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from typing import Final

from dueline.errors import NotFound
from dueline.message import (
    SYS_TRANSACTION_MASK,
    Message,
    check_topic,
    decode_properties,
)
from dueline.messaging import retries
from dueline.messaging.names import dead_topic, group_of_retry, is_closed_to_senders
from dueline.server.remoting.answers import Answer, Refused
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
from dueline.store import PutResult
from dueline.wire.admin_bodies import TopicConfig
from dueline.wire.batch import decode_batch
from dueline.wire.codes import VERSION_3_4_9, Permission, RequestCode, ResponseCode
from dueline.wire.headers import SendRequest, SendResponse

__all__ = ["Sends", "recall_handle"]

REGION: Final = "DefaultRegion"
BATCH_COUNT_MAX: Final = 10_000

# What only the broker may say about a message; WAIT is a question to the broker.
_NOT_TAKEN: Final = ("REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "WAIT")


class Sends:
    """Handlers of 10, 310 and 320."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
        }

    def send(self, request: Request) -> Answer | None:
        header = SendRequest.decode(request.command.ext)
        self._context.engine.check_accepting()
        check_topic(header.topic)
        if is_closed_to_senders(header.topic):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"topic {header.topic}: expected one that clients may send to; it is the broker's",
            )
        topics = self._context.topics
        config = topics.for_send(
            header.topic,
            default_topic=header.default_topic,
            queue_count=header.default_topic_queue_nums,
        )
        queue_id = _queue_id(config, header.queue_id)
        messages = self._messages(request, header, queue_id)

        def write() -> None:
            self._context.write(request, messages, lambda results: self._answer(header, results))

        if topics.is_saved:
            write()
        else:
            self._context.saved(request, write)
        return None

    def _messages(self, request: Request, header: SendRequest, queue_id: int) -> list[Message]:
        properties = decode_properties(header.properties or "")
        if request.command.code == RequestCode.SEND_BATCH_MESSAGE or header.batch:
            return self._batch(request, header, queue_id, properties)
        for name in _NOT_TAKEN:
            properties.pop(name, None)
        message = Message(
            topic=header.topic,
            body=request.command.body,
            queue_id=queue_id,
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_ms=max(header.born_timestamp, 0),
            born_host=request.channel.host,
            reconsume_times=max(header.reconsume_times or 0, 0),
        )
        group = group_of_retry(header.topic)
        if group is not None:
            message = self._retried(request, header, message, group)
        return [message]

    def _batch(
        self, request: Request, header: SendRequest, queue_id: int, common: dict[str, str]
    ) -> list[Message]:
        found = decode_batch(request.command.body)
        if (
            not 0 < len(found) <= BATCH_COUNT_MAX
            or header.sys_flag & SYS_TRANSACTION_MASK
            or common.get("DELAY", "0") != "0"
            or group_of_retry(header.topic) is not None
        ):
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"batch: expected 1 to {BATCH_COUNT_MAX} messages without transaction, delay level "
                f"and retry topic for all of them, found {len(found)} for {header.topic}",
            )
        messages = []
        for each in found:
            properties = decode_properties(each.properties)
            for name in _NOT_TAKEN:
                properties.pop(name, None)
            messages.append(
                Message(
                    topic=header.topic,
                    body=each.body,
                    queue_id=queue_id,
                    properties=properties,
                    flag=each.flag,
                    sys_flag=header.sys_flag,
                    born_ms=max(header.born_timestamp, 0),
                    born_host=request.channel.host,
                )
            )
        # All are looked at before the first is written: a batch is refused as a whole.
        for message in messages:
            message.check(body_size_max=self._context.store.options.body_size_max)
        return messages

    def _retried(
        self, request: Request, header: SendRequest, message: Message, group: str
    ) -> Message:
        """A consumer that could not send back sends itself; too often is too often here too."""
        config = self._context.messaging.group_table.get(group)
        if config is None:
            raise NotFound(
                f"consumer group {group[:200]}: expected one that exists, found none",
                what="group",
            )
        limit = config.retry_max_times
        # Go always says 0, which means nothing.
        if request.command.version >= VERSION_3_4_9 and (header.max_reconsume_times or 0) > 0:
            limit = header.max_reconsume_times or limit
        if message.reconsume_times <= limit:
            return message
        self._context.topics.ensure(dead_topic(group), queue_count=1)
        return retries.dead_letter(message, group, origin_topic=message.topic)

    def _answer(self, header: SendRequest, results: list[PutResult]) -> Answer:
        first = results[0]
        due_ms = first.due_ms
        response = SendResponse(
            msg_id=",".join([result.message_id for result in results]),
            queue_id=first.queue_id,
            queue_offset=first.queue_offset,
            transaction_id=first.unique_id if len(results) == 1 else None,
            recall_handle=None
            if due_ms is None
            else recall_handle(header.topic, self._context.broker_name, due_ms, first.unique_id),
            region=REGION,
            trace_on=True,
        )
        return Answer(ext=response.encode())


def _queue_id(config: TopicConfig, queue_id: int) -> int:
    """The queue that a send names, or any if it names none."""
    if not config.perm & Permission.WRITE:
        raise Refused(
            ResponseCode.NO_PERMISSION, f"topic {config.topic_name} may not be written to"
        )
    if queue_id < 0:
        return random.randrange(max(config.write_queue_nums, 1))
    count = max(config.read_queue_nums, config.write_queue_nums)
    if queue_id >= count:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"topic {config.topic_name}: queue id: expected 0 to {count - 1}, found {queue_id}",
        )
    return queue_id


def recall_handle(topic: str, broker_name: str, due_ms: int, unique_id: str) -> str:
    """What takes a delayed message back; 5.x clients pass it on as it is."""
    text = f"v1 {topic} {broker_name} {due_ms} {unique_id}"
    return base64.urlsafe_b64encode(text.encode()).decode()

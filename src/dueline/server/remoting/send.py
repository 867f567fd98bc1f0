"""Sends: one message or a batch, with the checks that RocketMQ makes, in its order.

The answer goes out when the message is on disk. A send to a new topic first makes the topic
durable. A delayed message is answered with its place in the delay log and with a handle by which it
can be taken back.

The headers of one producer differ in the time and the properties alone. What the rest of a header
says is decoded and checked once and then remembered (`_Target`), for as long as the topic is the
same.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from dueline.admission import (
    BROKER_PROPERTIES,
    check_queue_id,
    check_target,
    drop_broker_properties,
)
from dueline.broker import retries
from dueline.broker.names import dead_topic, group_of_retry
from dueline.broker.recall_handle import RecallHandle
from dueline.broker.topics import check_writable
from dueline.errors import BrokerError, NotFound
from dueline.message import (
    PROPERTIES_SIZE_MAX,
    SYS_TRANSACTION_MASK,
    Message,
    decode_properties,
    new_message,
)
from dueline.server.remoting.answers import Answer, Refused, message_code_of
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler
from dueline.store import PutResult
from dueline.store.draft import SPECIAL_NAMES
from dueline.wire.admin_bodies import TopicConfig
from dueline.wire.batch import decode_batch
from dueline.wire.codes import VERSION_3_4_9, RequestCode, ResponseCode, Serialization
from dueline.wire.header import parse_long
from dueline.wire.headers import SendRequest, SendResponse
from dueline.wire.send_answer import REGION, encode_send_answer

__all__ = ["Sends"]

BATCH_COUNT_MAX: Final = 10_000
LIGHT_BATCH_SIZE_BYTES: Final = 64 << 10
"""A larger batch is read in a thread: its properties may take a while."""
TARGET_COUNT_MAX: Final = 10_000
TARGET_SIZE_MAX: Final = 1_024
"""Characters of a header that is remembered."""
PROPERTIES_TEXT_MAX: Final = PROPERTIES_SIZE_MAX + 1_024
"""What is longer cannot be stored; a little of it is not for the store."""

_PLAIN_PROPERTIES_SIZE_MAX: Final = 16 << 10
"""Shorter ones fit into a record, whatever the broker adds."""

# What only the broker may say about a message; WAIT is a question to the broker.
_NOT_TAKEN: Final = BROKER_PROPERTIES | {"WAIT", "TIMER_DEL_UNIQKEY"}

log = logging.getLogger(__name__)


class _Target(NamedTuple):
    """What the headers of many sends say alike, checked; of `header`, not time and properties."""

    header: SendRequest
    config: TopicConfig
    group: str | None
    """The group whose retry topic it is."""
    is_batch: bool
    reconsume_times: int


class _HeldSend(NamedTuple):
    """A send that waits for its topic to be on disk."""

    request: Request
    messages: list[Message]
    write: Callable[[], None]


class Sends:
    """Handlers of 10, 310 and 320."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._targets: dict[tuple[int | str | None, ...], _Target] = {}
        self._held: dict[str, list[_HeldSend]] = {}

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
        }

    def send(self, request: Request) -> Answer | None:
        context = self._context
        context.engine.check_accepting()
        target, born_ms, properties = self._read(request)
        header = target.header
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(target.config.write_queue_nums, 1))
        body = request.command.body
        if target.is_batch:
            read = partial(self._batch, request, header, queue_id, born_ms, properties)
            if len(body) > LIGHT_BATCH_SIZE_BYTES:
                future = context.in_thread(read)
                future.add_done_callback(partial(self._read_elsewhere, request, header))
                return None
            messages = read()
        else:
            if not _NOT_TAKEN.isdisjoint(properties):
                _drop(properties)
            message = new_message(
                header.topic,
                body,
                queue_id,
                properties,
                header.flag,
                header.sys_flag,
                born_ms,
                request.channel.host,
                target.reconsume_times,
            )
            if "TRAN_MSG" in properties:
                context.broker.transactions.check_room()
            if target.group is not None:
                message = self._retried(request, header, message, target.group)
            messages = [message]
        self._write(request, header, messages)
        return None

    def _write(self, request: Request, header: SendRequest, messages: list[Message]) -> None:
        context = self._context
        if context.topics.get(header.topic) is None:
            self._make_topic(header, messages)
        write = partial(context.write, request, messages, self._answer, len(request.command.body))
        if header.topic not in self._held and self._is_saved(messages):
            write()
        else:
            self._hold(header.topic, _HeldSend(request, messages, write))

    def _is_saved(self, messages: list[Message]) -> bool:
        return all(self._context.topics.has_saved(message.topic) for message in messages)

    def _hold(self, topic: str, send: _HeldSend) -> None:
        """A new topic's first messages wait until it is on disk; later ones stay behind them."""
        if topic in self._held:
            self._held[topic].append(send)
            return
        self._held[topic] = [send]
        saving = self._context.in_thread(self._context.broker.save)
        saving.add_done_callback(partial(self._release, topic))

    def _release(self, topic: str, saving: asyncio.Future[None]) -> None:
        error = saving.exception()
        for request, messages, write in self._held.pop(topic):
            if error is not None:
                request.fail(error)
            elif topic not in self._held and self._is_saved(messages):
                write()
            else:  # the topic was changed meanwhile
                self._hold(topic, _HeldSend(request, messages, write))

    def _read_elsewhere(
        self, request: Request, header: SendRequest, future: asyncio.Future[list[Message]]
    ) -> None:
        try:
            self._write(request, header, future.result())
        except BrokerError as error:
            request.fail(error)
        except Exception as error:
            log.exception("a batch could not be read")
            request.fail(error)

    def _read(self, request: Request) -> tuple[_Target, int, dict[str, str]]:
        """What a send's header says: where to, when it was born, and its properties."""
        ext = request.command.ext
        get = ext.get
        # All the short names but g and i, which are another with each message.
        key = (
            request.command.code,
            *(get("a"), get("b"), get("c"), get("d"), get("e"), get("f")),
            *(get("h"), get("j"), get("k"), get("l"), get("m"), get("n")),
        )
        text = get("i") or get("properties") or ""
        if len(text) > PROPERTIES_TEXT_MAX:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"properties: expected at most {PROPERTIES_SIZE_MAX} bytes, found {len(text)}",
            )
        target = self._targets.get(key)
        if target is not None and self._context.topics.get(target.header.topic) is target.config:
            try:
                born_ms = parse_long(ext["g"])
            except (KeyError, ValueError):
                SendRequest.decode(ext)  # says what is wrong
                raise
            return target, max(born_ms, 0), decode_properties(text)
        header = SendRequest.decode(ext)
        target = self._target(request, header)
        if "b" in ext and sum(len(str(part)) for part in key) <= TARGET_SIZE_MAX:
            if len(self._targets) >= TARGET_COUNT_MAX:
                self._targets.clear()
            # Its properties are another message's, and may be many.
            self._targets[key] = target._replace(header=replace(header, properties=None))
        return target, max(header.born_timestamp, 0), decode_properties(text)

    def _target(self, request: Request, header: SendRequest) -> _Target:
        check_target(header.topic)
        config = self._context.topics.planned(
            header.topic,
            default_topic=header.default_topic,
            queue_count=header.default_topic_queue_nums,
        )
        _check_queue(config, header.queue_id)
        return _Target(
            header=header,
            config=config,
            group=group_of_retry(header.topic),
            is_batch=request.command.code == RequestCode.SEND_BATCH_MESSAGE or header.batch,
            reconsume_times=max(header.reconsume_times or 0, 0),
        )

    def _make_topic(self, header: SendRequest, messages: Sequence[Message]) -> None:
        """Make the topic of a first send, unless the store would refuse all of it."""
        faults = []
        for message in messages:
            try:
                self._context.store.check(message)
            except BrokerError as error:
                faults.append(error)
        if len(faults) == len(messages):
            raise Refused(message_code_of(faults[0]), faults[0].message)
        self._context.topics.for_send(
            header.topic,
            default_topic=header.default_topic,
            queue_count=header.default_topic_queue_nums,
        )

    def _batch(
        self,
        request: Request,
        header: SendRequest,
        queue_id: int,
        born_ms: int,
        common: dict[str, str],
    ) -> list[Message]:
        found = decode_batch(request.command.body, count_max=BATCH_COUNT_MAX)
        if (
            not 0 < len(found) <= BATCH_COUNT_MAX
            or header.sys_flag & SYS_TRANSACTION_MASK
            or common.get("DELAY", "0") != "0"
            or group_of_retry(header.topic) is not None
        ):
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"batch: expected 1 to {BATCH_COUNT_MAX} messages without transaction, delay level "
                f"and retry topic for all of them, found at least {len(found)} for {header.topic}",
            )
        messages = []
        for each in found:
            properties = decode_properties(each.properties)
            if not _NOT_TAKEN.isdisjoint(properties):
                _drop(properties)
            messages.append(
                new_message(
                    header.topic,
                    each.body,
                    queue_id,
                    properties,
                    each.flag,
                    header.sys_flag,
                    born_ms,
                    request.channel.host,
                )
            )
        # All are looked at before the first is written: a batch is refused as a whole.
        limit = self._context.store.options.body_size_max
        for message, each in zip(messages, found, strict=True):
            if (
                len(message.body) > limit
                or len(each.properties) > _PLAIN_PROPERTIES_SIZE_MAX
                or not SPECIAL_NAMES.isdisjoint(message.properties)
            ):
                self._context.store.check(message)
        return messages

    def _retried(
        self, request: Request, header: SendRequest, message: Message, group: str
    ) -> Message:
        """A consumer that could not send back sends itself; too often is too often here too."""
        config = self._context.broker.group_table.get(group)
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

    def _answer(self, request: Request, results: Sequence[PutResult]) -> None:
        first = results[0]
        recall = None
        if first.due_ms is not None:
            recall = RecallHandle(
                topic=first.topic,
                broker_name=self._context.broker_name,
                due_ms=first.due_ms,
                unique_id=first.unique_id,
            ).encode()
        command = request.command
        if (
            len(results) == 1
            and command.serialization is Serialization.JSON
            and first.unique_id.isascii()
        ):
            request.answer_frame(
                encode_send_answer(
                    command.opaque,
                    first.message_id,
                    first.queue_id,
                    first.queue_offset,
                    first.unique_id,
                    recall,
                )
            )
            return
        response = SendResponse(
            msg_id=",".join([result.message_id for result in results]),
            queue_id=first.queue_id,
            queue_offset=first.queue_offset,
            transaction_id=first.unique_id if len(results) == 1 else None,
            recall_handle=recall,
            region=REGION,
            trace_on=True,
        )
        request.answer(Answer(ext=response.encode()))


def _drop(properties: dict[str, str]) -> None:
    drop_broker_properties(properties)
    properties.pop("WAIT", None)


def _check_queue(config: TopicConfig, queue_id: int) -> None:
    """A send may name one of the topic's queues, or none: then it gets any."""
    check_writable(config)
    count = max(config.read_queue_nums, config.write_queue_nums)
    check_queue_id(config.topic_name, max(queue_id, 0), count)

"""Sends: bytes of one message or of a batch to messages, and what was accepted back to bytes.

The answer goes out when the message is on disk; `dueline.broker.sending` has the rules. A delayed
message is answered with its place in the delay log and with a handle by which it can be taken back.

The headers of one producer differ in the time and the properties alone. What the rest of a header
says is decoded and checked once and then remembered (`_Head`), for as long as the topic is the
same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dueline.admission import BROKER_PROPERTIES, drop_broker_properties
from dueline.broker.sending import BATCH_COUNT_MAX, Destination
from dueline.broker.values import PutResult
from dueline.errors import BrokerError
from dueline.message import (
    PROPERTIES_SIZE_MAX,
    SYS_TRANSACTION_MASK,
    Message,
    decode_properties,
    new_message,
)
from dueline.message_rows import Head
from dueline.schedule import LEVEL_NAME, TIMER_NAMES
from dueline.server.remoting.answers import Refused, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context, answer_send
from dueline.server.remoting.hub import Handler
from dueline.wire import Command, FrameDecoder
from dueline.wire.batch import decode_batch
from dueline.wire.codes import VERSION_3_4_9, RequestCode, ResponseCode, Serialization
from dueline.wire.header import parse_long
from dueline.wire.headers import SendRequest, SendResponse
from dueline.wire.send_answer import REGION, encode_send_answer
from dueline.wire.turn import (
    ACTION_AT,
    ACTION_DROP,
    ACTION_ID,
    ACTION_KEYS,
    ACTION_LEVEL,
    ACTION_MS,
    ACTION_ODD,
    ACTION_SECONDS,
    ACTION_TAGS,
)

__all__ = ["Sends"]

LIGHT_BATCH_SIZE_BYTES: Final = 64 << 10
"""A larger batch is read in a thread: its properties may take a while."""
HEAD_COUNT_MAX: Final = 10_000
HEAD_SIZE_MAX: Final = 1_024
"""Characters of a header that is remembered."""
PROPERTIES_TEXT_MAX: Final = PROPERTIES_SIZE_MAX + 1_024
"""What is longer cannot be stored; a little of it is not for the store."""

# What only the broker may say about a message; WAIT is a question to the broker.
_NOT_TAKEN: Final = BROKER_PROPERTIES | {"WAIT", "TIMER_DEL_UNIQKEY"}

log = logging.getLogger(__name__)


class _Head(NamedTuple):
    """What the headers of many sends say alike, checked."""

    destination: Destination
    flag: int
    sys_flag: int
    reconsume_times: int
    max_reconsume_times: int
    is_batch: bool


def row_actions() -> dict[str, int]:
    """What properties mean to a kernel, by name; the rules are those of `Sends.send`."""
    return {
        **dict.fromkeys(_NOT_TAKEN | {"TRAN_MSG"}, ACTION_ODD),
        "WAIT": ACTION_DROP,
        "UNIQ_KEY": ACTION_ID,
        "KEYS": ACTION_KEYS,
        "TAGS": ACTION_TAGS,
        LEVEL_NAME: ACTION_LEVEL,
        **dict(zip(TIMER_NAMES, (ACTION_SECONDS, ACTION_MS, ACTION_AT), strict=True)),
    }


class Sends:
    """Handlers of 10, 310 and 320."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sending = context.sending
        self._heads: dict[tuple[int | str | None, ...], _Head] = {}
        self._row_heads: dict[bytes, tuple[Destination, Head | None]] = {}

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
        }

    def send(self, request: Request) -> None:
        head, born_ms, properties = self._read(request)
        queue_id = self._sending.queue_id(head.destination, properties)
        body = request.command.body
        if not head.is_batch:
            if not _NOT_TAKEN.isdisjoint(properties):
                _drop(properties)
            message = new_message(
                head.destination.topic,
                body,
                queue_id,
                properties,
                head.flag,
                head.sys_flag,
                born_ms,
                request.channel.host,
                head.reconsume_times,
            )
            self._sending.send(
                head.destination,
                [message],
                partial(answer_send, request, self._answer),
                size_bytes=len(body),
                attempts_max=_attempts_max(request, head),
                caller=request.who,
            )
            return
        read = partial(self._batch, request, head, queue_id, born_ms, properties)
        if len(body) <= LIGHT_BATCH_SIZE_BYTES:
            self._send_batch(request, head, read())
            return
        future = self._context.in_thread(read)
        future.add_done_callback(partial(self._go_on, request, head))

    # Rows of many sends

    def head(self, key: bytes, frame: npt.NDArray[np.uint8]) -> Head | None:
        """What heads with this key say; None: messages with it are to be sent one by one.

        Args:
            frame: of a send that has it.
        """
        known = self._row_heads.get(key)
        if known is not None and self._sending.is_current(known[0]):
            destination, head = known
        else:
            try:
                destination, head = self._read_head(frame.tobytes())
            except BrokerError:
                return None  # said to each that sends so
            if len(self._row_heads) >= HEAD_COUNT_MAX:
                self._row_heads.clear()
            if len(key) <= HEAD_SIZE_MAX:
                self._row_heads[key] = destination, head
        return head if self._sending.takes_rows(destination) else None

    def _read_head(self, frame: bytes) -> tuple[Destination, Head | None]:
        (cut,) = FrameDecoder().feed(frame)
        command = Command.decode(cut)
        header = SendRequest.decode(command.ext)
        said = self._head(command, header)
        is_storable = (
            not said.sys_flag & SYS_TRANSACTION_MASK
            and said.sys_flag >= 0
            and abs(said.flag) < 1 << 31
        )
        head = Head(
            topic=said.destination.topic,
            queue_id=said.destination.queue_id,
            flag=said.flag,
            sys_flag=said.sys_flag,
            reconsume_times=said.reconsume_times,
            is_batch=said.is_batch,
        )
        return said.destination, head if is_storable else None

    # Reading

    def _read(self, request: Request) -> tuple[_Head, int, dict[str, str]]:
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
        head = self._heads.get(key)
        if head is not None and self._sending.is_current(head.destination):
            try:
                born_ms = parse_long(ext["g"])
            except (KeyError, ValueError):
                SendRequest.decode(ext)  # says what is wrong
                raise
            return head, max(born_ms, 0), decode_properties(text)
        header = SendRequest.decode(ext)
        head = self._head(request.command, header)
        if "b" in ext and sum(len(str(part)) for part in key) <= HEAD_SIZE_MAX:
            if len(self._heads) >= HEAD_COUNT_MAX:
                self._heads.clear()
            self._heads[key] = head
        return head, max(header.born_timestamp, 0), decode_properties(text)

    def _head(self, command: Command, header: SendRequest) -> _Head:
        destination = self._sending.destination(
            header.topic,
            queue_id=header.queue_id,
            default_topic=header.default_topic,
            queue_count=header.default_topic_queue_nums,
            is_client_4x=True,
        )
        return _Head(
            destination=destination,
            flag=header.flag,
            sys_flag=header.sys_flag,
            reconsume_times=max(header.reconsume_times or 0, 0),
            max_reconsume_times=header.max_reconsume_times or 0,
            is_batch=command.code == RequestCode.SEND_BATCH_MESSAGE or header.batch,
        )

    def _batch(
        self,
        request: Request,
        head: _Head,
        queue_id: int,
        born_ms: int,
        properties: dict[str, str],
    ) -> list[Message]:
        """The messages of a batch; a large one is read in a thread."""
        found = decode_batch(request.command.body, count_max=BATCH_COUNT_MAX)
        messages = []
        for each in found:
            own = decode_properties(each.properties)
            if not _NOT_TAKEN.isdisjoint(own):
                _drop(own)
            messages.append(
                new_message(
                    head.destination.topic,
                    each.body,
                    queue_id,
                    own,
                    each.flag,
                    head.sys_flag,
                    born_ms,
                    request.channel.host,
                )
            )
        self._sending.check_batch(
            head.destination,
            messages,
            properties=properties,
            properties_size_max=max((len(each.properties) for each in found), default=0),
        )
        return messages

    def _go_on(self, request: Request, head: _Head, future: asyncio.Future[list[Message]]) -> None:
        """A batch was read in a thread."""
        try:
            self._send_batch(request, head, future.result())
        except BrokerError as error:
            request.fail(error)
        except Exception as error:
            log.exception("a batch could not be read")
            request.fail(error)

    def _send_batch(self, request: Request, head: _Head, messages: list[Message]) -> None:
        self._sending.send(
            head.destination,
            messages,
            partial(answer_send, request, self._answer),
            size_bytes=len(request.command.body),
            caller=request.who,
        )

    # Answering

    def _answer(self, request: Request, results: list[PutResult]) -> None:
        first = results[0]
        recall = self._sending.recall_handle(first)
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
        request.answer(Response(ext=response.encode()))


def _attempts_max(request: Request, head: _Head) -> int | None:
    """Go always says 0, which means nothing, as it does in old clients."""
    is_said = head.max_reconsume_times > 0 and request.command.version >= VERSION_3_4_9
    return head.max_reconsume_times if is_said else None


def _drop(properties: dict[str, str]) -> None:
    drop_broker_properties(properties)
    properties.pop("WAIT", None)

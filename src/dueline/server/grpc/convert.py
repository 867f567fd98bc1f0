"""Messages of the protocol to messages of the store, and back.

What a client sends is checked here, rule by rule, each with the code that clients know for it. The
stored form is the same as the other protocol's, so either can read what the other wrote: tag, keys
and the rest become the well-known properties, and a delivery time becomes `TIMER_DELIVER_MS`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dueline.admission import RESERVED_PROPERTIES
from dueline.broker.filters import SQL92, TAG, Filter, filter_of
from dueline.broker.inflight import Held
from dueline.broker.names import DEAD_PREFIX, RETRY_PREFIX
from dueline.broker.retries import ATTEMPT_MAX
from dueline.broker.values import Record
from dueline.message import (
    SYS_BORN_HOST_V6,
    Message,
    format_host,
)
from dueline.schedule import DELAY_NAMES
from dueline.server.grpc.bodies import ENCODING_IDENTITY, body_of, stored_body
from dueline.server.grpc.codes import Code, Refused
from dueline.server.grpc.schema import ENUMS
from dueline.server.grpc.stubs import message_class

__all__ = [
    "MessageType",
    "due_ms_of",
    "filter_from",
    "from_proto",
    "name_of",
    "plain_proto",
    "proto_of",
    "set_time",
    "shown_name",
    "type_of",
]

USER_PROPERTY_COUNT_MAX: Final = 128
USER_PROPERTY_SIZE_MAX: Final = 16 * 1024
MESSAGE_GROUP_SIZE_MAX: Final = 64
MESSAGE_ID_SIZE_MAX: Final = 255
KEY_COUNT_MAX: Final = 128

_Message: Final = message_class("Message")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f]")

MessageType = ENUMS["MessageType"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sends, and the bounds they are held to."""

    born_host: bytes
    body_size_max: int
    now_ms: int
    queue_of: Callable[[Mapping[str, str]], int] = lambda properties: 0
    """The queue for a message with these properties."""


def name_of(resource: Any) -> str:
    """A topic's or group's full name; a namespace stands before it, as 4.x clients write it.

    Behind `%RETRY%` and `%DLQ%`, so that these are still known as what they are; and once, however
    often a client puts it there.
    """
    name, namespace = str(resource.name), resource.resource_namespace
    if not namespace:
        return name
    kind = next((each for each in (RETRY_PREFIX, DEAD_PREFIX) if name.startswith(each)), "")
    own = name.removeprefix(kind).removeprefix(f"{namespace}%")
    return f"{kind}{namespace}%{own}"


def shown_name(name: str, namespace: str) -> str:
    """A full name as a client of this namespace knows it."""
    return name.removeprefix(f"{namespace}%") if namespace else name


# Towards the store


def from_proto(message: Any, topic: str, *, sender: Sender) -> Message:
    """The message to store.

    Raises:
        InvalidRequest: says which rule it breaks.
    """
    system = message.system_properties
    _check_id(system.message_id)
    body = stored_body(bytes(message.body), system.body_encoding, sender.body_size_max)
    properties = _user_properties(message)
    _add_tag_and_keys(system, properties)
    if system.HasField("message_group"):
        properties["__SHARDINGKEY"] = _message_group(system.message_group)
    if system.HasField("delivery_timestamp"):
        # Times before 1970 are as much in the past as any other.
        deliver_ms = max(system.delivery_timestamp.ToMilliseconds(), 0)
        properties["TIMER_DELIVER_MS"] = str(deliver_ms)
    properties["UNIQ_KEY"] = system.message_id
    if system.message_type == MessageType["TRANSACTION"]:
        properties["TRAN_MSG"] = "true"
        properties["PGROUP"] = topic
        seconds = system.orphaned_transaction_recovery_duration.seconds
        if seconds > 0:
            properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = str(seconds)
    if system.HasField("trace_context") and not _CONTROL.search(system.trace_context):
        properties["TRACE_CONTEXT"] = system.trace_context
    if system.born_host and not _CONTROL.search(system.born_host):
        properties["__BORNHOST"] = system.born_host[:255]
    born_ms = system.born_timestamp.ToMilliseconds() if system.HasField("born_timestamp") else 0
    return Message(
        topic=topic,
        body=body,
        queue_id=sender.queue_of(properties),
        properties=properties,
        sys_flag=SYS_BORN_HOST_V6 if len(sender.born_host) > 8 else 0,
        born_ms=born_ms if 0 < born_ms < 1 << 62 else sender.now_ms,
        born_host=sender.born_host,
    )


def type_of(properties: Mapping[str, str]) -> int:
    """The kind of a message, by its properties."""
    if properties.get("TRAN_MSG") == "true":
        return MessageType["TRANSACTION"]
    if not DELAY_NAMES.isdisjoint(properties):
        return MessageType["DELAY"]
    if "__SHARDINGKEY" in properties:
        return MessageType["FIFO"]
    return MessageType["NORMAL"]


def _check_id(message_id: str) -> None:
    if not message_id.strip() or len(message_id) > MESSAGE_ID_SIZE_MAX or _has_space(message_id):
        raise Refused(
            Code.ILLEGAL_MESSAGE_ID,
            f"message id: expected 1 to {MESSAGE_ID_SIZE_MAX} characters without spaces, "
            f"found {message_id[:80]!r}",
        )


def _has_space(text: str) -> bool:
    return bool(_BLANK.search(text))


def _user_properties(message: Any) -> dict[str, str]:
    properties = dict(message.user_properties)
    size = sum(len(name) + len(value) for name, value in properties.items())
    if len(properties) > USER_PROPERTY_COUNT_MAX or size > USER_PROPERTY_SIZE_MAX:
        raise Refused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties: expected at most {USER_PROPERTY_COUNT_MAX} with "
            f"{USER_PROPERTY_SIZE_MAX} characters, found {len(properties)} with {size}",
        )
    for name, value in properties.items():
        is_reserved = name in RESERVED_PROPERTIES or not name.strip()
        if is_reserved or _CONTROL.search(name) or _CONTROL.search(value):
            raise Refused(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"property {name[:80]!r}: expected a name that is not reserved, and no control "
                "characters",
            )
    return properties


def _add_tag_and_keys(system: Any, properties: dict[str, str]) -> None:
    if system.HasField("tag") and system.tag:
        tag = system.tag
        if not tag.strip() or "|" in tag or _CONTROL.search(tag):
            raise Refused(
                Code.ILLEGAL_MESSAGE_TAG,
                f"tag: expected text without | and control characters, found {tag[:80]!r}",
            )
        properties["TAGS"] = tag
    for key in system.keys:
        if not key.strip() or _CONTROL.search(key):
            raise Refused(
                Code.ILLEGAL_MESSAGE_KEY,
                f"key: expected text without control characters, found {key[:80]!r}",
            )
    if len(system.keys) > KEY_COUNT_MAX:
        raise Refused(
            Code.ILLEGAL_MESSAGE_KEY,
            f"keys: expected at most {KEY_COUNT_MAX}, found {len(system.keys)}",
        )
    if system.keys:
        properties["KEYS"] = " ".join(system.keys)


def _message_group(name: str) -> str:
    if not name.strip() or len(name) > MESSAGE_GROUP_SIZE_MAX or _CONTROL.search(name):
        raise Refused(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"message group: expected 1 to {MESSAGE_GROUP_SIZE_MAX} characters, "
            f"found {name[:80]!r}",
        )
    return name


# Towards clients


def proto_of(held: Held, *, topic: Any, invisible_ms: int, due_ms: int | None) -> Any:
    """A received message.

    Args:
        topic: the topic as the client named it.
    """
    message = plain_proto(held.record, held.properties, topic=topic, due_ms=due_ms)
    system = message.system_properties
    system.receipt_handle = held.receipt
    system.delivery_attempt = min(held.retry_count + 1, ATTEMPT_MAX)
    set_time(system.invisible_duration, invisible_ms)
    return message


def plain_proto(
    record: Record, properties: dict[str, str], *, topic: Any, due_ms: int | None
) -> Any:
    """A message without a receipt."""
    body = body_of(record)
    message = _Message(body=body)
    message.topic.CopyFrom(topic)
    for name, value in properties.items():
        if name not in RESERVED_PROPERTIES:
            message.user_properties[_text(name)] = _text(value)
    system = message.system_properties
    system.message_id = _text(properties.get("UNIQ_KEY", ""))
    # Every client computes this one alike; of the others each has its own idea.
    system.body_digest.type = ENUMS["DigestType"]["MD5"]
    system.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = ENCODING_IDENTITY
    system.message_type = type_of(properties)
    set_time(system.born_timestamp, record.born_ms)
    system.born_host = _text(properties.get("__BORNHOST") or format_host(record.born_host))
    set_time(system.store_timestamp, record.store_ms)
    system.store_host = format_host(record.store_host)
    system.queue_id = record.queue_id
    system.queue_offset = record.queue_offset
    if due_ms is not None:
        set_time(system.delivery_timestamp, due_ms)
    if "TAGS" in properties:
        system.tag = _text(properties["TAGS"])
    system.keys.extend(_text(key) for key in properties.get("KEYS", "").split())
    if "__SHARDINGKEY" in properties:
        system.message_group = _text(properties["__SHARDINGKEY"])
    if "TRACE_CONTEXT" in properties:
        system.trace_context = _text(properties["TRACE_CONTEXT"])
    if "DLQ_ORIGIN_TOPIC" in properties:
        origin = shown_name(properties["DLQ_ORIGIN_TOPIC"], topic.resource_namespace)
        system.dead_letter_queue.topic = _text(origin)
        system.dead_letter_queue.message_id = _text(properties.get("DLQ_ORIGIN_MESSAGE_ID", ""))
    return message


def due_ms_of(properties: Mapping[str, str], *, is_delayed: bool, store_ms: int) -> int | None:
    """When a delayed message was due, as its properties or its record say."""
    for name in ("TIMER_OUT_MS", "TIMER_DELIVER_MS"):
        text = properties.get(name, "")
        if text.isdecimal() and len(text) < 16:
            return int(text)
    if not is_delayed or "RETRY_TOPIC" in properties:
        return None  # a refused message was put off by the broker, not by who sent it
    return store_ms


def filter_from(expression: Any) -> Filter:
    """What a client wants of a topic.

    Raises:
        InvalidRequest: an expression that cannot be read.
    """
    kind = SQL92 if expression.type == ENUMS["FilterType"]["SQL"] else TAG
    return filter_of(expression.expression, kind)


def set_time(field: Any, milliseconds: int) -> None:
    """Set a `Timestamp` or a `Duration`."""
    field.seconds, rest = divmod(milliseconds, 1_000)
    field.nanos = rest * 1_000_000


def _text(value: str) -> str:
    """Text that protobuf takes: bytes that were no UTF-8 are shown as such."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

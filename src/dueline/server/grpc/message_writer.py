"""Received messages as bytes of the protocol, straight from their records.

Each message of a `ReceiveMessage` is an answer of its own, and protobuf's classes take longer to
fill than all the rest of a receive. A record of the usual kind is therefore written field by field,
in the order of their numbers as protobuf does it, and what many messages share is kept: the topic,
the duration, times and hosts. What is rare (hosts of IPv6, compressed bodies, dead letters, text
that is no UTF-8) goes through the classes (`convert.proto_of`), with the same result.

Where a receive has several and kernels are ready, `message_kernels` writes the usual ones of them.

A field is a key (its number, and how its value is written), and a value; a text, bytes and a
message have their length before them. See `schema` for the numbers.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from dueline import compiled
from dueline.admission import RESERVED_PROPERTIES
from dueline.broker.inflight import Held, Plain
from dueline.broker.inflight.plain_rows import PLAIN_KERNELS
from dueline.broker.retries import ATTEMPT_MAX
from dueline.message import format_host
from dueline.server.grpc.convert import MessageType, due_ms_of, proto_of, set_time, type_of
from dueline.server.grpc.framing import framed
from dueline.server.grpc.message_table import MEANING_NAMES, MESSAGE_KERNELS, write_table
from dueline.server.grpc.stubs import message_class

__all__ = ["MessageWriter"]

_Received: Final = message_class("ReceiveMessageResponse")
_Duration: Final = message_class("Duration")
_INT64_END: Final = 1 << 63
SEVERAL: Final = 3
"""Fewer are written one by one: a kernel's arrays take as long."""

log = logging.getLogger(__name__)

# Keys, in the order in which the fields are written.
_MESSAGE: Final = b"\x12"  # of the answer
_TOPIC, _USER, _SYSTEM, _BODY = b"\x0a", b"\x12", b"\x1a", b"\x22"  # of the message
_NAME, _VALUE = b"\x0a", b"\x12"  # of a property
_TAG, _KEY, _ID = b"\x0a", b"\x12", b"\x1a"  # and of its system properties, these and all below
_DIGEST: Final = b"\x22\x24\x08\x02\x12\x20"  # 36 bytes: MD5, and a text of 32
_KIND: Final = b"\x28\x01\x30"  # the encoding, which is none, before it
_NORMAL: Final = bytes([MessageType["NORMAL"]])
_BORN, _BORN_HOST, _STORED, _STORE_HOST, _DUE = b"\x3a", b"\x42", b"\x4a", b"\x52", b"\x5a"
_RECEIPT, _QUEUE, _OFFSET, _INVISIBLE = b"\x62", b"\x68", b"\x70", b"\x7a"
_ATTEMPT, _GROUP, _TRACE = b"\x80\x01", b"\x8a\x01", b"\x92\x01"


class MessageWriter:
    """Writes the messages of one receive."""

    def __init__(self, topic: Any, invisible_ms: int, *, group: str) -> None:
        """Begin.

        Args:
            topic: as the client named it.
            group: who receives; for the log.
        """
        self._group = group
        self._topic = topic
        self._invisible_ms = invisible_ms
        duration = _Duration()
        set_time(duration, invisible_ms)
        self._head = _TOPIC + _sized(topic.SerializeToString())
        self._invisible = _INVISIBLE + _sized(duration.SerializeToString()) + _ATTEMPT

    def write_all(self, messages: Sequence[Held]) -> list[bytes]:
        """Messages as answers of their own, in their frames: the bytes of one or more in each.

        A message that cannot be written is left out, and logged.
        """
        plain, kernels = compiled.ready(PLAIN_KERNELS), compiled.ready(MESSAGE_KERNELS)
        if plain is None or kernels is None or len(messages) < SEVERAL:
            return [self._shown(held) for held in messages]
        data, ends = write_table(plain, kernels, messages, self._head, self._invisible)
        parts: list[bytes] = []
        start = before = 0
        for held, end in zip(messages, ends, strict=True):
            if end == before:
                parts += (data[start:end], self._shown(held))
                start = end
            before = end
        parts.append(data[start:])
        return parts

    def _shown(self, held: Held) -> bytes:
        try:
            return self.write(held)
        except Exception:
            # It has its attempts and then goes to the dead letters; its neighbours are received.
            log.exception("%s: a message of %s cannot be shown", self._group, self._topic.name)
            return b""

    def write(self, held: Held) -> bytes:
        """A message as an answer of its own, in its frame."""
        plain = held.plain()
        if plain is not None and "DLQ_ORIGIN_TOPIC" not in held.properties:
            try:
                return self._quick(held, plain)
            except (UnicodeEncodeError, OverflowError):
                pass  # a text or a number that takes more care
        return framed(self.by_classes(held).SerializeToString())

    def by_classes(self, held: Held) -> Any:
        """The same answer as a value of protobuf's."""
        record = held.record
        due_ms = due_ms_of(
            held.properties, is_delayed=record.seq is not None, store_ms=record.store_ms
        )
        message = proto_of(held, topic=self._topic, invisible_ms=self._invisible_ms, due_ms=due_ms)
        return _Received(message=message)

    def _quick(self, held: Held, plain: Plain) -> bytes:
        properties, body = held.properties, plain.body
        if plain.is_delayed or not MEANING_NAMES.isdisjoint(properties):
            kind, born_host, due, end = _meaning(properties, plain)
        else:
            kind, born_host, due, end = _NORMAL, _host(plain.born_host), b"", b""
        receipt = held.receipt.encode()
        attempt = _varint(min(plain.reconsume_times + held.attempt, ATTEMPT_MAX))
        system = b"".join(
            (
                _texts(properties),
                _DIGEST,
                hashlib.md5(body, usedforsecurity=False).hexdigest().upper().encode(),
                _KIND,
                kind,
                _BORN,
                _time(plain.born_ms),
                _BORN_HOST,
                born_host,
                _STORED,
                _time(plain.store_ms),
                _STORE_HOST,
                _host(plain.store_host),
                due,
                _RECEIPT,
                _varint(len(receipt)),
                receipt,
                _QUEUE + _varint(plain.queue_id) if plain.queue_id else b"",
                _OFFSET,
                _varint(plain.queue_offset),
                self._invisible,
                attempt,
                end,
            )
        )
        parts = (
            self._head,
            _users(properties),
            _SYSTEM,
            _varint(len(system)),
            system,
            _BODY + _varint(len(body)) if body else b"",
            body,
        )
        size = sum(map(len, parts))
        return framed(b"".join((_MESSAGE, _varint(size), *parts)))


def _meaning(properties: dict[str, str], plain: Plain) -> tuple[bytes, bytes, bytes, bytes]:
    """What only some messages have: kind, born host, due time, and the fields at the end."""
    due_ms = due_ms_of(properties, is_delayed=plain.is_delayed, store_ms=plain.store_ms)
    own_host = properties.get("__BORNHOST")
    end = b""
    for key, name in ((_GROUP, "__SHARDINGKEY"), (_TRACE, "TRACE_CONTEXT")):
        if name in properties:
            end += key + _sized(properties[name].encode())
    return (
        _varint(type_of(properties)),
        _host(plain.born_host) if own_host is None else _sized(own_host.encode()),
        b"" if due_ms is None else _DUE + _time(due_ms),
        end,
    )


def _users(properties: dict[str, str]) -> bytes:
    """The properties that are the user's own, as a map."""
    names = properties.keys() - RESERVED_PROPERTIES
    if not names:
        return b""
    return b"".join(
        [
            _USER
            + _sized(_NAME + _sized(name.encode()) + _VALUE + _sized(properties[name].encode()))
            for name in names
        ]
    )


def _texts(properties: dict[str, str]) -> bytes:
    """Tag, keys and id."""
    found = b""
    if "TAGS" in properties:
        found = _TAG + _sized(properties["TAGS"].encode())
    if "KEYS" in properties:
        keys = properties["KEYS"].split()
        found += b"".join([_KEY + _sized(key.encode()) for key in keys])
    if "UNIQ_KEY" in properties:
        found += _ID + _sized(properties["UNIQ_KEY"].encode())
    return found


@lru_cache(maxsize=1_024)  # those of messages that were sent together are the same
def _time(milliseconds: int) -> bytes:
    """A `Timestamp`, with its length."""
    seconds, rest = divmod(milliseconds, 1_000)
    parts = b""
    if seconds:
        parts += b"\x08" + _varint(seconds)
    if rest:
        parts += b"\x10" + _varint(rest * 1_000_000)
    return _sized(parts)


@lru_cache(maxsize=1_024)
def _host(host: bytes) -> bytes:
    return _sized(format_host(host).encode())


def _sized(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _varint(number: int) -> bytes:
    """A number of protobuf's, 7 bits in each byte.

    Raises:
        OverflowError: less than 0, or more than an integer can be.
    """
    if 0 <= number < 1 << 7:
        return _SMALL[number]
    if 0 < number < 1 << 14:
        return bytes((number & 127 | 128, number >> 7))
    if not 0 <= number < _INT64_END:
        raise OverflowError(number)
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


_SMALL: Final = [bytes([number]) for number in range(128)]

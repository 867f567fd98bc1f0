"""A message as a value, and the small codecs that belong to it.

Properties are RocketMQ's: `name 0x01 value 0x02 name 0x01 value`, UTF-8, with or without a
trailing 0x02. Two ids name a message. The *unique id* is made by the client (property UNIQ_KEY)
or, if it made none, by the broker; it stays the same from acceptance to delivery. The *offset id*
is an address: store host and log position. Positions of the delay log are marked with bit 62, so
that an id says which log it points into.

Pure functions and frozen values: no I/O, safe from any thread.
"""

from __future__ import annotations

import ipaddress
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from dueline.errors import InvalidRequest, LimitExceeded

__all__ = [
    "DELAY_LOG_MARK",
    "HOST_UNKNOWN",
    "Message",
    "UniqueIds",
    "decode_properties",
    "encode_properties",
    "format_host",
    "key_words",
    "message_id",
    "new_message",
    "pack_host",
    "parse_message_id",
    "properties_size",
    "real_queue_id",
    "string_hash",
    "tags_code",
    "whole_number",
]

BODY_SIZE_MAX_DEFAULT: Final = 4 * 1024 * 1024
BODY_SIZE_LIMIT: Final = 15 * 1024 * 1024
"""However it is configured: a record has to fit into a frame of 16 MiB, or nobody receives it."""
TOPIC_SIZE_MAX: Final = 127
PROPERTIES_SIZE_MAX: Final = 32_767
QUEUE_COUNT_MAX: Final = 1_024
QUEUE_ID_MAX: Final = QUEUE_COUNT_MAX - 1
"""The layout has room for more; a topic has as many queues as its last one needs."""

DUE_MS_MAX: Final = 1 << 60
LEVEL_MAX: Final = 1 << 20
"""The most delay levels a table may have; a record that names a later one is not believed."""

SYS_COMPRESSED: Final = 0x1
SYS_TRANSACTION_MASK: Final = 0xC
SYS_COMMIT: Final = 0x8
SYS_ROLLBACK: Final = 0xC
SYS_BORN_HOST_V6: Final = 0x10
SYS_STORE_HOST_V6: Final = 0x20

LEVEL_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
CONTROL_TOPIC: Final = "DUELINE_SYS_CONTROL"
DEAD_LETTER_TOPIC: Final = "DUELINE_DEAD_LETTER"

DELAY_LOG_MARK: Final = 1 << 62
HOST_UNKNOWN: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"

_TOPIC_PATTERN: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_SHORT_TAG_SIZE: Final = 64
_NAME_VALUE: Final = "\x01"
_SEPARATOR: Final = "\x02"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a producer sends: properties say when it is due (see `dueline.schedule`)."""

    topic: str
    body: bytes
    queue_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: bytes = HOST_UNKNOWN
    reconsume_times: int = 0
    prepared_position: int = 0

    def check(self, *, body_size_max: int = BODY_SIZE_MAX_DEFAULT) -> None:
        """Refuse what the record layout cannot hold.

        Raises:
            InvalidRequest: topic, queue id or properties that cannot be stored.
            LimitExceeded: body too large.
        """
        check_topic(self.topic)
        if not 0 <= self.queue_id <= QUEUE_ID_MAX:
            raise InvalidRequest(
                f"queue id: expected 0 to {QUEUE_ID_MAX}, found {self.queue_id}",
                field="queue_id",
                found=self.queue_id,
            )
        if len(self.body) > body_size_max:
            raise LimitExceeded(
                f"body: expected at most {body_size_max} bytes, found {len(self.body)}; "
                "send less or raise body_size_max",
                field="body",
                limit=body_size_max,
                found=len(self.body),
            )

    @property
    def unique_id(self) -> str | None:
        return self.properties.get("UNIQ_KEY")

    @property
    def keys(self) -> list[str]:
        """The user's keys: words of the property KEYS."""
        return key_words(self.properties.get("KEYS", ""))


# A frozen dataclass's `__init__` assigns through `object.__setattr__`, which takes 2 µs for a
# message. The slots' own descriptors do the same in a third of that.
_new: Final = object.__new__
_set_topic: Final = Message.__dict__["topic"].__set__
_set_body: Final = Message.__dict__["body"].__set__
_set_queue_id: Final = Message.__dict__["queue_id"].__set__
_set_properties: Final = Message.__dict__["properties"].__set__
_set_flag: Final = Message.__dict__["flag"].__set__
_set_sys_flag: Final = Message.__dict__["sys_flag"].__set__
_set_born_ms: Final = Message.__dict__["born_ms"].__set__
_set_born_host: Final = Message.__dict__["born_host"].__set__
_set_reconsume_times: Final = Message.__dict__["reconsume_times"].__set__
_set_prepared_position: Final = Message.__dict__["prepared_position"].__set__


def new_message(  # noqa: PLR0913 - as many fields as a message has
    topic: str,
    body: bytes,
    queue_id: int,
    properties: Mapping[str, str],
    flag: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    reconsume_times: int = 0,
) -> Message:
    """`Message(...)` for callers that make many of them.

    >>> new_message("t", b"x", 0, {}, 0, 0, 5, HOST_UNKNOWN).born_ms
    5
    """
    message = _new(Message)
    _set_topic(message, topic)
    _set_body(message, body)
    _set_queue_id(message, queue_id)
    _set_properties(message, properties)
    _set_flag(message, flag)
    _set_sys_flag(message, sys_flag)
    _set_born_ms(message, born_ms)
    _set_born_host(message, born_host)
    _set_reconsume_times(message, reconsume_times)
    _set_prepared_position(message, 0)
    return message


def key_words(text: str) -> list[str]:
    """The keys in the property KEYS: words between spaces.

    >>> key_words("order-17  customer-4")
    ['order-17', 'customer-4']
    """
    return [word for word in text.split(" ") if word]


def check_topic(topic: str) -> None:
    """Refuse names that RocketMQ refuses: empty, too long, or with other characters.

    Also the one name that would make the store take a message for a word of its own.
    """
    if len(topic) <= TOPIC_SIZE_MAX and _TOPIC_PATTERN.fullmatch(topic):
        if topic != CONTROL_TOPIC:
            return
        raise InvalidRequest(
            f"topic: expected another name, found {topic!r}, which the store keeps for itself",
            field="topic",
            found=topic,
        )
    raise InvalidRequest(
        f"topic: expected 1 to {TOPIC_SIZE_MAX} of letters, digits and % | _ -, "
        f"found {topic[:200]!r}",
        field="topic",
        found=topic,
    )


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The stored form of properties.

    Raises:
        InvalidRequest: a name or value with a separator byte, an empty name, or too many bytes.

    >>> encode_properties({"KEYS": "k1", "TAGS": "a"})
    b'KEYS\\x01k1\\x02TAGS\\x01a'
    """
    text = _SEPARATOR.join([name + _NAME_VALUE + value for name, value in properties.items()])
    count = len(properties)
    if count and (
        text.count(_SEPARATOR) != count - 1 or text.count(_NAME_VALUE) != count or "" in properties
    ):
        raise InvalidRequest(
            "properties: expected names and values without the bytes 0x01 and 0x02 and no empty "
            f"name, found {dict(properties)!r:.200}",
            field="properties",
        )
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"properties: expected text, found a lone surrogate in {text!r:.200}",
            field="properties",
        ) from error
    if len(data) > PROPERTIES_SIZE_MAX:
        raise InvalidRequest(
            f"properties: expected at most {PROPERTIES_SIZE_MAX} bytes, found {len(data)}",
            field="properties",
            limit=PROPERTIES_SIZE_MAX,
            found=len(data),
        )
    return data


def properties_size(properties: Mapping[str, str]) -> int:
    """How many bytes the stored form of properties has.

    >>> properties_size({"KEYS": "k1", "TAGS": "a"}) == len(b"KEYS_k1_TAGS_a")
    True
    """
    text = _SEPARATOR.join([name + _NAME_VALUE + value for name, value in properties.items()])
    return len(text.encode("utf-8", "surrogateescape"))


def decode_properties(data: bytes | str) -> dict[str, str]:
    """The properties in their stored form; entries without a name or a value are skipped.

    >>> decode_properties(b"KEYS\\x01k1\\x02TAGS\\x01a\\x02")
    {'KEYS': 'k1', 'TAGS': 'a'}
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    properties = {}
    for entry in text.split(_SEPARATOR):
        name, separator, value = entry.partition(_NAME_VALUE)
        if separator and name and value:
            properties[name] = value
    return properties


def whole_number(text: bytes | str | None, default: int, *, number_max: int) -> int:
    """The number in a property that a stranger may have written, or the default.

    >>> whole_number("17", 0, number_max=99), whole_number("../x", 0, number_max=99)
    (17, 0)
    """
    if text is None or len(text) > 19 or not (text.isascii() and text.isdigit()):
        return default
    return min(int(text), number_max)


def real_queue_id(text: bytes | str | None, default: int = 0) -> int:
    """The queue in REAL_QID; what is no queue's number stays outside of what a queue may have.

    >>> real_queue_id(b"3"), real_queue_id(None), real_queue_id("x"), real_queue_id("99999999999")
    (3, 0, -1, 1024)
    """
    return default if text is None else whole_number(text, -1, number_max=QUEUE_COUNT_MAX)


def string_hash(text: str) -> int:
    """Java's `String.hashCode`: 31 * h + UTF-16 unit, wrapped to a signed 32-bit integer.

    >>> string_hash("TagA")
    2598919
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def tags_code(properties: Mapping[str, str]) -> int:
    """What a consume queue keeps of the tag: its hash, or 0 without a tag."""
    tag = properties.get("TAGS")
    if not tag:
        return 0
    return _short_hash(tag) if len(tag) <= _SHORT_TAG_SIZE else string_hash(tag)


@lru_cache(maxsize=4_096)  # a broker sees few tags, and each of them often
def _short_hash(tag: str) -> int:
    return string_hash(tag)


def pack_host(address: str, port: int) -> bytes:
    """A host as records keep it: 4 or 16 address bytes and a 4-byte port.

    >>> pack_host("127.0.0.1", 10911).hex()
    '7f00000100002a9f'
    """
    try:
        packed = ipaddress.ip_address(address).packed
    except ValueError as error:
        raise InvalidRequest(
            f"host: expected an IPv4 or IPv6 address, found {address!r}", field="host"
        ) from error
    return packed + port.to_bytes(4, "big")


@lru_cache(maxsize=1_024)  # the same few, with every message that is shown
def format_host(host: bytes) -> str:
    """The readable form of a packed host: `127.0.0.1:10911` or `[::1]:10911`."""
    address = ipaddress.ip_address(host[:-4])
    port = int.from_bytes(host[-4:], "big", signed=True)
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def message_id(store_host: bytes, position: int) -> str:
    """The offset id of the record at `position`: 32 hexadecimal digits, 56 with an IPv6 host."""
    return (store_host + position.to_bytes(8, "big")).hex().upper()


def parse_message_id(text: str) -> tuple[bytes, int]:
    """Store host and position of an offset id.

    Raises:
        InvalidRequest: not 32 or 56 hexadecimal digits.
    """
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in (16, 28) or len(text) != 2 * len(data):
        raise InvalidRequest(
            f"offset id: expected 32 or 56 hexadecimal digits, found {text[:80]!r}", field="id"
        )
    return data[:-8], int.from_bytes(data[-8:], "big")


class UniqueIds:
    """Makes unique ids in RocketMQ's shape: 10 bytes that name this maker, 6 bytes that count.

    The count starts at the time of creation, so that a process that got its predecessor's random
    bytes (one in four billion) still counts elsewhere.
    """

    def __init__(self, *, host: bytes, start_ms: int) -> None:
        maker = host[:4] + (os.getpid() & 0xFFFF).to_bytes(2, "big") + os.urandom(4)
        self.prefix: Final = maker.hex().upper()
        self._next = (start_ms & 0xFFFFFFFF) << 16
        self._lock = threading.Lock()

    def next(self) -> str:
        return f"{self.prefix}{self.take(1):012X}"

    def many(self, count: int) -> list[str]:
        first = self.take(count)
        return [
            f"{self.prefix}{number & 0xFFFFFFFFFFFF:012X}" for number in range(first, first + count)
        ]

    def take(self, count: int) -> int:
        """Reserve `count` numbers in a row and return the first; each has 48 bits."""
        with self._lock:
            first = self._next
            self._next = (first + count) & 0xFFFFFFFFFFFF
        return first

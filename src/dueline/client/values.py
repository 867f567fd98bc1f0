"""What is sent, what was sent, and what is received."""

from __future__ import annotations

import base64
import contextlib
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from dueline.admission import check_properties, check_sender_target
from dueline.errors import InvalidRequest
from dueline.message import decode_properties
from dueline.schedule import DELAY_NAMES
from dueline.store import lanes
from dueline.store.layout import HEADER_SIZE
from dueline.store.record import Record, decode, usual
from dueline.times import Duration, duration_ms, future_ms
from dueline.wire.packing import unpacked

__all__ = ["Outgoing", "Received", "Sent", "read_messages", "received"]

_TIME_COUNT: Final = 3
"""Ways to say when a message is due."""
_BODY_SIZE_BYTES_MAX: Final = 64 << 20
"""What a body may grow to; a few bytes can claim to be gigabytes."""
_TOGETHER_COUNT_MIN: Final = 8
"""Fewer records are checked sooner one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to send; at most one of `delay`, `delay_level` and `deliver_at`.

    A delay is a timedelta, a number of seconds or text such as `30m`; a time is a datetime with a
    zone, or text such as `2027-01-01T10:00+01:00`. A single key may be a str.
    """

    topic: str
    body: bytes
    tag: str | None = None
    keys: str | Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay: Duration | None = None
    delay_level: int | None = None
    deliver_at: datetime | str | None = None
    queue_id: int | None = None

    @property
    def is_delayed(self) -> bool:
        """Whether it says a time, by a field or by a property."""
        has_time = (self.delay, self.delay_level, self.deliver_at) != (None, None, None)
        return has_time or self.has_own_time

    @property
    def has_own_time(self) -> bool:
        """Whether it says a time by a property of its own: such messages go one by one."""
        return not DELAY_NAMES.isdisjoint(self.properties)

    def to_properties(self, unique_id: str, now_ms: int) -> dict[str, str]:
        """The properties that say all this to a broker.

        Raises:
            InvalidRequest: two times, or a time that cannot be or is over; a topic or property
                that is not for senders; parts of another kind.
        """
        self._check_kinds()
        check_sender_target(self.topic)
        check_properties(self.properties)
        if (self.delay, self.delay_level, self.deliver_at).count(None) < _TIME_COUNT - 1:
            raise InvalidRequest(
                "expected one of delay, delay_level and deliver_at, found several", field="delay"
            )
        found = {**self.properties, "UNIQ_KEY": unique_id}
        if self.tag:
            found["TAGS"] = self.tag
        if self.keys:
            found["KEYS"] = " ".join(self.keys if not isinstance(self.keys, str) else [self.keys])
        if self.delay is not None:
            found["TIMER_DELAY_MS"] = str(duration_ms(self.delay))
        if self.delay_level is not None:
            found["DELAY"] = str(self.delay_level)
        if self.deliver_at is not None:
            at_ms = future_ms(self.deliver_at, now_ms, name="deliver_at")
            found["TIMER_DELIVER_MS"] = str(max(at_ms, 0))
        return found

    def _check_kinds(self) -> None:
        """Refuse what Python lets pass and nobody means."""
        body: object = self.body
        if not isinstance(body, bytes | bytearray):
            hint = "; encode it: text.encode()" if isinstance(body, str) else ""
            raise InvalidRequest(
                f"body: expected bytes, found {type(body).__name__}{hint}", field="body"
            )
        for key in [self.keys] if isinstance(self.keys, str) else self.keys:
            if not isinstance(key, str) or not key or key.split() != [key]:
                raise InvalidRequest(
                    f"keys: expected words without spaces, found {key!r:.100}; several keys are "
                    "a list",
                    field="keys",
                )
        level = self.delay_level
        if level is not None and (not isinstance(level, int) or level < 0):
            raise InvalidRequest(
                f"delay_level: expected 0 or more, found {level!r:.100}", field="delay_level"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An acknowledged message; `handle` takes a delayed one back."""

    topic: str
    id: str
    offset_id: str
    queue_id: int
    queue_offset: int
    handle: str | None = None

    @property
    def due_ms(self) -> int | None:
        """When a delayed message is due, as its handle says; None: now, or the broker does not say.

        >>> handle = "djEgdCBkdWVsaW5lIDE3OTQ3ODk3Mjc2ODUgN0YwMDAwMDE="
        >>> Sent(topic="t", id="", offset_id="", queue_id=0, queue_offset=0, handle=handle).due_ms
        1794789727685
        """
        with contextlib.suppress(ValueError):
            words = base64.urlsafe_b64decode(self.handle or "").split(b" ")
            if len(words) == 5 and words[0] == b"v1":
                return int(words[3])
        return None


class _Raw:
    """What was not read yet of a message, as it stands in its record."""

    __slots__ = ("_head", "_tail")
    _head: bytes
    _tail: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(_Raw):
    """A message as a consumer sees it; `topic` is the one it was sent to.

    What stands beside its body is read when somebody asks for it first.
    """

    topic: str
    body: bytes
    id: str
    tag: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    queue_id: int
    queue_offset: int
    attempt: int
    born_ms: int
    store_ms: int
    position: int

    if not TYPE_CHECKING:  # a checker would take any name for a part of a message

        def __getattr__(self, name: str) -> Any:
            """Called for a field that has no value yet."""
            if name in _OF_HEAD:
                _read_head(self)
            elif name in _OF_TAIL:
                _read_tail(self)
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(self, name)

    @property
    def due_ms(self) -> int | None:
        """When it was due, if it was delayed and says so; one that was delayed by level does not.

        For that see `level`: it was due that long after `born_ms`.
        """
        text = self.properties.get("TIMER_OUT_MS", "")
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def level(self) -> int | None:
        """The delay level that it was sent with; None for a message that is being retried."""
        text = self.properties.get("DELAY", "")
        is_level = text.isascii() and text.isdigit() and not self.attempt
        return int(text) or None if is_level else None


_OF_HEAD: Final = frozenset(
    ("queue_id", "queue_offset", "position", "born_ms", "store_ms", "attempt")
)
_OF_TAIL: Final = frozenset(("topic", "id", "tag", "keys", "properties"))
_HEAD: Final = struct.Struct(">12xI4xqq4xq8xq8xI12x")
assert _HEAD.size == HEADER_SIZE

# As for `dueline.wire.Command`: a frozen dataclass's `__init__` would take longer than the rest.
_new: Final[Any] = object.__new__
_run: Final = deque[None](maxlen=0).extend
"""Runs an iterator to its end, for what it does on its way."""
_set_head: Final = _Raw.__dict__["_head"].__set__
_set_tail: Final = _Raw.__dict__["_tail"].__set__
_set_topic: Final = Received.__dict__["topic"].__set__
_set_body: Final = Received.__dict__["body"].__set__
_set_id: Final = Received.__dict__["id"].__set__
_set_tag: Final = Received.__dict__["tag"].__set__
_set_keys: Final = Received.__dict__["keys"].__set__
_set_properties: Final = Received.__dict__["properties"].__set__
_set_queue_id: Final = Received.__dict__["queue_id"].__set__
_set_queue_offset: Final = Received.__dict__["queue_offset"].__set__
_set_attempt: Final = Received.__dict__["attempt"].__set__
_set_born_ms: Final = Received.__dict__["born_ms"].__set__
_set_store_ms: Final = Received.__dict__["store_ms"].__set__
_set_position: Final = Received.__dict__["position"].__set__


def received(record: Record) -> Received:
    """The message in a record."""
    properties = decode_properties(record.properties)
    return Received(
        topic=properties.get("RETRY_TOPIC", record.topic.decode("utf-8", "replace")),
        body=unpacked(record.body, record.sys_flag, _BODY_SIZE_BYTES_MAX),
        id=properties.get("UNIQ_KEY", ""),
        tag=properties.get("TAGS"),
        keys=tuple(properties.get("KEYS", "").split()),
        properties=properties,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        attempt=record.reconsume_times,
        born_ms=record.born_ms,
        store_ms=record.store_ms,
        position=record.position,
    )


def read_messages(data: bytes) -> list[Received]:
    """The messages in the body of an answer, one record after the other.

    Raises:
        CorruptRecord: something that is no record, or one that fails its checks.
    """
    found: list[Received] = []
    at, end = 0, len(data)
    while at < end:
        records = lanes.cut(data, at)
        if len(records.heads) >= _TOGETHER_COUNT_MIN and lanes.are_plain(records):
            found += _received(records.heads, records.bodies, records.tails)
            at = records.end
            continue
        last = max(records.end, at + 1)
        while at < last:
            size_bytes = int.from_bytes(data[at : at + 4], "big")
            found.append(_read_one(data, at, size_bytes))
            at += size_bytes
    return found


def _read_one(data: bytes, start: int, size_bytes: int) -> Received:
    parts = usual(data, start, size_bytes)
    if parts is None:
        return received(decode(data[start : start + size_bytes], is_foreign=True))
    body = unpacked(bytes(parts.body), parts.sys_flag, _BODY_SIZE_BYTES_MAX)
    head = data[start : start + HEADER_SIZE]
    return _received([head], [body], [bytes(parts.tail)])[0]


def _received(heads: list[bytes], bodies: list[bytes], tails: list[bytes]) -> list[Received]:
    """The messages in usual records, which are nearly all."""
    messages = list(map(_new, repeat(Received, len(heads))))
    for put, parts in ((_set_head, heads), (_set_body, bodies), (_set_tail, tails)):
        _run(map(put, messages, parts))
    return messages


def _read_head(message: Received) -> None:
    queue_id, queue_offset, position, born_ms, store_ms, attempt = _HEAD.unpack(message._head)
    _set_queue_id(message, queue_id)
    _set_queue_offset(message, queue_offset)
    _set_position(message, position)
    _set_born_ms(message, born_ms)
    _set_store_ms(message, store_ms)
    _set_attempt(message, attempt)


def _read_tail(message: Received) -> None:
    tail = message._tail
    properties_at = 3 + tail[0]
    properties = decode_properties(tail[properties_at:])
    own = tail[1 : properties_at - 2]
    _set_topic(message, properties.get("RETRY_TOPIC") or own.decode("utf-8", "replace"))
    _set_id(message, properties.get("UNIQ_KEY", ""))
    _set_tag(message, properties.get("TAGS"))
    _set_keys(message, tuple(properties.get("KEYS", "").split()))
    _set_properties(message, properties)

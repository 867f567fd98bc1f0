"""What is sent, what was sent, and what is received."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from dueline.errors import InvalidRequest
from dueline.message import SYS_COMPRESSED, decode_properties
from dueline.store.record import Record

__all__ = ["Outgoing", "Received", "Sent", "received"]

_COMPRESSION_MASK: Final = 0x700
_ZLIB: Final = (0, 0x300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to send; at most one of `delay`, `delay_level` and `deliver_at`."""

    topic: str
    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay: timedelta | None = None
    delay_level: int | None = None
    deliver_at: datetime | None = None
    queue_id: int | None = None

    @property
    def is_delayed(self) -> bool:
        return (self.delay, self.delay_level, self.deliver_at) != (None, None, None)

    def to_properties(self, unique_id: str) -> dict[str, str]:
        """The properties that say all this to a broker.

        Raises:
            InvalidRequest: two times, or a time that cannot be.
        """
        times = [
            each for each in (self.delay, self.delay_level, self.deliver_at) if each is not None
        ]
        if len(times) > 1:
            raise InvalidRequest(
                "expected one of delay, delay_level and deliver_at, found several", field="delay"
            )
        found = {**self.properties, "UNIQ_KEY": unique_id}
        if self.tag:
            found["TAGS"] = self.tag
        if self.keys:
            found["KEYS"] = " ".join(self.keys)
        if self.delay is not None:
            found["TIMER_DELAY_MS"] = str(max(-(-self.delay // timedelta(milliseconds=1)), 0))
        if self.delay_level is not None:
            found["DELAY"] = str(self.delay_level)
        if self.deliver_at is not None:
            if self.deliver_at.tzinfo is None:
                raise InvalidRequest(
                    "deliver_at: expected a time with a time zone, found one without; "
                    "use datetime.now(timezone.utc) or astimezone()",
                    field="deliver_at",
                )
            since = self.deliver_at - datetime(1970, 1, 1, tzinfo=UTC)
            found["TIMER_DELIVER_MS"] = str(max(-(-since // timedelta(milliseconds=1)), 0))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An acknowledged message; `handle` takes a delayed one back."""

    topic: str
    id: str
    offset_id: str
    queue_id: int
    queue_offset: int
    handle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as a consumer sees it; `topic` is the one it was sent to."""

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


def received(record: Record) -> Received:
    """The message in a record."""
    properties = decode_properties(record.properties)
    return Received(
        topic=properties.get("RETRY_TOPIC", record.topic.decode("utf-8", "replace")),
        body=_body(record),
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


def _body(record: Record) -> bytes:
    if not record.sys_flag & SYS_COMPRESSED:
        return record.body
    if record.sys_flag & _COMPRESSION_MASK not in _ZLIB:
        raise InvalidRequest(
            f"body: expected zlib compression, found flags {record.sys_flag:#x}; "
            "send without LZ4 or Zstandard"
        )
    return zlib.decompress(record.body)

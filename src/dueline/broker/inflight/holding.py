"""The values of in-flight state: how messages are held, a held message, an acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from dueline.broker.retries import ATTEMPT_MAX
from dueline.message import (
    SYS_BORN_HOST_V6,
    SYS_COMPRESSED,
    SYS_STORE_HOST_V6,
    decode_properties,
)
from dueline.store import Record
from dueline.store.layout import (
    HEADER_SIZE,
    HOST_SIZE,
    header,
    properties_of,
    sys_flag_of,
)
from dueline.store.record import MAGIC, decode_checked, is_delayed

__all__ = ["Ack", "Held", "Holding", "Outcomes", "Plain", "Taken"]

_HEADER: Final = header(HOST_SIZE, HOST_SIZE)
_UNUSUAL: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6 | SYS_COMPRESSED

Outcomes = list[BaseException | None]
"""For each of many: None if it is done, or what went wrong."""


class Ack(NamedTuple):
    """An acknowledgement."""

    group: str
    topic: str
    receipt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a received message is held."""

    invisible_ms: int
    owner: str = ""
    renew: bool = False
    attempt_max: int = 17


class Plain(NamedTuple):
    """The fields of a record of the usual kind."""

    queue_id: int
    queue_offset: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    is_delayed: bool
    body: bytes


class Held:
    """A message that is held now: the bytes of its record, decoded if somebody asks for that."""

    __slots__ = ("_properties", "_record", "attempt", "data", "receipt", "visible_ms")

    def __init__(self, data: bytes, *, receipt: str, attempt: int, visible_ms: int) -> None:
        """Hold a record that the store has just checked."""
        self.data: Final = data
        self.receipt: Final = receipt
        self.attempt: Final = attempt
        self.visible_ms: Final = visible_ms
        self._record: Record | None = None
        self._properties: dict[str, str] | None = None

    @property
    def record(self) -> Record:
        if self._record is None:
            self._record = decode_checked(self.data)
        return self._record

    @property
    def is_compressed(self) -> bool:
        return bool(sys_flag_of(self.data) & SYS_COMPRESSED)

    def plain(self) -> Plain | None:
        """Its fields, sooner than by decoding it.

        None: it has hosts of IPv6, a long topic or a compressed body.
        """
        data = self.data
        (_, magic, _, queue_id, _, queue_offset, _, sys_flag, born_ms, born_host, store_ms,
         store_host, times, mark, body_size) = _HEADER.unpack_from(data)  # fmt: skip
        if magic != MAGIC or sys_flag & _UNUSUAL:
            return None
        body = data[HEADER_SIZE : HEADER_SIZE + body_size]
        return Plain(
            queue_id,
            queue_offset,
            born_ms,
            born_host,
            store_ms,
            store_host,
            times,
            is_delayed(mark),
            body,
        )

    @property
    def properties(self) -> dict[str, str]:
        if self._properties is None:
            self._properties = decode_properties(properties_of(self.data))
        return self._properties

    @property
    def retry_count(self) -> int:
        """How often it was tried before, with either protocol."""
        return min(self.record.reconsume_times + self.attempt - 1, ATTEMPT_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a call of `take` took; `dead` had their last attempt before."""

    messages: list[Held]
    dead: list[Held]

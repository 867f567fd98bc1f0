"""Control records: what a log says about itself, between its messages.

A control record has the layout of a message, topic DUELINE_SYS_CONTROL and the transaction type
"rollback", which RocketMQ's tools read past and never index. Its body, little-endian:

    | kind (1) | start (8) | count (8) | n (8) | n numbers (8 each) |

    kind      in           meaning
    E end     both logs    the `count` records from position `start` on are one group, and complete
    C cancel  delay log    the messages with these acceptance numbers are cancelled
    X expire  delay log    the messages with these acceptance numbers have expired

An end of a delivery lists the origins that the user's transform dropped; an end in the delay log
lists the acceptance numbers that its group replaces (a reschedule).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dueline.errors import CorruptRecord
from dueline.message import CONTROL_TOPIC, HOST_UNKNOWN, SYS_ROLLBACK
from dueline.store import layout
from dueline.store.kernels import Int64s
from dueline.store.layout import RECORD_SIZE_MIN
from dueline.store.record import (
    MAGIC,
    MARK_CHECK_SHIFT,
    MARK_PRESENT,
    Record,
    body_crc,
    fold,
    seal,
)
from dueline.store.states import CANCELLED, EXPIRED, MOVED

__all__ = [
    "CANCEL",
    "DELAY_LOG_STATES",
    "END",
    "EXPIRE",
    "NO_NUMBERS",
    "Control",
    "decode",
    "encode",
    "encoded_size",
    "group_end",
    "is_control",
]

END: Final = b"E"
CANCEL: Final = b"C"
EXPIRE: Final = b"X"
DELAY_LOG_STATES: Final = {END: MOVED, CANCEL: CANCELLED, EXPIRE: EXPIRED}
"""The state of the numbers that a control record of the delay log lists, by its kind."""

_HEAD: Final = struct.Struct("<cqqq")
_TOPIC: Final = CONTROL_TOPIC.encode()


NO_NUMBERS: Final[Int64s] = np.empty(0, dtype=np.int64)
NO_NUMBERS.flags.writeable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A decoded control record."""

    kind: bytes
    start: int = 0
    count: int = 0
    numbers: Int64s = field(default_factory=lambda: NO_NUMBERS)


def encode(control: Control, *, position: int, store_ms: int) -> bytes:
    """The whole record."""
    head = _HEAD.pack(control.kind, control.start, control.count, len(control.numbers))
    body = head + control.numbers.astype("<i8").tobytes()
    return seal(
        Record(
            queue_id=0,
            flag=0,
            queue_offset=0,
            position=position,
            sys_flag=SYS_ROLLBACK,
            born_ms=store_ms,
            born_host=HOST_UNKNOWN,
            store_ms=store_ms,
            store_host=HOST_UNKNOWN,
            reconsume_times=0,
            mark=MARK_PRESENT,
            body=body,
            topic=_TOPIC,
            properties=b"",
        )
    )


def group_end(places: Sequence[int] | Int64s, store_ms: int, numbers: Int64s) -> bytes:
    """The end of a group of records, for the last of these places."""
    start, position, count = int(places[0]), int(places[-1]), len(places) - 1
    if not len(numbers):
        return _plain_end(start, count, position, store_ms)
    end = Control(kind=END, start=start, count=count, numbers=numbers)
    return encode(end, position=position, store_ms=store_ms)


def _plain_end(start: int, count: int, position: int, store_ms: int) -> bytes:
    """The same as `encode`, which takes ten times as long, and every group has one."""
    body = _HEAD.pack(END, start, count, 0)
    crc = body_crc(body)
    mark = MARK_PRESENT | (_PLAIN_CHECK ^ fold(crc)) << MARK_CHECK_SHIFT
    head = layout.header(len(HOST_UNKNOWN), len(HOST_UNKNOWN)).pack(
        *(len(_PLAIN), MAGIC, crc, 0, 0, 0, position, SYS_ROLLBACK),
        *(store_ms, HOST_UNKNOWN, store_ms, HOST_UNKNOWN, 0, mark, len(body)),
    )
    return b"".join((head, body, _PLAIN_TAIL))


_PLAIN: Final = encode(Control(kind=END), position=0, store_ms=0)
_PLAIN_BODY: Final = slice(layout.HEADER_SIZE, layout.HEADER_SIZE + _HEAD.size)
_PLAIN_TAIL: Final = _PLAIN[_PLAIN_BODY.stop :]
_PLAIN_CHECK: Final = fold(body_crc(_PLAIN[_PLAIN_BODY])) ^ (
    int.from_bytes(_PLAIN[layout.MARK_AT : layout.BODY_SIZE_AT], "big") >> MARK_CHECK_SHIFT & 0xFFFF
)
"""The check of an end without what its body adds. It is an XOR; equal times take each other out."""


def encoded_size(number_count: int) -> int:
    """How many bytes a control record with so many numbers has."""
    return RECORD_SIZE_MIN + len(_TOPIC) + _HEAD.size + 8 * number_count


def is_control(record: Record) -> bool:
    return record.topic == _TOPIC


def decode(record: Record) -> Control:
    """Read a control record's body.

    Raises:
        CorruptRecord: a body that is not one of ours.
    """
    body = record.body
    if len(body) >= _HEAD.size:
        kind, start, count, number_count = _HEAD.unpack_from(body)
        if kind in DELAY_LOG_STATES and len(body) == _HEAD.size + 8 * number_count:
            numbers = np.frombuffer(body, dtype="<i8", offset=_HEAD.size).astype(np.int64)
            return Control(kind=kind, start=start, count=count, numbers=numbers)
    raise CorruptRecord(
        f"control record at {record.position}: expected a kind and its numbers, "
        f"found {body[:32]!r}",
        position=record.position,
        path="",
    )

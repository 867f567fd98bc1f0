"""Packed records to those that they stand for, compiled; the plain twin is `record.unpacked`.

`measure` says how many bytes each row will have, and looks whether it is sound; `expand` writes
them. Whatever is not a sound packed record, of its row's size, is left as it is.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import digit_count, put_big, put_bytes, put_number, u32
from dueline.compiled import BYTES, kernel
from dueline.message import LEVEL_MAX
from dueline.store import record
from dueline.store.crc_kernels import crc
from dueline.store.layout import MARK_AT
from dueline.store.packed import (
    CHECKED_AT,
    FLAGS,
    HEAD_SIZE,
    IS_MEMBER,
    IS_RARE,
    IS_TIMER,
    MAGIC,
    NUMBER_MAX,
    RARE_SIZE,
    SAYS_DUE,
    SIZE_MIN,
    TEXT_SIZE_MAX,
    V6,
)
from dueline.store.property_bytes import (
    DELIVER,
    DUE,
    LEVEL,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER,
    UNIQUE,
)
from dueline.store.record import MARK_CHECK_SHIFT, MARK_DELAYED, MARK_GROUP, MARK_PRESENT
from dueline.store.record_kernels import HEADER_SIZE, fold_header, folded_crc

__all__ = ["expand", "measure"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_SEPARATOR: Final = 2
_PLACES: Final = "Array(int64, 1, 'C', True)"
_RECORD_MAGIC: Final = record.MAGIC
_MARK: Final = MARK_PRESENT | MARK_DELAYED


@kernel(f"int64({BYTES}, int64)")
def _u8(data: Bytes8, at: int) -> Any:
    return np.int64(data[at])


@kernel(f"int64({BYTES}, int64)")
def _u16(data: Bytes8, at: int) -> Any:
    return np.int64(data[at]) << 8 | np.int64(data[at + 1])


@kernel(f"int64({BYTES}, int64)")
def _u48(data: Bytes8, at: int) -> Any:
    return _u16(data, at) << 32 | u32(data, at + 2)


@kernel(f"int64({BYTES}, int64)")
def _text_size(head: Bytes8, text: int) -> Any:
    """How long the properties are, if `text` bytes of them are kept; -1: longer than can be."""
    flags, topic, id_size = _u8(head, 12), _u8(head, 13), _u8(head, 15)
    size = text
    if id_size:
        if _u8(head, 14) > size:
            return -1
        size += (1 if size else 0) + len(UNIQUE) + 2 * id_size
    digits = digit_count(_u48(head, 52))
    if flags & SAYS_DUE:
        if _u8(head, 16) > size:
            return -1
        size += (1 if size else 0) + len(DELIVER) + digits
    if flags & IS_TIMER:
        size += len(DUE) + digits
    size += len(REAL_TOPIC) + topic + len(REAL_QUEUE) + digit_count(_u16(head, 20))
    return size if size <= TEXT_SIZE_MAX else -1


@kernel(f"int64({BYTES}, int64, int64)")
def _said_size(data: Bytes8, start: int, end: int) -> Any:
    """How long the record is that a packed one stands for, as its fields say; 0: it is none."""
    if end - start < SIZE_MIN:
        return 0
    head = data[start : start + HEAD_SIZE]
    if u32(head, 4) != MAGIC or u32(head, 0) != end - start:
        return 0
    flags, topic = _u8(head, 12), _u8(head, 13)
    body = u32(head, 16) & 0xFFFFFF
    kept = HEAD_SIZE + (RARE_SIZE if flags & IS_RARE else 0) + body + _u8(head, 15)
    text = end - start - topic - kept
    if flags & ~FLAGS or topic == 0 or text < 0:
        return 0
    if flags & IS_RARE and u32(data, start + HEAD_SIZE + 4) & V6:
        return 0
    if _u48(head, 22) > NUMBER_MAX:
        return 0
    if not flags & IS_TIMER and _u48(head, 52) >= LEVEL_MAX:
        return 0
    size = _text_size(head, text)
    if size < 0:
        return 0
    own = len(TIMER) if flags & IS_TIMER else len(LEVEL)
    return HEADER_SIZE + body + 1 + own + 2 + size


@kernel(f"boolean({BYTES}, int64, int64, int64)")
def _is_sound(data: Bytes8, start: int, end: int, position: int) -> bool:
    """Is the CRC of a packed record the one that it says?"""
    check = np.int64(crc(data, start + CHECKED_AT, end))
    check ^= (end - start) ^ (position & 0xFFFFFFFF) ^ position >> 32
    return bool(check == u32(data, start + 8))


@kernel(f"int64({BYTES}, {_PLACES}, {_PLACES}, {_PLACES}, int64[::1])")
def measure(data: Bytes8, starts: Int64s, ends: Int64s, positions: Int64s, sizes: Int64s) -> int:
    """How many bytes each row will have, as a negative number where it is a packed record.

    Args:
        starts, ends: of the rows in `data`; one that is not within it is empty.
        positions: where each row stands in its log.

    Returns:
        How many bytes all of them will have together.
    """
    total = 0
    for row in range(len(positions)):
        start, end = starts[row], ends[row]
        sizes[row] = 0
        if start < 0 or end > len(data) or end < start:
            continue
        sizes[row] = end - start
        size = _said_size(data, start, end)
        if size > 0 and _is_sound(data, start, end, positions[row]):
            sizes[row] = -size
        total += abs(sizes[row])
    return total


@kernel("void(uint8[::1], int64, int64, int64)")
def _make_room(out: Bytes8, at: int, end: int, size: int) -> None:
    """Move out[at:end] by `size` bytes."""
    part = out[at : end + size]
    for behind in range(end - at):
        place = end - at - 1 - behind
        part[place + size] = part[place]


@kernel("int64(uint8[::1], int64, int64, int64, int64)")
def _open(out: Bytes8, start: int, end: int, place: int, size: int) -> Any:
    """Make room in the text out[start:end] for a property; returns where it begins."""
    if place:
        _make_room(out, start + place, end, size + 1)
        out[start + place] = _SEPARATOR
        return start + place + 1
    if end > start:
        _make_room(out, start, end, size + 1)
        out[start + size] = _SEPARATOR
    return start


@kernel("int64(int64)")
def _digit(value: int) -> int:
    """The hexadecimal digit of a number below 16."""
    return 0x30 + value + (7 if value > 9 else 0)


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64, int64, int64)")
def _put_properties(
    out: Bytes8, at: int, data: Bytes8, start: int, id_at: int, text_at: int, topic_at: int
) -> Any:
    """All properties of the record data[start:]; returns their end."""
    flags, id_size = _u8(data, start + 12), text_at - id_at
    end = put_bytes(out, at, data, text_at, topic_at)
    if id_size:
        had = 1 if end > at else 0
        place = _open(out, at, end, _u8(data, start + 14), len(UNIQUE) + 2 * id_size)
        place = put_bytes(out, place, UNIQUE, 0, len(UNIQUE))
        digits = out[place : place + 2 * id_size]
        for number in range(id_size):
            value = data[id_at + number]
            digits[2 * number] = _digit(value >> 4)
            digits[2 * number + 1] = _digit(value & 15)
        end += had + len(UNIQUE) + 2 * id_size
    when = _u48(data, start + 52)
    digits_at = -1
    if flags & SAYS_DUE:
        had = 1 if end > at else 0
        size = len(DELIVER) + digit_count(when)
        place = _open(out, at, end, _u8(data, start + 16), size)
        digits_at = put_bytes(out, place, DELIVER, 0, len(DELIVER))
        put_number(out, digits_at, when)
        end += had + size
    if flags & IS_TIMER:
        end = put_bytes(out, end, DUE, 0, len(DUE))
        if digits_at < 0:
            end = put_number(out, end, when)
        else:
            end = put_bytes(out, end, out, digits_at, digits_at + digit_count(when))
    end = put_bytes(out, end, REAL_TOPIC, 0, len(REAL_TOPIC))
    end = put_bytes(out, end, data, topic_at, topic_at + _u8(data, start + 13))
    end = put_bytes(out, end, REAL_QUEUE, 0, len(REAL_QUEUE))
    return put_number(out, end, _u16(data, start + 20))


@kernel(f"int64({BYTES}, int64, int64)")
def _body_crc(data: Bytes8, start: int, end: int) -> Any:
    return np.int64(crc(data, start, end)) & 0x7FFFFFFF


@kernel(f"int64(uint8[::1], int64, int64, {BYTES}, int64, int64, int64)")
def _put_record(
    out: Bytes8, at: int, size: int, data: Bytes8, start: int, end: int, position: int
) -> Any:
    """Write the record that a sound packed one stands for; returns its end."""
    record_at = at
    head = data[start : start + HEAD_SIZE]
    flags = _u8(head, 12)
    body = u32(head, 16) & 0xFFFFFF
    body_at = start + HEAD_SIZE + (RARE_SIZE if flags & IS_RARE else 0)
    id_at = body_at + body
    text_at = id_at + _u8(head, 15)
    topic_at = end - _u8(head, 13)
    when = _u48(head, 52)
    mark = _MARK | _u48(head, 22) | (MARK_GROUP if flags & IS_MEMBER else 0)
    flag = u32(data, start + HEAD_SIZE) if flags & IS_RARE else 0
    sys_flag = u32(data, start + HEAD_SIZE + 4) if flags & IS_RARE else 0
    times = u32(data, start + HEAD_SIZE + 8) if flags & IS_RARE else 0
    queue_id = 0 if flags & IS_TIMER else when
    target = out[at : at + HEADER_SIZE]
    put_big(target, 0, size << 32 | _RECORD_MAGIC, 8)
    put_big(target, 8, _body_crc(data, body_at, id_at) << 32 | queue_id, 8)
    put_big(target, 16, flag, 4)
    put_big(target, 20, _u48(head, 58), 8)
    put_big(target, 28, position, 8)
    put_big(target, 36, sys_flag, 4)
    put_big(target, 40, _u48(head, 34), 8)
    put_big(target, 48, u32(head, 40) << 32 | _u16(head, 44), 8)
    put_big(target, 56, _u48(head, 28), 8)
    put_big(target, 64, u32(head, 46) << 32 | _u16(head, 50), 8)
    put_big(target, 72, times, 4)
    put_big(target, 76, mark, 8)
    put_big(target, 84, body, 4)
    at = put_bytes(out, at + HEADER_SIZE, data, body_at, id_at)
    tail_at = at
    if flags & IS_TIMER:
        out[at] = len(TIMER)
        at = put_bytes(out, at + 1, TIMER, 0, len(TIMER))
    else:
        out[at] = len(LEVEL)
        at = put_bytes(out, at + 1, LEVEL, 0, len(LEVEL))
    text = at + 2
    at = _put_properties(out, text, data, start, id_at, text_at, topic_at)
    put_big(out, text - 2, at - text, 2)
    check = fold_header(out, record_at) ^ folded_crc(crc(out, tail_at, at))
    put_big(out, record_at + MARK_AT, mark | check << MARK_CHECK_SHIFT, 8)
    return at


@kernel(f"int64({BYTES}, {_PLACES}, {_PLACES}, {_PLACES}, int64[::1], uint8[::1])")
def expand(
    data: Bytes8, starts: Int64s, ends: Int64s, positions: Int64s, sizes: Int64s, out: Bytes8
) -> int:
    """Write all rows, one after the other, as `measure` has measured them.

    Fields are looked at once more: a file may have changed meanwhile.

    Returns:
        Where they end; -1: they have other sizes.
    """
    at = 0
    for row in range(len(positions)):
        size, end = abs(sizes[row]), at
        if at + size > len(out):
            return -1
        if sizes[row] < 0:
            if _said_size(data, starts[row], ends[row]) != size:
                return -1
            end = _put_record(out, at, size, data, starts[row], ends[row], positions[row])
        elif size:
            end = put_bytes(out, at, data, starts[row], starts[row] + size)
        if end != at + size:
            return -1
        at = end
    return at

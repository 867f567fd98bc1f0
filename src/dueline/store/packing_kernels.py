"""Delayed messages to packed records, compiled; the plain twin is `dueline.store.packed`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import begins, digit_count, index_of, put_big, put_bytes
from dueline.compiled import BYTES, kernel
from dueline.store.crc_kernels import crc
from dueline.store.packed import (
    CHECKED_AT,
    HEAD_SIZE,
    ID_SIZE_MAX,
    IS_MEMBER,
    IS_RARE,
    IS_TIMER,
    MAGIC,
    PLACE_DUE,
    PLACE_DUE_AT,
    PLACE_DUE_END,
    PLACE_ID,
    PLACE_ID_AT,
    PLACE_ID_END,
    PLACE_KEPT,
    PLACE_MAX,
    PLACE_WIDTH,
    RARE_SIZE,
    SAYS_DUE,
)
from dueline.store.property_bytes import DELIVER, UNIQUE

__all__ = ["find_places", "put_packed"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_SEPARATOR: Final = 2
_ZERO: Final = 0x30


@kernel(f"boolean({BYTES}, int64, int64, int64)")
def _is_number(texts: Bytes8, start: int, end: int, value: int) -> bool:
    """Is texts[start:end] this number, as it is written?"""
    if end - start != digit_count(value):
        return False
    digits = texts[start:end]
    for place in range(len(digits)):
        if digits[len(digits) - 1 - place] != _ZERO + value % 10:
            return False
        value //= 10
    return True


@kernel(f"boolean({BYTES}, int64, int64)")
def _is_hex(texts: Bytes8, start: int, end: int) -> bool:
    """Is it an even number of capital hexadecimal digits, neither none nor too many?"""
    size = end - start
    if size < 2 or size % 2 or size > 2 * ID_SIZE_MAX:
        return False
    digits = texts[start:end]
    for place in range(len(digits)):
        digit = digits[place]
        if not (0x30 <= digit <= 0x39 or 0x41 <= digit <= 0x46):
            return False
    return True


@kernel(f"int64({BYTES}, int64, int64, int64, int64[::1])")
def find_places(texts: Bytes8, start: int, end: int, due_ms: int, places: Int64s) -> Any:
    """What of texts[start:end] is not kept as text, as `packing_of` has it.

    Args:
        due_ms: of a timer's message; -1 for one of a level.
        places: gets where the unique id's digits are and its place, and the same of the due time's
            property; 0 for the end of what is not there.

    Returns:
        How many bytes of text and id are kept; -1: it is not of the usual form.
    """
    for place in range(PLACE_WIDTH):
        places[place] = 0
    places[PLACE_KEPT] = -1
    if start == end:
        return -1
    at = start
    shift = 0  # how many bytes before the id go with the due time
    has_id = False  # or one that is too far away
    while at <= end:
        stop = index_of(texts, at, end, _SEPARATOR)
        if stop == at:
            return -1
        place = max(at - 1 - start, 0)
        if (
            due_ms >= 0
            and places[PLACE_DUE_END] == 0
            and place <= PLACE_MAX
            and begins(texts, at, stop, DELIVER)
            and _is_number(texts, at + len(DELIVER), stop, due_ms)
        ):
            places[PLACE_DUE], places[PLACE_DUE_END], places[PLACE_DUE_AT] = at, stop, place
            shift = stop - at + 1
        elif (
            not has_id
            and begins(texts, at, stop, UNIQUE)
            and _is_hex(texts, at + len(UNIQUE), stop)
        ):
            has_id = True
            place = max(at - 1 - start - shift, 0)
            if place <= PLACE_MAX:
                places[PLACE_ID], places[PLACE_ID_END] = at + len(UNIQUE), stop
                places[PLACE_ID_AT] = place
        at = stop + 1
    kept = end - start
    id_size = (places[PLACE_ID_END] - places[PLACE_ID]) // 2
    if places[PLACE_DUE_END]:
        kept -= places[PLACE_DUE_END] - places[PLACE_DUE] + 1
    if places[PLACE_ID_END]:
        kept -= len(UNIQUE) + 2 * id_size + 1
    places[PLACE_KEPT] = max(kept, 0) + id_size
    return places[PLACE_KEPT]


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64, boolean)")
def _put_piece(out: Bytes8, at: int, texts: Bytes8, start: int, end: int, has_before: bool) -> int:
    """Write a part of a text, behind a separator if something stands before it."""
    if end <= start:
        return at
    if has_before:
        out[at] = _SEPARATOR
        at += 1
    return put_bytes(out, at, texts, start, end)


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64, int64[::1])")
def _put_text(out: Bytes8, at: int, texts: Bytes8, start: int, end: int, places: Int64s) -> int:
    """Write the text without what is not kept of it."""
    first, first_end = places[PLACE_DUE], places[PLACE_DUE_END]
    last, last_end = places[PLACE_ID] - len(UNIQUE), places[PLACE_ID_END]
    if not last_end or (first_end and last < first):
        first, first_end, last, last_end = last, last_end, first, first_end
    begin = at
    piece = start
    if first_end:
        at = _put_piece(out, at, texts, piece, first - 1, at > begin)
        piece = first_end + 1
    if last_end:
        at = _put_piece(out, at, texts, piece, last - 1, at > begin)
        piece = last_end + 1
    return _put_piece(out, at, texts, piece, end, at > begin)


@kernel("int64(uint8)")
def _nibble(digit: int) -> Any:
    """The value of a hexadecimal digit."""
    return np.int64(digit) - _ZERO if digit <= 0x39 else np.int64(digit) - 0x41 + 10


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64)")
def _put_id(out: Bytes8, at: int, texts: Bytes8, start: int, end: int) -> int:
    digits = texts[start:end]
    target = out[at : at + len(digits) // 2]
    for place in range(len(target)):
        target[place] = _nibble(digits[2 * place]) << 4 | _nibble(digits[2 * place + 1])
    return at + len(target)


@kernel(
    f"int64(uint8[::1], int64, int64, int64, {BYTES}, int64, int64, {BYTES}, int64, int64,"
    f"int64[::1], {BYTES}, int64, int64, {BYTES}, {BYTES}, boolean, boolean,"
    "int64, int64, int64, int64, int64, int64, int64, int64, int64)"
)
def put_packed(
    out: Bytes8,
    at: int,
    size: int,
    position: int,
    data: Bytes8,
    body_start: int,
    body_end: int,
    texts: Bytes8,
    text_start: int,
    text_end: int,
    places: Int64s,
    topics: Bytes8,
    topic_start: int,
    topic_end: int,
    born_host: Bytes8,
    store_host: Bytes8,
    is_timer: bool,
    is_member: bool,
    queue_id: int,
    number: int,
    store_ms: int,
    born_ms: int,
    when: int,
    queue_offset: int,
    flag: int,
    sys_flag: int,
    times: int,
) -> int:
    """Write a packed record of `size` bytes; returns where it ends, or -1 if it has another size.

    Args:
        places: as `find_places` left them.
    """
    start = at
    is_rare = (flag | sys_flag | times) != 0
    flags = (IS_TIMER if is_timer else 0) | (IS_MEMBER if is_member else 0)
    flags |= (SAYS_DUE if places[PLACE_DUE_END] else 0) | (IS_RARE if is_rare else 0)
    id_size = (places[PLACE_ID_END] - places[PLACE_ID]) // 2
    if start + size > len(out) or size < HEAD_SIZE + (RARE_SIZE if is_rare else 0):
        return -1
    at = put_big(out, at, size, 4)
    at = put_big(out, at, MAGIC, 4) + 4
    out[at] = flags
    out[at + 1] = topic_end - topic_start
    out[at + 2] = places[PLACE_ID_AT]
    out[at + 3] = id_size
    out[at + 4] = places[PLACE_DUE_AT]
    at = put_big(out, at + 5, body_end - body_start, 3)
    at = put_big(out, at, queue_id, 2)
    at = put_big(out, at, number, 6)
    at = put_big(out, at, store_ms, 6)
    at = put_big(out, at, born_ms, 6)
    at = put_bytes(out, at, born_host, 0, 4)
    at = put_bytes(out, at, born_host, 6, 8)
    at = put_bytes(out, at, store_host, 0, 4)
    at = put_bytes(out, at, store_host, 6, 8)
    at = put_big(out, at, when, 6)
    at = put_big(out, at, queue_offset, 6)
    if is_rare:
        at = put_big(out, at, flag, 4)
        at = put_big(out, at, sys_flag, 4)
        at = put_big(out, at, times, 4)
    at = put_bytes(out, at, data, body_start, body_end)
    at = _put_id(out, at, texts, places[PLACE_ID], places[PLACE_ID_END])
    at = _put_text(out, at, texts, text_start, text_end, places)
    at = put_bytes(out, at, topics, topic_start, topic_end)
    if at != start + size:
        return -1
    check: Any = np.int64(crc(out, start + CHECKED_AT, at))
    check ^= size ^ (position & 0xFFFFFFFF) ^ position >> 32
    put_big(out, start + CHECKED_AT - 4, check, 4)
    return at

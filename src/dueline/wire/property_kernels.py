"""Properties of messages, read by compiled code; the plain twin is `decode_properties`.

`unescape` gives the text of a JSON string, `read_properties` brings it into the form that records
have and notes in the message's row what a property means. Names that need a rule beyond that, names
that come twice and texts that are not whole are not understood: the result is below 0.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import TOPS, eight, first_marked, index_of, marked_same, row_of
from dueline.compiled import BYTES, kernel
from dueline.message_rows import (
    ROW_ID_END,
    ROW_ID_START,
    ROW_KEYS_END,
    ROW_KEYS_START,
    ROW_LEVEL,
    ROW_TAG,
    ROW_TIMER,
    ROW_TIMER_MS,
    TIMER_AFTER,
    TIMER_AT,
)
from dueline.wire.header_kernels import digits, plain_end
from dueline.wire.turn import (
    ACTION_AT,
    ACTION_DROP,
    ACTION_ID,
    ACTION_KEYS,
    ACTION_LEVEL,
    ACTION_ODD,
    ACTION_SECONDS,
    ACTION_TAGS,
    ENTRY_COUNT_MAX,
    LIMIT_DELAY_MS,
    LIMIT_LEVEL,
    LIMIT_NOW_MS,
)

__all__ = ["clear_row", "read_properties", "unescape"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_ZERO: Final = 0x30


@kernel(f"int64({BYTES}, int64)")
def _hex4(data: Bytes8, at: int) -> int:
    value = 0
    for offset in range(4):
        byte = np.int64(data[at + offset])
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= byte <= 0x46:
            digit = byte - 0x37
        elif 0x61 <= byte <= 0x66:
            digit = byte - 0x57
        else:
            return -1
        value = value << 4 | digit
    return value


@kernel("int64(int64)")
def _escaped(byte: int) -> int:
    """What a backslash and this byte stand for; -1: nothing that is understood."""
    if byte == _QUOTE or byte == _BACKSLASH or byte == 0x2F:
        return byte
    if byte == 0x62:
        return 8
    if byte == 0x66:
        return 12
    if byte == 0x6E:
        return 10
    if byte == 0x72:
        return 13
    if byte == 0x74:
        return 9
    return -1


@kernel(f"int64({BYTES}, int64, int64)")
def _sequence_size(data: Bytes8, at: int, end: int) -> int:
    """How many bytes the UTF-8 character at `at` has, which is not ASCII; -1: it is none."""
    first = np.int64(data[at])
    if 0xC2 <= first <= 0xDF:
        size = 2
    elif 0xE0 <= first <= 0xEF:
        size = 3
    elif 0xF0 <= first <= 0xF4:
        size = 4
    else:
        return -1
    if at + size > end:
        return -1
    for offset in range(1, size):
        if data[at + offset] & 0xC0 != 0x80:
            return -1
    second = np.int64(data[at + 1])
    if first == 0xE0 and second < 0xA0:
        return -1
    if first == 0xED and second > 0x9F:
        return -1
    if first == 0xF0 and second < 0x90:
        return -1
    if first == 0xF4 and second > 0x8F:
        return -1
    return size


@kernel(f"int64({BYTES}, int64, int64, uint8[::1], int64)")
def unescape(data: Bytes8, at: int, end: int, texts: Bytes8, out: int) -> int:
    """A JSON string's text into `texts`; returns its end there. It gets no longer.

    Up to seven bytes behind it are overwritten.
    """
    while at < end:
        if at + 8 <= end and out + 8 <= len(texts):
            word = eight(data[at : at + 8], 0)
            target = texts[out : out + 8]
            for place in range(8):
                target[place] = word >> np.uint64(8 * place) & np.uint64(0xFF)
            marks = word & TOPS | marked_same(word, _BACKSLASH)
            count = first_marked(marks) if marks else 8
            at += count
            out += count
            if not marks:
                continue
        byte = np.int64(data[at])
        if byte >= 0x80:
            size = _sequence_size(data, at, end)
            if size < 0:
                return -1
            for offset in range(size):
                texts[out + offset] = data[at + offset]
            at += size
            out += size
            continue
        if byte != _BACKSLASH:
            texts[out] = byte
            at += 1
            out += 1
            continue
        if at + 1 >= end:
            return -1
        if data[at + 1] != 0x75:
            value = _escaped(np.int64(data[at + 1]))
            at += 2
        else:
            value = _hex4(data, at + 2) if at + 6 <= end else -1
            at += 6
        if value < 0 or 0xD800 <= value <= 0xDFFF:
            return -1
        if value < 0x80:
            texts[out] = value
            out += 1
        elif value < 0x800:
            texts[out] = 0xC0 | value >> 6
            texts[out + 1] = 0x80 | value & 0x3F
            out += 2
        else:
            texts[out] = 0xE0 | value >> 12
            texts[out + 1] = 0x80 | value >> 6 & 0x3F
            texts[out + 2] = 0x80 | value & 0x3F
            out += 3
    return out


@kernel("int64(uint8[::1], int64, int64)")
def _tag_code(texts: Bytes8, start: int, end: int) -> int:
    """Java's hash of ASCII text; beyond 32 bits: it is not ASCII."""
    value = np.int64(0)
    for at in range(start, end):
        if texts[at] >= 0x80:
            return 1 << 40
        value = (31 * value + np.int64(texts[at])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@kernel("int64(uint8[::1], int64, int64)")
def _is_plain_id(texts: Bytes8, start: int, end: int) -> int:
    """Can it stand in an answer as it is?"""
    is_plain = plain_end(texts, start, end) == end and index_of(texts, start, end, 0x7F) == end
    return 1 if is_plain else 0


@kernel("int64(uint8[::1], int64, int64, int64, int64[::1], int64[::1])")
def _note(texts: Bytes8, action: int, start: int, end: int, row: Int64s, limits: Int64s) -> int:
    """Put into the row what a property means; -1: that is for others to say."""
    if action == ACTION_ID:
        row[ROW_ID_START] = start
        row[ROW_ID_END] = end
        return 0 if _is_plain_id(texts, start, end) else -1
    if action == ACTION_KEYS:
        row[ROW_KEYS_START] = start
        row[ROW_KEYS_END] = end
        return 0
    if action == ACTION_TAGS:
        row[ROW_TAG] = _tag_code(texts, start, end)
        return 0 if row[ROW_TAG] < 1 << 40 else -1
    value = digits(texts, start, end)
    if value < 0 or row[ROW_LEVEL] or row[ROW_TIMER]:
        return -1
    if action == ACTION_LEVEL:
        if value < 1 or value > limits[LIMIT_LEVEL] or texts[start] == _ZERO:
            return -1
        row[ROW_LEVEL] = value
        return 0
    if end - start > 13:
        return -1
    row[ROW_TIMER] = TIMER_AT if action == ACTION_AT else TIMER_AFTER
    row[ROW_TIMER_MS] = 1000 * value if action == ACTION_SECONDS else value
    delay_ms = row[ROW_TIMER_MS]
    if action == ACTION_AT:
        delay_ms -= limits[LIMIT_NOW_MS]
    return 0 if delay_ms <= limits[LIMIT_DELAY_MS] else -1


@kernel(f"int64({BYTES}, int64, int64)", is_inlined=True)
def _mark(texts: Bytes8, at: int, end: int) -> int:
    """Where the next 1 or 2 is, behind a name or a value; the end: nowhere."""
    part = texts[at:end]
    place = 0
    while place + 8 <= len(part):
        word = eight(part, place)
        marks = marked_same(word, 1) | marked_same(word, 2)
        if marks:
            return at + place + first_marked(marks)
        place += 8
    while place < len(part) and part[place] != 1 and part[place] != 2:
        place += 1
    return at + place


@kernel(
    f"int64(uint8[::1], int64, int64, {BYTES}, int64[:, ::1], int64[:, ::1], int64[::1],int64[::1])"
)
def read_properties(
    texts: Bytes8,
    start: int,
    end: int,
    names: Bytes8,
    actions: Any,
    entries: Any,
    row: Int64s,
    limits: Int64s,
) -> int:
    """Bring texts[start:end] into the form that records have, in place; returns its end."""
    at = start
    out = start
    count = 0
    while at < end:
        separator = -1
        stop = _mark(texts, at, end)
        while stop < end and texts[stop] == 1:
            if separator > at:
                return -1
            if separator < 0:
                separator = stop
            stop = _mark(texts, stop + 1, end)
        if separator > at and stop > separator + 1:
            known = row_of(texts, at, separator, names, actions, len(actions))
            action = actions[known, 2] if known >= 0 else 0
            if action == ACTION_ODD or count == ENTRY_COUNT_MAX:
                return -1
            if action != ACTION_DROP:
                if row_of(texts, at, separator, texts, entries, count) >= 0:
                    return -1
                if count:
                    texts[out] = 2
                    out += 1
                shift = out - at
                if shift:
                    for place in range(at, stop):
                        texts[place + shift] = texts[place]
                entries[count, 0] = out
                entries[count, 1] = separator + shift
                count += 1
                out += stop - at
                if (
                    action
                    and _note(texts, action, separator + 1 + shift, stop + shift, row, limits) < 0
                ):
                    return -1
        at = stop + 1
    return out


@kernel("void(int64[::1])")
def clear_row(row: Int64s) -> None:
    for place in range(len(row)):
        row[place] = 0
    row[ROW_ID_START] = -1

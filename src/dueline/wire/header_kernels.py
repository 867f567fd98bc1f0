"""JSON headers of sends, read by compiled code; the plain twin is `dueline.wire.json_header`.

Understood is what producers write: no blanks, no name twice, no escapes but in the properties, and
ext fields with one letter from a to n, or those of a signature. Every function is told where it may
look, [at, end), and looks nowhere else. A result below 0: not understood.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import (
    ONES,
    TOPS,
    eight,
    first_marked,
    is_same,
    marked_below,
    marked_same,
)
from dueline.compiled import BYTES, kernel
from dueline.wire.turn import FIELD_COUNT

__all__ = ["digits", "plain_end", "read_header"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

# A header while it is read: start and end of each of the fields a to n, then these.
HEADER_CODE: Final = 2 * FIELD_COUNT
HEADER_FLAG: Final = HEADER_CODE + 1
HEADER_OPAQUE: Final = HEADER_CODE + 2
HEADER_VERSION: Final = HEADER_CODE + 3
HEADER_COUNT: Final = HEADER_CODE + 4
HEADER_USER: Final = HEADER_CODE + 5
"""Start and end of the fields that sign: the user, a token, the signature."""
HEADER_TOKEN: Final = HEADER_USER + 2
HEADER_SIGNATURE: Final = HEADER_USER + 4
HEADER_WIDTH: Final = HEADER_USER + 6

FIELD_TOPIC: Final = 1
FIELD_BORN: Final = 6
FIELD_PROPERTIES: Final = 8
FIELD_BATCH: Final = 12

_NAMES: Final = np.frombuffer(
    b"codeflagopaqueversionlanguageserializeTypeCurrentRPCextFieldsAccessKeySecurityTokenSignature",
    dtype=np.uint8,
)
_NAME_STARTS: Final = np.array([0, 4, 8, 14, 21, 29, 52, 61, 70, 83, 92])
_NAME_WORDS: Final = np.array(
    [
        int.from_bytes(_NAMES[start : min(end, start + 8)].tobytes(), "little")
        for start, end in pairwise(_NAME_STARTS.tolist())
    ],
    dtype=np.uint64,
)
"""The first eight bytes of each, or all and zeros."""
_LANGUAGE: Final = 4
_SERIALIZATION: Final = 5
_EXT: Final = 6
_USER: Final = 7
"""The first of the names that ext fields have, beside letters."""

_LETTER_WORD: Final = np.uint64(0x223A220022)
"""`"` and `":"` with a letter between them, the first byte least significant."""

_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_COLON: Final = 0x3A
_COMMA: Final = 0x2C
_OPEN: Final = 0x7B
_CLOSE: Final = 0x7D
_MINUS: Final = 0x2D
_ZERO: Final = 0x30


@kernel(f"int64({BYTES}, int64, int64)", is_inlined=True)
def plain_end(data: Bytes8, at: int, end: int) -> int:
    """Where the first byte is that is not ASCII, or cannot stand for itself; the end: nowhere."""
    part = data[at:end]
    place = 0
    while place + 8 <= len(part):
        word = eight(part, place)
        marks = word & TOPS | marked_below(word, 0x20)
        marks |= marked_same(word, _QUOTE) | marked_same(word, _BACKSLASH)
        if marks:
            return at + place + first_marked(marks)
        place += 8
    while place < len(part):
        byte = part[place]
        if byte == _QUOTE or byte == _BACKSLASH or byte < 0x20 or byte >= 0x80:
            break
        place += 1
    return at + place


@kernel(f"int64({BYTES}, int64, int64)", is_inlined=True)
def _string_end(data: Bytes8, at: int, end: int) -> int:
    """Where the string ends whose first character is at `at`; -1: it has an escape, a character
    that is not ASCII, or no end."""
    stop = plain_end(data, at, end)
    return stop if stop < end and data[stop] == _QUOTE else -1


@kernel(f"int64({BYTES}, int64, int64)", is_inlined=True)
def _text_end(data: Bytes8, at: int, end: int) -> int:
    """The same for a string that may have escapes and any character."""
    part = data[at:end]
    place = 0
    while place < len(part):
        if place + 8 <= len(part):
            word = eight(part, place)
            marks = marked_below(word, 0x20)
            marks |= marked_same(word, _QUOTE) | marked_same(word, _BACKSLASH)
            if not marks:
                place += 8
                continue
            place += first_marked(marks)
        byte = part[place]
        if byte == _QUOTE:
            return at + place
        if byte < 0x20:
            return -1
        place += 2 if byte == _BACKSLASH else 1
    return -1


@kernel("int64(uint64)", is_inlined=True)
def _eight_digits(word: np.uint64) -> int:
    """The number that eight digits are; -1: they are none."""
    tens = np.uint64(0xF0) * ONES
    zeros = np.uint64(_ZERO) * ONES
    if word & tens != zeros or (word + np.uint64(6) * ONES) & tens != zeros:
        return -1
    # Pairs, then fours, then all: neighbours are multiplied and added in one step.
    word = (word - zeros) * np.uint64(1 + (10 << 8)) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(1 + (100 << 16)) >> np.uint64(16)
    word = (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(1 + (10_000 << 32))
    return np.int64(word >> np.uint64(32))


@kernel(f"int64({BYTES}, int64, int64)")
def digits(data: Bytes8, at: int, end: int) -> int:
    """The number that data[at:end] is, of 1 to 18 digits; -1: it is none."""
    if at >= end or end - at > 18:
        return -1
    part = data[at:end]
    value = 0
    place = 0
    while place + 8 <= len(part):
        eighth = _eight_digits(eight(part, place))
        if eighth < 0:
            return -1
        value = value * 100_000_000 + eighth
        place += 8
    while place < len(part):
        digit = np.int64(part[place]) - _ZERO
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        place += 1
    return value


@kernel(f"int64({BYTES}, int64, int64)")
def _number_end(data: Bytes8, at: int, end: int) -> int:
    """Where the digits end that begin at `at`."""
    while at < end and _ZERO <= data[at] <= _ZERO + 9:
        at += 1
    return at


@kernel(f"int64({BYTES}, int64, int64)")
def _name_of(data: Bytes8, start: int, end: int) -> int:
    """Which of a header's names this is; -1: another."""
    size = end - start
    word = np.uint64(0)
    if start + 8 <= len(data):
        word = eight(data[start : start + 8], 0)
        if size < 8:
            word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    else:
        for place in range(size):
            word |= np.uint64(data[start + place]) << np.uint64(8 * place)
    for name in range(len(_NAME_STARTS) - 1):
        first = _NAME_STARTS[name]
        if word == _NAME_WORDS[name] and _NAME_STARTS[name + 1] - first == size:
            return name if size <= 8 or is_same(data, start, _NAMES, first, size) else -1
    return -1


@kernel(f"int64({BYTES}, int64, int64)")
def _place_of(data: Bytes8, start: int, end: int) -> int:
    """Where in a header the field of this name is kept; -1: nowhere."""
    if end - start == 1:
        letter = np.int64(data[start]) - 0x61
        return 2 * letter if 0 <= letter < FIELD_COUNT else -1
    name = _name_of(data, start, end)
    return HEADER_USER + 2 * (name - _USER) if name >= _USER else -1


@kernel(f"int64({BYTES}, int64, int64, int64[::1])")
def _read_ext(data: Bytes8, at: int, end: int, header: Int64s) -> int:
    """The fields behind `{`; returns where the bytes behind their `}` begin."""
    if at < end and data[at] == _CLOSE:
        return at + 1
    while at + 5 < end:
        place = -1
        start = at + 5
        if at + 8 <= len(data):
            # A quote, a letter, and `":"`, as most are.
            word = eight(data[at : at + 8], 0)
            if word & np.uint64(0xFFFFFF00FF) == _LETTER_WORD:
                letter = np.int64(word >> np.uint64(8) & np.uint64(0xFF)) - 0x61
                place = 2 * letter if 0 <= letter < FIELD_COUNT else -1
        if place < 0:
            name_end = _string_end(data, at + 1, end)
            if data[at] != _QUOTE or name_end < 0 or name_end + 3 >= end:
                return -1
            if data[name_end + 1] != _COLON or data[name_end + 2] != _QUOTE:
                return -1
            place = _place_of(data, at + 1, name_end)
            start = name_end + 3
        if place < 0 or header[place] >= 0:
            return -1
        if place == 2 * FIELD_PROPERTIES:
            stop = _text_end(data, start, end)
        else:
            stop = _string_end(data, start, end)
        if stop < 0 or stop + 1 >= end:
            return -1
        header[place] = start
        header[place + 1] = stop
        header[HEADER_COUNT] += 1
        if data[stop + 1] == _CLOSE:
            return stop + 2
        if data[stop + 1] != _COMMA:
            return -1
        at = stop + 2
    return -1


@kernel(f"int64({BYTES}, int64, int64, int64[::1], int64)")
def _read_number(data: Bytes8, at: int, end: int, header: Int64s, place: int) -> int:
    """A whole number of 32 bits into header[place]; returns where it ends."""
    is_negative = at < end and data[at] == _MINUS
    start = at + 1 if is_negative else at
    stop = _number_end(data, start, end)
    value = digits(data, start, stop)
    if value < 0 or stop - start > 10:
        return -1
    if data[start] == _ZERO and (stop - start > 1 or is_negative):
        return -1
    if is_negative:
        value = -value
    if value < -(1 << 31) or value >= 1 << 31:
        return -1
    header[place] = value
    return stop


@kernel(f"int64({BYTES}, int64, int64, int64[::1])")
def read_header(data: Bytes8, at: int, end: int, header: Int64s) -> int:
    """Read a JSON header; 0: understood."""
    for place in range(HEADER_WIDTH):
        header[place] = -1
    header[HEADER_FLAG] = header[HEADER_VERSION] = header[HEADER_COUNT] = 0
    seen = 0
    if at >= end or data[at] != _OPEN:
        return -1
    at += 1
    while at < end:
        if data[at] != _QUOTE:
            return -1
        stop = _string_end(data, at + 1, end)
        if stop < 0 or stop + 2 >= end or data[stop + 1] != _COLON:
            return -1
        name = _name_of(data, at + 1, stop)
        if name < 0 or name >= _USER or seen >> name & 1:
            return -1
        seen |= 1 << name
        at = stop + 2
        if name == _EXT:
            if data[at] != _OPEN:
                return -1
            at = _read_ext(data, at + 1, end, header)
        elif name == _LANGUAGE or name == _SERIALIZATION:
            if data[at] != _QUOTE:
                return -1
            at = _string_end(data, at + 1, end)
            if at >= 0:
                at += 1
        else:
            at = _read_number(data, at, end, header, HEADER_CODE + name)
        if at < 0 or at >= end:
            return -1
        if data[at] == _CLOSE:
            # A code and an opaque must be there, and nothing behind the brace.
            return 0 if at + 1 == end and seen & 1 and seen >> 2 & 1 else -1
        if data[at] != _COMMA:
            return -1
        at += 1
    return -1

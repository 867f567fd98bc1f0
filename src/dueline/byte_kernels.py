"""Integers and slices in bytes, for kernels.

Integers have the most significant byte first, as in logs and on the wire. As everywhere in kernels,
the caller has looked whether the bytes are there.

Everything here begins with a slice. Within it places count from 0, and only where the compiler
knows that no place is below 0 does it move several bytes at once: eight times as quickly.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.compiled import BYTES, kernel

__all__ = [
    "begins",
    "digit_count",
    "eight",
    "first_marked",
    "four",
    "index_of",
    "is_same",
    "marked_below",
    "marked_same",
    "put_big",
    "put_bytes",
    "put_number",
    "put_short",
    "row_of",
    "u32",
    "u64",
]

Bytes8 = npt.NDArray[np.uint8]

_ZERO: Final = 0x30
ONES: Final = np.uint64(0x0101010101010101)
TOPS: Final = np.uint64(0x8080808080808080)
"""A word of eight bytes is compared at once: `marked_same` and its like set the top bit of bytes
that are looked for. What they say of the first such byte is right, of those behind it perhaps not.
"""


@kernel(f"int64({BYTES}, int64)")
def u32(data: Bytes8, at: int) -> Any:
    word = data[at : at + 4]
    return (
        np.int64(word[0]) << 24
        | np.int64(word[1]) << 16
        | np.int64(word[2]) << 8
        | np.int64(word[3])
    )


@kernel(f"int64({BYTES}, int64)")
def u64(data: Bytes8, at: int) -> Any:
    """Beyond 63 bits it is negative."""
    return u32(data, at) << 32 | u32(data, at + 4)


@kernel("int64(uint8[::1], int64, int64, int64)")
def put_big(out: Bytes8, at: int, value: int, size: int) -> int:
    """Write the lowest `size` bytes of a number; returns where they end."""
    target = out[at : at + size]
    for place in range(size):
        target[place] = value >> 8 * (size - 1 - place) & 0xFF
    return at + size


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64)")
def put_bytes(out: Bytes8, at: int, data: Bytes8, start: int, end: int) -> int:
    """Copy data[start:end] to where `at` is; returns where the copy ends."""
    source = data[start:end]
    target = out[at : at + end - start]
    for place in range(min(len(source), len(target))):
        target[place] = source[place]
    return at + end - start


@kernel("int64(int64)")
def digit_count(value: int) -> int:
    """Of a number from 0 on."""
    count, limit = 1, 10
    while value >= limit and count < 19:
        limit *= 10
        count += 1
    return count


@kernel("int64(uint8[::1], int64, int64)")
def put_number(out: Bytes8, at: int, value: int) -> int:
    """Write the digits of a number from 0 on; returns where they end."""
    size = digit_count(value)
    target = out[at : at + size]
    rest = np.uint64(value)  # without a sign a division by 10 takes half of the time
    for behind in range(size):
        tenth = rest // np.uint64(10)
        target[size - 1 - behind] = np.uint64(_ZERO) + (rest - tenth * np.uint64(10))
        rest = tenth
    return at + size


@kernel(f"boolean({BYTES}, int64, int64, {BYTES})")
def begins(data: Bytes8, start: int, end: int, prefix: Bytes8) -> bool:
    """Does data[start:end] begin with these bytes?"""
    if end - start < len(prefix):
        return False
    part = data[start : start + len(prefix)]
    is_same = True
    for place in range(len(part)):
        is_same &= part[place] == prefix[place]
    return is_same


@kernel(f"uint64({BYTES}, int64)")
def four(part: Bytes8, at: int) -> np.uint64:
    """Four bytes, the least significant one first."""
    return (
        np.uint64(part[at])
        | np.uint64(part[at + 1]) << np.uint64(8)
        | np.uint64(part[at + 2]) << np.uint64(16)
        | np.uint64(part[at + 3]) << np.uint64(24)
    )


@kernel(f"uint64({BYTES}, int64)")
def eight(part: Bytes8, at: int) -> np.uint64:
    """Eight bytes, the least significant one first."""
    return four(part, at) | four(part, at + 4) << np.uint64(32)


@kernel("uint64(uint64, int64)", is_inlined=True)
def marked_same(word: np.uint64, byte: int) -> np.uint64:
    """Marks the bytes of a word that are this one."""
    zeroed = word ^ np.uint64(byte) * ONES
    return (zeroed - ONES) & ~zeroed & TOPS


@kernel("uint64(uint64, int64)", is_inlined=True)
def marked_below(word: np.uint64, limit: int) -> np.uint64:
    """Marks the bytes of a word that are less than this one, which is at most 128."""
    return (word - np.uint64(limit) * ONES) & ~word & TOPS


@kernel("int64(uint64)", is_inlined=True)
def first_marked(marks: np.uint64) -> Any:
    """Which of a word's bytes is the first that is marked; one is."""
    below = (marks & (~marks + np.uint64(1))) - np.uint64(1)
    return np.int64((below & ONES) * ONES >> np.uint64(56)) - 1


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64)", is_inlined=True)
def put_short(out: Bytes8, at: int, data: Bytes8, start: int, end: int) -> int:
    """As `put_bytes`, and quicker for some bytes; up to eight bytes behind them are overwritten."""
    size = end - start
    if size < 0 or end + 8 > len(data) or at + size + 8 > len(out):
        return put_bytes(out, at, data, start, end)
    source = data[start : end + 8]
    target = out[at : at + size + 8]
    word = eight(source, 0)
    for place in range(8):
        target[place] = word >> np.uint64(8 * place) & np.uint64(0xFF)
    for first in range(8, size, 8):
        word = eight(source, first)
        for place in range(8):
            target[first + place] = word >> np.uint64(8 * place) & np.uint64(0xFF)
    return at + size


@kernel(f"boolean({BYTES}, int64, {BYTES}, int64, int64)")
def is_same(data: Bytes8, start: int, other: Bytes8, other_start: int, size: int) -> bool:
    """Are so many bytes of both the same?"""
    part = data[start : start + size]
    same = other[other_start : other_start + size]
    if len(part) != len(same):
        return False
    at = 0
    while at + 8 <= len(part):
        if eight(part, at) != eight(same, at):
            return False
        at += 8
    while at < len(part):
        if part[at] != same[at]:
            return False
        at += 1
    return True


@kernel(f"int64({BYTES}, int64, int64, int64)")
def index_of(data: Bytes8, start: int, end: int, byte: int) -> int:
    """Where a byte first is in data[start:end]; the end if it is not there.

    Eight bytes at a time: those that are the wanted one become 0, and a subtraction tells whether
    there is a 0 among them.
    """
    part = data[start:end]
    at = 0
    while at + 8 <= len(part):
        marks = marked_same(eight(part, at), byte)
        if marks:
            at += first_marked(marks)
            break
        at += 8
    while at < len(part) and part[at] != byte:
        at += 1
    return start + at


@kernel(f"int64({BYTES}, int64, int64, {BYTES}, int64[:, ::1], int64)")
def row_of(data: Bytes8, start: int, end: int, texts: Bytes8, rows: Any, count: int) -> int:
    """Which of the first rows says where in `texts` the bytes of data[start:end] stand, which are
    one or more; -1: none. A row begins with a start and an end."""
    for row in range(count):
        first = rows[row, 0]
        if rows[row, 1] - first != end - start or texts[first] != data[start]:
            continue
        if is_same(texts, first, data, start, end - start):
            return row
    return -1

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

__all__ = ["digit_count", "put_big", "put_bytes", "put_number", "u32", "u64"]

Bytes8 = npt.NDArray[np.uint8]

_ZERO: Final = 0x30


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
    count = 1
    while value >= 10:
        value //= 10
        count += 1
    return count


@kernel("int64(uint8[::1], int64, int64)")
def put_number(out: Bytes8, at: int, value: int) -> int:
    end = at + digit_count(value)
    place = end
    while place > at:
        place -= 1
        out[place] = _ZERO + value % 10
        value //= 10
    return end

"""Integers in bytes, the most significant byte first, as logs and the wire have them: for kernels.

As everywhere in kernels, the caller has looked whether the bytes are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dueline.compiled import BYTES, kernel

__all__ = ["put_big", "put_bytes", "u32", "u64"]

Bytes8 = npt.NDArray[np.uint8]


@kernel(f"int64({BYTES}, int64)")
def u32(data: Bytes8, at: int) -> Any:
    place = np.uint64(at)
    return (
        np.int64(data[place]) << 24
        | np.int64(data[place + np.uint64(1)]) << 16
        | np.int64(data[place + np.uint64(2)]) << 8
        | np.int64(data[place + np.uint64(3)])
    )


@kernel(f"int64({BYTES}, int64)")
def u64(data: Bytes8, at: int) -> Any:
    """Beyond 63 bits it is negative."""
    return u32(data, at) << 32 | u32(data, at + 4)


@kernel("int64(uint8[::1], int64, int64, int64)")
def put_big(out: Bytes8, at: int, value: int, size: int) -> int:
    """Write the lowest `size` bytes of a number; returns where they end."""
    to = np.uint64(at)
    for place in range(size):
        out[to + np.uint64(place)] = value >> 8 * (size - 1 - place) & 0xFF
    return at + size


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64)")
def put_bytes(out: Bytes8, at: int, data: Bytes8, start: int, end: int) -> int:
    """Copy data[start:end]; returns where it ends. The arrays must not overlap."""
    # With unsigned places, which do not count from the end of an array, many bytes go at a time.
    to, first = np.uint64(at), np.uint64(start)
    for place in range(np.uint64(max(end - start, 0))):
        out[to + place] = data[first + place]
    return at + end - start

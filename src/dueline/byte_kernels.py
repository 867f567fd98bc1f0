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
    return (
        np.int64(data[at]) << 24
        | np.int64(data[at + 1]) << 16
        | np.int64(data[at + 2]) << 8
        | np.int64(data[at + 3])
    )


@kernel(f"int64({BYTES}, int64)")
def u64(data: Bytes8, at: int) -> Any:
    """Beyond 63 bits it is negative."""
    return u32(data, at) << 32 | u32(data, at + 4)


@kernel("int64(uint8[::1], int64, int64, int64)")
def put_big(out: Bytes8, at: int, value: int, size: int) -> int:
    """Write the lowest `size` bytes of a number; returns where they end."""
    for place in range(size):
        out[at + place] = value >> 8 * (size - 1 - place) & 0xFF
    return at + size


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64)")
def put_bytes(out: Bytes8, at: int, data: Bytes8, start: int, end: int) -> int:
    """Write data[start:end], which is not part of `out`; returns where it ends.

    Slices would be copied one by one, since they may overlap, and so would places with a sign,
    which may count from the end: this is six times as fast.
    """
    to, source = np.uint64(at), np.uint64(start)
    for place in range(np.uint64(max(end - start, 0))):
        out[to + np.uint64(place)] = data[source + np.uint64(place)]
    return at + end - start

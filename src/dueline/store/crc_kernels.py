"""CRC-32 of slices of an array, compiled: `zlib.crc32` without a call for each."""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dueline.compiled import BYTES, kernel

__all__ = ["crc", "crcs"]

_WORD: Final = 8


def _tables() -> npt.NDArray[np.uint32]:
    """Row k: what a byte does to the CRC when k bytes follow it."""
    tables = np.zeros((_WORD, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        tables[0, byte] = value
    for row in range(1, _WORD):
        before = tables[row - 1]
        tables[row] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_T: Final = _tables()
assert int(_T[0][ord("a") ^ 0xFF]) ^ 0x00FFFFFF ^ 0xFFFFFFFF == crc32(b"a")


@kernel(f"uint32({BYTES}, int64, int64)")
def crc(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint32:
    """The CRC-32 of data[start:end]; 0 for a slice that is not within `data`."""
    if start < 0 or end > len(data) or start >= end:
        return np.uint32(0)
    value = np.uint32(0xFFFFFFFF)
    at = start
    while end - at >= 8:
        low = value ^ (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        value = (
            _T[7, low & np.uint32(0xFF)]
            ^ _T[6, low >> np.uint32(8) & np.uint32(0xFF)]
            ^ _T[5, low >> np.uint32(16) & np.uint32(0xFF)]
            ^ _T[4, low >> np.uint32(24)]
            ^ _T[3, data[at + 4]]
            ^ _T[2, data[at + 5]]
            ^ _T[1, data[at + 6]]
            ^ _T[0, data[at + 7]]
        )
        at += 8
    while at < end:
        value = value >> np.uint32(8) ^ _T[0, (value ^ np.uint32(data[at])) & np.uint32(0xFF)]
        at += 1
    return value ^ np.uint32(0xFFFFFFFF)


@kernel(f"void({BYTES}, int64[::1], int64[::1], uint32[::1])")
def crcs(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    found: npt.NDArray[np.uint32],
) -> None:
    """`crc` of each row, into `found`; the three arrays have the same length."""
    for row in range(min(len(starts), len(ends), len(found))):
        found[row] = crc(data, starts[row], ends[row])

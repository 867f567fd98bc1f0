"""CRC-32 of slices of an array, compiled: `zlib.crc32` without a call for each.

Sixteen bytes are taken at a time, each looked up in the table for as many bytes as follow it. The
look-ups of a step do not wait for each other, only those of its first four bytes for the step
before: so these come last.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dueline.compiled import BYTES, kernel

__all__ = ["crc", "crcs"]

_STEP: Final = 16


def _tables() -> npt.NDArray[np.uint32]:
    """Row k: what a byte does to the CRC when k bytes follow it."""
    tables = np.zeros((_STEP, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        tables[0, byte] = value
    for row in range(1, _STEP):
        before = tables[row - 1]
        tables[row] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_T: Final = _tables()
assert int(_T[0][ord("a") ^ 0xFF]) ^ 0x00FFFFFF ^ 0xFFFFFFFF == crc32(b"a")


@kernel(f"uint32({BYTES}, int64)")
def _word(data: npt.NDArray[np.uint8], at: int) -> np.uint32:
    """Four bytes, the least significant one first."""
    return (
        np.uint32(data[at])
        | np.uint32(data[at + 1]) << np.uint32(8)
        | np.uint32(data[at + 2]) << np.uint32(16)
        | np.uint32(data[at + 3]) << np.uint32(24)
    )


@kernel("uint32(uint32, int64)")
def _looked_up(word: np.uint32, behind: int) -> np.uint32:
    """What four bytes do to the CRC when so many bytes follow them."""
    found: np.uint32 = (
        _T[behind, word >> np.uint32(24)]
        ^ _T[behind + 1, word >> np.uint32(16) & np.uint32(0xFF)]
        ^ _T[behind + 2, word >> np.uint32(8) & np.uint32(0xFF)]
        ^ _T[behind + 3, word & np.uint32(0xFF)]
    )
    return found


@kernel(f"uint32({BYTES}, int64, int64)")
def crc(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint32:
    """The CRC-32 of data[start:end]; 0 for a slice that is not within `data`."""
    if start < 0 or end > len(data) or start >= end:
        return np.uint32(0)
    value = np.uint32(0xFFFFFFFF)
    at = start
    while end - at >= 16:
        value = (
            _looked_up(_word(data, at + 12), 0)
            ^ _looked_up(_word(data, at + 8), 4)
            ^ _looked_up(_word(data, at + 4), 8)
            ^ _looked_up(value ^ _word(data, at), 12)
        )
        at += 16
    if end - at >= 8:
        value = _looked_up(_word(data, at + 4), 0) ^ _looked_up(value ^ _word(data, at), 4)
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

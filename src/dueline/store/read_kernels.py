"""The records of a stretch of a queue, compiled: looked at where they stand, then copied."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import put_bytes, u32, u64
from dueline.compiled import BYTES, kernel
from dueline.store.record_kernels import is_usual

__all__ = ["copy_usual", "gather"]

_UNIT_SIZE: Final = 20

Bytes8 = npt.NDArray[np.uint8]


@kernel(f"int64({BYTES}, {BYTES}, int64, {BYTES}, int64, boolean)")
def _room(
    segment: Bytes8,
    units: Bytes8,
    row_count: int,
    wanted: Bytes8,
    size_bytes_max: int,
    is_bound: bool,
) -> int:
    """The size of the wanted records, as their units say, as far as they may be read together."""
    room = 0
    for row in range(row_count):
        if len(wanted) == 0 or wanted[row] != 0:
            size = u32(units, row * _UNIT_SIZE + 8)
            if size > len(segment) or ((room > 0 or is_bound) and room + size > size_bytes_max):
                break
            room += size
    return room


@kernel(f"UniTuple(int64, 2)({BYTES}, int64, {BYTES}, int64, {BYTES}, int64, uint8[::1])")
def _copy(
    segment: Bytes8,
    base: int,
    units: Bytes8,
    row_count: int,
    wanted: Bytes8,
    offset: int,
    out: Bytes8,
) -> tuple[int, int]:
    """How many units were read, and how many bytes of `out` their records take."""
    used = 0
    for row in range(row_count):
        if len(wanted) > 0 and wanted[row] == 0:
            continue
        start = u64(units, row * _UNIT_SIZE) - base
        size = u32(units, row * _UNIT_SIZE + 8)
        if used + size > len(out) or start < 0 or start > len(segment) - size:
            return row, used
        if not is_usual(segment, start, start + size):
            return row, used
        if u64(segment, start + 28) != base + start or u64(segment, start + 20) != offset + row:
            return row, used
        used = put_bytes(out, used, segment, start, start + size)
    return row_count, used


@kernel(
    f"Tuple((int64, uint8[::1]))({BYTES}, int64, {BYTES}, {BYTES}, int64, int64, boolean)",
    makes_arrays=True,
)
def gather(
    segment: Bytes8,
    base: int,
    units: Bytes8,
    wanted: Bytes8,
    offset: int,
    size_bytes_max: int,
    is_bound: bool,
) -> tuple[int, Any]:
    """How many units were read, and the records of those that are wanted, one behind the other.

    It ends before the first record that is not of the usual kind, does not pass its checks, stands
    in another segment or does not say its place; and before one that would make more than
    `size_bytes_max`, unless it is the first.

    Args:
        base: the position of the segment.
        units: of the consume queue, as their file has them.
        wanted: of each unit; empty: all of them.
        offset: of the first unit.
        is_bound: by `size_bytes_max`, the first record too.
    """
    row_count = len(units) // _UNIT_SIZE
    if 0 < len(wanted) < row_count:
        row_count = len(wanted)
    room = _room(segment, units, row_count, wanted, size_bytes_max, is_bound)
    out = np.empty(room, dtype=np.uint8)
    read_count, used = _copy(segment, base, units, row_count, wanted, offset, out)
    return read_count, out[:used]


@kernel(f"int64({BYTES}, int64, {BYTES}, int64, int64, uint8[::1], int64)")
def copy_usual(
    segment: Bytes8,
    base: int,
    units: Bytes8,
    offset: int,
    size_bytes_max: int,
    out: Bytes8,
    at: int,
) -> int:
    """The records of all units to out[at:], if all are of the usual kind and pass their checks;
    how many, times 2^32, and their bytes. -1: one of them is not, or `out` has no room.

    It ends before a record that would make more than `size_bytes_max`, unless it is the first. The
    arguments are those of `gather`.
    """
    if at < 0 or at > len(out):
        return -1
    used = 0
    for row in range(len(units) // _UNIT_SIZE):
        start = u64(units, row * _UNIT_SIZE) - base
        size = u32(units, row * _UNIT_SIZE + 8)
        if used > 0 and used + size > size_bytes_max:
            return row << 32 | used
        if start < 0 or start > len(segment) - size or size > len(out) - at - used:
            return -1
        if not is_usual(segment, start, start + size):
            return -1
        if u64(segment, start + 28) != base + start or u64(segment, start + 20) != offset + row:
            return -1
        used = put_bytes(out, at + used, segment, start, start + size) - at
    return (len(units) // _UNIT_SIZE) << 32 | used

"""Putting place and time into records, compiled; the plain twin is `dueline.store.stamp`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import put_big, u32, u64
from dueline.compiled import BYTES, kernel
from dueline.message import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6
from dueline.store.layout import (
    HEADER_SIZE,
    HOST_SIZE,
    HOST_V6_EXTRA,
    MARK_AT,
    POSITION_AT,
    QUEUE_OFFSET_AT,
    STORE_MS_AT,
    SYS_FLAG_AT,
)
from dueline.store.record import MARK_CHECK_MASK, MARK_CHECK_SHIFT

__all__ = ["restamp"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


@kernel(f"boolean(uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], {BYTES})")
def restamp(
    data: Bytes8,
    starts: Int64s,
    positions: Int64s,
    store_ms: Int64s,
    queue_offsets: Int64s,
    marks: Any,
    store_host: Bytes8,
) -> bool:
    """Write what the log decided into sealed records, and keep their checks right.

    Returns False, with the rows before it done, at a row that is not within `data`.

    Args:
        queue_offsets: empty: they stay as they are.
        marks: flags and numbers, check bits zero; empty: they stay.
        store_host: 8 bytes, for records with room for it; any other size: it stays.
    """
    for row in range(len(starts)):
        start = starts[row]
        if start < 0 or start + HEADER_SIZE > len(data):
            return False
        sys_flag = u32(data, start + SYS_FLAG_AT)
        store_at = start + STORE_MS_AT
        if sys_flag & SYS_BORN_HOST_V6:
            store_at += HOST_V6_EXTRA
        mark_at = store_at + MARK_AT - STORE_MS_AT
        if sys_flag & SYS_STORE_HOST_V6:
            mark_at += HOST_V6_EXTRA
        if mark_at + 8 > len(data):
            return False
        old = u64(data, mark_at)
        mark = old & ~MARK_CHECK_MASK
        change = mark ^ u64(data, store_at) ^ store_ms[row]
        if len(marks):
            mark = marks[row]
        change ^= mark
        if len(store_host) == HOST_SIZE and not sys_flag & SYS_STORE_HOST_V6:
            change ^= u64(data, store_at + 8) ^ u64(store_host, 0)
            for place in range(HOST_SIZE):
                data[store_at + 8 + place] = store_host[place]
        change ^= change >> 32
        change ^= change >> 16
        check = old & MARK_CHECK_MASK ^ (change & 0xFFFF) << MARK_CHECK_SHIFT
        put_big(data, mark_at, mark | check, 8)
        put_big(data, store_at, store_ms[row], 8)
        put_big(data, start + POSITION_AT, positions[row], 8)
        if len(queue_offsets):
            put_big(data, start + QUEUE_OFFSET_AT, queue_offsets[row], 8)
    return True

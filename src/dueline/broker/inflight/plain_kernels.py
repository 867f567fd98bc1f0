"""Held records as rows, compiled; the plain twin is `holding.Held.plain`.

A record was checked by the store. Where its sizes do not fit together it counts as unusual all the
same, so nobody reads what is not there.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.broker.inflight.plain_rows import (
    PLAIN_BODY_END,
    PLAIN_BODY_START,
    PLAIN_BORN_HOST,
    PLAIN_BORN_MS,
    PLAIN_IS_DELAYED,
    PLAIN_OFFSET,
    PLAIN_QUEUE_ID,
    PLAIN_STORE_HOST,
    PLAIN_STORE_MS,
    PLAIN_TEXT_END,
    PLAIN_TEXT_START,
    PLAIN_TIMES,
)
from dueline.byte_kernels import u32, u64
from dueline.compiled import BYTES, kernel
from dueline.message import SYS_BORN_HOST_V6, SYS_COMPRESSED, SYS_STORE_HOST_V6
from dueline.store.layout import (
    BODY_SIZE_AT,
    BORN_HOST_AT,
    BORN_MS_AT,
    HEADER_SIZE,
    MARK_AT,
    QUEUE_OFFSET_AT,
    RECONSUME_TIMES_AT,
    STORE_HOST_AT,
    STORE_MS_AT,
    SYS_FLAG_AT,
)
from dueline.store.record import MAGIC, MARK_DELAYED, MARK_PRESENT

__all__ = ["read_plain"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_MAGIC_AT: Final = 4
_QUEUE_ID_AT: Final = 12
_UNUSUAL: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6 | SYS_COMPRESSED
_DELAYED: Final = MARK_PRESENT | MARK_DELAYED


@kernel(f"boolean({BYTES}, int64, int64, int64[::1])")
def _find_places(data: Bytes8, start: int, end: int, row: Int64s) -> bool:
    """Where body and properties of data[start:end] stand; False: it is no usual record."""
    if start < 0 or end > len(data) or end - start < HEADER_SIZE + 3:
        return False
    is_usual = u32(data, start + _MAGIC_AT) == MAGIC
    if not is_usual or u32(data, start + SYS_FLAG_AT) & _UNUSUAL:
        return False
    body_start = start + HEADER_SIZE
    body_end = body_start + u32(data, start + BODY_SIZE_AT)
    if body_end + 3 > end:
        return False
    at = body_end + 1 + np.int64(data[body_end])
    if at + 2 > end or at + 2 + (np.int64(data[at]) << 8 | np.int64(data[at + 1])) != end:
        return False
    row[PLAIN_BODY_START] = body_start
    row[PLAIN_BODY_END] = body_end
    row[PLAIN_TEXT_START] = at + 2
    row[PLAIN_TEXT_END] = end
    return True


@kernel("int64(int64)", is_inlined=True)
def _signed(number: int) -> int:
    """Of 32 bits."""
    return number - (1 << 32) if number >= 1 << 31 else number


@kernel(f"void({BYTES}, int64[::1], int64[:, ::1])")
def read_plain(data: Bytes8, ends: Int64s, rows: Any) -> None:
    """A row for each record; ends[i] is where record i ends."""
    end = 0
    for number in range(len(ends)):
        start, end = end, ends[number]
        row = rows[number]
        row[PLAIN_BODY_START] = -1
        if not _find_places(data, start, end, row):
            continue
        row[PLAIN_QUEUE_ID] = _signed(u32(data, start + _QUEUE_ID_AT))
        row[PLAIN_OFFSET] = u64(data, start + QUEUE_OFFSET_AT)
        row[PLAIN_BORN_MS] = u64(data, start + BORN_MS_AT)
        row[PLAIN_BORN_HOST] = start + BORN_HOST_AT
        row[PLAIN_STORE_MS] = u64(data, start + STORE_MS_AT)
        row[PLAIN_STORE_HOST] = start + STORE_HOST_AT
        row[PLAIN_TIMES] = _signed(u32(data, start + RECONSUME_TIMES_AT))
        row[PLAIN_IS_DELAYED] = u64(data, start + MARK_AT) & _DELAYED == _DELAYED

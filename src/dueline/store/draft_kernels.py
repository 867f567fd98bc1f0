"""One message's record in the log that it goes to, compiled; the plain twin is
`dueline.store.draft`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import digit_count, put_big, put_bytes, put_number
from dueline.compiled import BYTES, kernel
from dueline.message_rows import (
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_BORN_MS,
    ROW_TEXT_END,
    ROW_TEXT_START,
)
from dueline.store.block import (
    HEAD_QUEUE_ID,
    HEAD_TOPIC_END,
    HEAD_TOPIC_START,
    KIND_LEVEL,
    KIND_ORDINARY,
    KIND_TIMER,
)
from dueline.store.crc_kernels import crc
from dueline.store.packed import PLACE_KEPT
from dueline.store.packing_kernels import put_packed
from dueline.store.property_bytes import DUE, LEVEL, REAL_QUEUE, REAL_TOPIC, TIMER
from dueline.store.record import (
    MAGIC,
    MARK_CHECK_SHIFT,
    MARK_GROUP,
    MARK_NUMBER_MASK,
    MARK_PRESENT,
)

__all__ = ["put_record", "tail_size"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


@kernel("int64(int64, int64, int64, int64, int64)")
def tail_size(kind: int, topic_size: int, text_size: int, queue_id: int, due_ms: int) -> int:
    """Of topic and properties with their sizes."""
    size = 3 + text_size + topic_size
    if kind != KIND_ORDINARY:
        size += len(REAL_TOPIC) + len(REAL_QUEUE) + digit_count(queue_id)
        size += len(LEVEL) if kind == KIND_LEVEL else len(TIMER)
        size += len(DUE) + digit_count(due_ms) if kind == KIND_TIMER else 0
    return size


@kernel(f"uint64({BYTES}, int64, int64)")
def _words(data: Bytes8, start: int, end: int) -> np.uint64:
    """XOR of the big-endian 32-bit words."""
    value = np.uint64(0)
    for at in range(start, end - 3, 4):
        value ^= (
            np.uint64(data[at]) << np.uint64(24)
            | np.uint64(data[at + 1]) << np.uint64(16)
            | np.uint64(data[at + 2]) << np.uint64(8)
            | np.uint64(data[at + 3])
        )
    return value


@kernel(f"int64({BYTES}, int64[::1], int64[::1], {BYTES}, int64, int64, uint8[::1], int64)")
def _put_tail(
    texts: Bytes8,
    row: Int64s,
    head: Int64s,
    topics: Bytes8,
    kind: int,
    due_ms: int,
    out: Bytes8,
    at: int,
) -> int:
    """Topic and properties with their sizes; returns their end."""
    topic_start, topic_end = head[HEAD_TOPIC_START], head[HEAD_TOPIC_END]
    if kind == KIND_ORDINARY:
        out[at] = topic_end - topic_start
        at = put_bytes(out, at + 1, topics, topic_start, topic_end)
    elif kind == KIND_LEVEL:
        out[at] = len(LEVEL)
        at = put_bytes(out, at + 1, LEVEL, 0, len(LEVEL))
    else:
        out[at] = len(TIMER)
        at = put_bytes(out, at + 1, TIMER, 0, len(TIMER))
    size_at = at
    at = put_bytes(out, at + 2, texts, row[ROW_TEXT_START], row[ROW_TEXT_END])
    if kind == KIND_TIMER:
        at = put_bytes(out, at, DUE, 0, len(DUE))
        at = put_number(out, at, due_ms)
    if kind != KIND_ORDINARY:
        at = put_bytes(out, at, REAL_TOPIC, 0, len(REAL_TOPIC))
        at = put_bytes(out, at, topics, topic_start, topic_end)
        at = put_bytes(out, at, REAL_QUEUE, 0, len(REAL_QUEUE))
        at = put_number(out, at, head[HEAD_QUEUE_ID])
    put_big(out, size_at, at - size_at - 2, 2)
    return at


@kernel(
    f"int64(uint8[::1], int64, int64, int64, int64, {BYTES}, {BYTES}, int64[::1],"
    f"int64[::1], {BYTES}, {BYTES}, int64, {BYTES}, int64, int64, int64, int64, int64, int64,"
    "int64, int64)"
)
def _put_whole(
    out: Bytes8,
    at: int,
    size: int,
    position: int,
    offset: int,
    data: Bytes8,
    texts: Bytes8,
    row: Int64s,
    head: Int64s,
    topics: Bytes8,
    host: Bytes8,
    born_size: int,
    store_host: Bytes8,
    kind: int,
    due_ms: int,
    queue_id: int,
    flag: int,
    sys_flag: int,
    times: int,
    store_ms: int,
    mark: int,
) -> int:
    """Write a record with all of its fields; returns its end, or -1 if it has another size."""
    start = at
    body_start, body_end = row[ROW_BODY_START], row[ROW_BODY_END]
    body_crc: Any = np.int64(crc(data, body_start, body_end)) & 0x7FFFFFFF
    at = put_big(out, at, size, 4)
    at = put_big(out, at, MAGIC, 4)
    at = put_big(out, at, body_crc, 4)
    at = put_big(out, at, queue_id, 4)
    at = put_big(out, at, flag, 4)
    at = put_big(out, at, offset, 8)
    at = put_big(out, at, position, 8)
    at = put_big(out, at, sys_flag, 4)
    at = put_big(out, at, row[ROW_BORN_MS], 8)
    at = put_bytes(out, at, host, 0, born_size)
    at = put_big(out, at, store_ms, 8)
    at = put_bytes(out, at, store_host, 0, len(store_host))
    at = put_big(out, at, times, 4)
    mark_at = at
    at = put_big(out, at + 8, body_end - body_start, 4)
    at = put_bytes(out, at, data, body_start, body_end)
    tail_at = at
    at = _put_tail(texts, row, head, topics, kind, due_ms, out, at)
    if at != start + size:
        return -1

    own = np.uint64(mark) | np.uint64(MARK_PRESENT)
    words = (
        np.uint64(MAGIC)
        ^ np.uint64(store_ms)
        ^ _words(store_host, 0, len(store_host))
        ^ np.uint64(size)
        ^ np.uint64(body_crc)
        ^ np.uint64(queue_id)
        ^ np.uint64(flag & 0xFFFFFFFF)
        ^ np.uint64(sys_flag)
        ^ np.uint64(row[ROW_BORN_MS])
        ^ _words(host, 0, born_size)
        ^ np.uint64(times)
        ^ own
        ^ np.uint64(body_end - body_start)
    )
    words ^= words >> np.uint64(32)
    words ^= words >> np.uint64(16)
    tail = np.uint64(crc(out, tail_at, at))
    tail ^= tail >> np.uint64(5) ^ tail >> np.uint64(8)
    own |= ((words ^ tail) & np.uint64(0xFFFF)) << np.uint64(MARK_CHECK_SHIFT)
    sealed: Any = np.int64(own)
    put_big(out, mark_at, sealed, 8)
    return at


@kernel(
    f"int64(int64[::1], uint8[::1], int64, int64, int64, int64, {BYTES}, {BYTES}, int64[::1],"
    f"int64[::1], {BYTES}, {BYTES}, int64, {BYTES}, int64, int64, int64, int64, int64, int64,"
    "int64, int64)"
)
def put_record(
    packing: Int64s,
    out: Bytes8,
    at: int,
    size: int,
    position: int,
    offset: int,
    data: Bytes8,
    texts: Bytes8,
    row: Int64s,
    head: Int64s,
    topics: Bytes8,
    host: Bytes8,
    born_size: int,
    store_host: Bytes8,
    kind: int,
    due_ms: int,
    queue_id: int,
    flag: int,
    sys_flag: int,
    times: int,
    store_ms: int,
    mark: int,
) -> int:
    """Write a record, packed or as it is; returns its end, or -1 if it has another size."""
    if packing[PLACE_KEPT] >= 0:
        return put_packed(
            out,
            at,
            size,
            position,
            data,
            row[ROW_BODY_START],
            row[ROW_BODY_END],
            texts,
            row[ROW_TEXT_START],
            row[ROW_TEXT_END],
            packing,
            topics,
            head[HEAD_TOPIC_START],
            head[HEAD_TOPIC_END],
            host,
            store_host,
            kind == KIND_TIMER,
            mark & MARK_GROUP != 0,
            head[HEAD_QUEUE_ID],
            mark & MARK_NUMBER_MASK,
            store_ms,
            row[ROW_BORN_MS],
            due_ms if kind == KIND_TIMER else queue_id,
            offset,
            flag,
            sys_flag,
            times,
        )
    return _put_whole(
        out,
        at,
        size,
        position,
        offset,
        data,
        texts,
        row,
        head,
        topics,
        host,
        born_size,
        store_host,
        kind,
        due_ms,
        queue_id,
        flag,
        sys_flag,
        times,
        store_ms,
        mark,
    )

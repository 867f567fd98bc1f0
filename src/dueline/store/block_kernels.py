"""Rows of messages to records, compiled; the plain twin is `dueline.store.draft`.

`plan` says of each row which log it goes to, when it is due and how many bytes its record has.
`write_records` writes records that have their places, `queue_offsets` counts within queues, and
`write_units` makes the entries of consume queues. Every function writes to arrays that the caller
made large enough, as `dueline.store.block` does, and looks at none beyond its end.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import put_big, put_bytes
from dueline.compiled import BYTES, kernel
from dueline.message import LEVEL_TOPIC, SYS_BORN_HOST_V6, SYS_STORE_HOST_V6, TIMER_TOPIC
from dueline.message_rows import (
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_BORN_MS,
    ROW_CHANNEL,
    ROW_FLAG,
    ROW_HEAD,
    ROW_ID_END,
    ROW_ID_START,
    ROW_KEYS_END,
    ROW_KEYS_START,
    ROW_LEVEL,
    ROW_TAG,
    ROW_TEXT_END,
    ROW_TEXT_START,
    ROW_TIMER,
    ROW_TIMER_MS,
    TIMER_AFTER,
    TIMER_AT,
)
from dueline.schedule import DUE_NAME, REAL_QUEUE_NAME, REAL_TOPIC_NAME
from dueline.store.block import (
    HEAD_FLAG,
    HEAD_IS_BATCH,
    HEAD_QUEUE_ID,
    HEAD_SYS_FLAG,
    HEAD_TIMES,
    HEAD_TOPIC_END,
    HEAD_TOPIC_START,
    KIND_LEVEL,
    KIND_ORDINARY,
    KIND_TIMER,
)
from dueline.store.consume_queue import UNIT_SIZE
from dueline.store.crc_kernels import crc
from dueline.store.layout import HEADER_SIZE, HOST_SIZE
from dueline.store.record import MAGIC, MARK_CHECK_SHIFT, MARK_PRESENT
from dueline.store.record_kernels import key_hash

__all__ = [
    "digit_count",
    "plan",
    "put_number",
    "queue_offsets",
    "write_records",
    "write_units",
]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_LEVEL_TOPIC: Final = np.frombuffer(LEVEL_TOPIC.encode(), dtype=np.uint8)
_TIMER_TOPIC: Final = np.frombuffer(TIMER_TOPIC.encode(), dtype=np.uint8)
_DUE: Final = np.frombuffer(f"\x02{DUE_NAME}\x01".encode(), dtype=np.uint8)
_REAL_TOPIC: Final = np.frombuffer(f"\x02{REAL_TOPIC_NAME}\x01".encode(), dtype=np.uint8)
_REAL_QUEUE: Final = np.frombuffer(f"\x02{REAL_QUEUE_NAME}\x01".encode(), dtype=np.uint8)
_ZERO: Final = 0x30


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


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64,"
    "int64[::1], int64[::1], int64[::1])"
)
def plan(
    rows: Any,
    heads: Any,
    host_sizes: Int64s,
    store_host_size: int,
    now_ms: int,
    kinds: Int64s,
    dues: Int64s,
    sizes: Int64s,
) -> int:
    """Which log, when due and how many bytes; returns the most key hashes that there can be.

    A message with a level has no due time yet: that is counted from its store time.
    """
    hash_count = 0
    for row in range(len(rows)):
        head = rows[row, ROW_HEAD]
        kind, due_ms = KIND_ORDINARY, 0
        if rows[row, ROW_LEVEL]:
            kind = KIND_LEVEL
        elif rows[row, ROW_TIMER] == TIMER_AFTER:
            due_ms = now_ms + rows[row, ROW_TIMER_MS]
        elif rows[row, ROW_TIMER] == TIMER_AT:
            due_ms = rows[row, ROW_TIMER_MS]
        if due_ms > now_ms:
            kind = KIND_TIMER
        topic_size = heads[head, HEAD_TOPIC_END] - heads[head, HEAD_TOPIC_START]
        size = HEADER_SIZE - 2 * HOST_SIZE + host_sizes[rows[row, ROW_CHANNEL]] + store_host_size
        size += rows[row, ROW_BODY_END] - rows[row, ROW_BODY_START]
        size += 3 + rows[row, ROW_TEXT_END] - rows[row, ROW_TEXT_START]
        if kind == KIND_ORDINARY:
            size += topic_size
        else:
            size += len(_REAL_TOPIC) + topic_size + len(_REAL_QUEUE)
            size += digit_count(heads[head, HEAD_QUEUE_ID])
            if kind == KIND_LEVEL:
                size += len(_LEVEL_TOPIC)
            else:
                size += len(_TIMER_TOPIC) + len(_DUE) + digit_count(due_ms)
        kinds[row] = kind
        dues[row] = due_ms if kind == KIND_TIMER else 0
        sizes[row] = size
        hash_count += 1 + (rows[row, ROW_KEYS_END] - rows[row, ROW_KEYS_START] + 1) // 2
    return hash_count


@kernel("void(int64[::1], int64[::1], int64[::1])")
def queue_offsets(queues: Int64s, ends: Int64s, offsets: Int64s) -> None:
    """The offset of each row in its queue; `ends` then are the next ones."""
    for row in range(len(queues)):
        offsets[row] = ends[queues[row]]
        ends[queues[row]] += 1


@kernel(f"int64({BYTES}, int64[::1], int64, uint32[::1], int64[::1], int64)")
def _put_hashes(
    texts: Bytes8, row: Int64s, position: int, hashes: Any, owners: Int64s, count: int
) -> int:
    """The hashes of the unique id and of each key; returns how many there are then."""
    hashes[count] = key_hash(texts, row[ROW_ID_START], row[ROW_ID_END])
    owners[count] = position
    count += 1
    start = row[ROW_KEYS_START]
    for place in range(row[ROW_KEYS_START], row[ROW_KEYS_END] + 1):
        if place == row[ROW_KEYS_END] or texts[place] == 0x20:
            if place > start:
                hashes[count] = key_hash(texts, start, place)
                owners[count] = position
                count += 1
            start = place + 1
    return count


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
        out[at] = len(_LEVEL_TOPIC)
        at = put_bytes(out, at + 1, _LEVEL_TOPIC, 0, len(_LEVEL_TOPIC))
    else:
        out[at] = len(_TIMER_TOPIC)
        at = put_bytes(out, at + 1, _TIMER_TOPIC, 0, len(_TIMER_TOPIC))
    size_at = at
    at = put_bytes(out, at + 2, texts, row[ROW_TEXT_START], row[ROW_TEXT_END])
    if kind == KIND_TIMER:
        at = put_bytes(out, at, _DUE, 0, len(_DUE))
        at = put_number(out, at, due_ms)
    if kind != KIND_ORDINARY:
        at = put_bytes(out, at, _REAL_TOPIC, 0, len(_REAL_TOPIC))
        at = put_bytes(out, at, topics, topic_start, topic_end)
        at = put_bytes(out, at, _REAL_QUEUE, 0, len(_REAL_QUEUE))
        at = put_number(out, at, head[HEAD_QUEUE_ID])
    put_big(out, size_at, at - size_at - 2, 2)
    return at


@kernel(
    f"int64({BYTES}, {BYTES}, int64[:, ::1], int64[:, ::1], {BYTES},"
    "Array(uint8, 2, 'C', True), int64[::1],"
    f"{BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64,"
    "int64, int64, uint8[::1], uint32[::1], int64[::1])"
)
def write_records(
    data: Bytes8,
    texts: Bytes8,
    rows: Any,
    heads: Any,
    topics: Bytes8,
    hosts: Any,
    host_sizes: Int64s,
    store_host: Bytes8,
    chosen: Int64s,
    kinds: Int64s,
    dues: Int64s,
    sizes: Int64s,
    positions: Int64s,
    offsets: Int64s,
    store_ms: int,
    mark: int,
    mark_step: int,
    out: Bytes8,
    hashes: Any,
    owners: Int64s,
) -> int:
    """Write the records of the chosen rows, one after the other; returns how many hashes.

    Args:
        chosen: which rows; kinds, dues and sizes are for all rows, positions and offsets for these.
        mark: flags and number of the first record, without the check.
        mark_step: how much the next one's is more.
        out: as long as the records together.
    """
    at = 0
    hash_count = 0
    same = np.uint64(MAGIC) ^ np.uint64(store_ms) ^ _words(store_host, 0, len(store_host))
    for number in range(len(chosen)):
        index = chosen[number]
        row = rows[index]
        head = heads[row[ROW_HEAD]]
        channel = row[ROW_CHANNEL]
        size, kind = sizes[index], kinds[index]
        if at + size > len(out):
            return -1
        host = hosts[channel]
        born_size = host_sizes[channel]
        queue_id = head[HEAD_QUEUE_ID]
        if kind == KIND_LEVEL:
            queue_id = row[ROW_LEVEL] - 1
        elif kind == KIND_TIMER:
            queue_id = 0
        sys_flag = head[HEAD_SYS_FLAG]
        if born_size > HOST_SIZE:
            sys_flag |= SYS_BORN_HOST_V6
        if len(store_host) > HOST_SIZE:
            sys_flag |= SYS_STORE_HOST_V6
        flag = row[ROW_FLAG] if head[HEAD_IS_BATCH] else head[HEAD_FLAG]
        times = 0 if head[HEAD_IS_BATCH] else head[HEAD_TIMES]
        body_start, body_end = row[ROW_BODY_START], row[ROW_BODY_END]
        body_crc = np.int64(crc(data, body_start, body_end)) & 0x7FFFFFFF

        start = at
        at = put_big(out, at, size, 4)
        at = put_big(out, at, MAGIC, 4)
        at = put_big(out, at, body_crc, 4)
        at = put_big(out, at, queue_id, 4)
        at = put_big(out, at, flag, 4)
        at = put_big(out, at, offsets[number], 8)
        at = put_big(out, at, positions[number], 8)
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
        at = _put_tail(texts, row, head, topics, kind, dues[index], out, at)
        if at != start + size:
            return -1

        own = np.uint64(mark + number * mark_step) | np.uint64(MARK_PRESENT)
        words = (
            same
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
        put_big(out, mark_at, np.int64(own), 8)
        hash_count = _put_hashes(texts, row, positions[number], hashes, owners, hash_count)
    return hash_count


@kernel(
    "void(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1])"
)
def write_units(
    rows: Any,
    chosen: Int64s,
    sizes: Int64s,
    positions: Int64s,
    queues: Int64s,
    starts: Int64s,
    units: Bytes8,
) -> None:
    """The entries of consume queues, those of one queue together: from starts[queue] on.

    `starts` then are the ends.
    """
    for number in range(len(chosen)):
        queue = queues[number]
        at = UNIT_SIZE * starts[queue]
        starts[queue] += 1
        if at + UNIT_SIZE > len(units):
            return
        at = put_big(units, at, positions[number], 8)
        at = put_big(units, at, sizes[chosen[number]], 4)
        put_big(units, at, rows[chosen[number], ROW_TAG], 8)

"""Rows of messages to records, compiled; the plain twin is `dueline.store.draft`.

`plan` says of each row which log it goes to, when it is due and how many bytes its record has.
`write_records` writes records that have their places, `queue_offsets` counts within queues, and
`write_units` makes the entries of consume queues. Every function writes to arrays that the caller
made large enough, as `dueline.store.block` does, and looks at none beyond its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import put_big
from dueline.compiled import BYTES, kernel
from dueline.message import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6
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
from dueline.store.draft_kernels import put_record, tail_size
from dueline.store.layout import HEADER_SIZE, HOST_SIZE
from dueline.store.packed import BODY_SIZE_MAX, PLACE_KEPT, RARE_SIZE, TIME_MAX
from dueline.store.packed import HEAD_SIZE as PACKED_SIZE
from dueline.store.packing_kernels import find_places
from dueline.store.record_kernels import key_hash

__all__ = [
    "plan",
    "queue_offsets",
    "write_records",
    "write_units",
]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


@kernel(
    f"int64({BYTES}, int64[::1], Array(uint8, 2, 'C', True), int64[::1], int64, int64, int64,"
    "int64[::1])"
)
def _plan_packing(
    texts: Bytes8,
    row: Int64s,
    hosts: Any,
    host_sizes: Int64s,
    store_host_size: int,
    kind: int,
    due_ms: int,
    packing: Int64s,
) -> Any:
    """How many bytes of text and id a delayed message keeps; -1: it is not packed."""
    channel = row[ROW_CHANNEL]
    if (
        host_sizes[channel] != HOST_SIZE
        or store_host_size != HOST_SIZE
        or hosts[channel, 4] != 0
        or hosts[channel, 5] != 0
        or max(row[ROW_BORN_MS], due_ms) > TIME_MAX
        or row[ROW_BODY_END] - row[ROW_BODY_START] > BODY_SIZE_MAX
    ):
        return -1
    due_ms = due_ms if kind == KIND_TIMER else -1
    return find_places(texts, row[ROW_TEXT_START], row[ROW_TEXT_END], due_ms, packing)


@kernel(
    f"int64({BYTES}, int64[:, ::1], int64[:, ::1], Array(uint8, 2, 'C', True), int64[::1], int64,"
    "int64, int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])"
)
def plan(
    texts: Bytes8,
    rows: Any,
    heads: Any,
    hosts: Any,
    host_sizes: Int64s,
    store_host_size: int,
    now_ms: int,
    kinds: Int64s,
    dues: Int64s,
    sizes: Int64s,
    packings: Any,
    order: Int64s,
    head_counts: Int64s,
) -> int:
    """Which log, when due and how many bytes; returns the most key hashes that there can be.

    A message with a level has no due time yet: that is counted from its store time.

    Args:
        packings: gets of delayed messages how they are packed (`packed.PLACE_KEPT`).
        order: gets the rows of ordinary messages, and behind them those of delayed ones.
        head_counts: how many rows of each head are ordinary, and behind that how many are delayed,
            is added to it.
    """
    hash_count = 0
    ordinary_count = delayed_count = 0
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
        size += tail_size(
            kind,
            topic_size,
            rows[row, ROW_TEXT_END] - rows[row, ROW_TEXT_START],
            heads[head, HEAD_QUEUE_ID],
            due_ms,
        )
        packings[row, PLACE_KEPT] = -1
        if kind != KIND_ORDINARY:
            kept = _plan_packing(
                texts, rows[row], hosts, host_sizes, store_host_size, kind, due_ms, packings[row]
            )
            if kept >= 0:
                flag = rows[row, ROW_FLAG] if heads[head, HEAD_IS_BATCH] else heads[head, HEAD_FLAG]
                times = 0 if heads[head, HEAD_IS_BATCH] else heads[head, HEAD_TIMES]
                is_rare = flag | heads[head, HEAD_SYS_FLAG] | times
                size = PACKED_SIZE + (RARE_SIZE if is_rare else 0) + kept + topic_size
                size += rows[row, ROW_BODY_END] - rows[row, ROW_BODY_START]
        if kind == KIND_ORDINARY:
            order[ordinary_count] = row
            ordinary_count += 1
            head_counts[head] += 1
        else:  # from behind, for now
            delayed_count += 1
            order[len(rows) - delayed_count] = row
            head_counts[len(heads) + head] += 1
        kinds[row] = kind
        dues[row] = due_ms if kind == KIND_TIMER else 0
        sizes[row] = size
        hash_count += 1 + (rows[row, ROW_KEYS_END] - rows[row, ROW_KEYS_START] + 1) // 2
    for place in range(delayed_count // 2):
        first, last = ordinary_count + place, len(rows) - 1 - place
        order[first], order[last] = order[last], order[first]
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


@kernel(
    f"int64({BYTES}, {BYTES}, int64[:, ::1], int64[:, ::1], {BYTES},"
    "Array(uint8, 2, 'C', True), int64[::1],"
    f"{BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[::1],"
    "int64[::1], int64, int64, int64, uint8[::1], uint32[::1], int64[::1])"
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
    packings: Any,
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
        chosen: which rows; kinds, dues, sizes and packings are for all rows, positions and offsets
            for these.
        mark: flags and number of the first record, without the check.
        mark_step: how much the next one's is more.
        out: as long as the records together.
    """
    at = 0
    hash_count = 0
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
        at = put_record(
            packings[index],
            out,
            at,
            size,
            positions[number],
            offsets[number],
            data,
            texts,
            row,
            head,
            topics,
            host,
            born_size,
            store_host,
            kind,
            dues[index],
            queue_id,
            flag,
            sys_flag,
            times,
            store_ms,
            mark + number * mark_step,
        )
        if at < 0:
            return -1
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

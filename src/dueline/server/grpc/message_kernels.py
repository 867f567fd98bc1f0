"""The messages of a receive as bytes of the protocol, compiled; the plain twin is
`message_writer`, which also writes what is left out here: text beyond ASCII, hosts of IPv6,
compressed bodies, and properties that change more of a message than a field.
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
from dueline.broker.retries import ATTEMPT_MAX
from dueline.byte_kernels import (
    index_of,
    put_big,
    put_bytes,
    put_number,
    row_of,
    u32,
)
from dueline.compiled import BYTES, kernel
from dueline.server.grpc.md5_kernels import put_md5
from dueline.server.grpc.message_table import (
    ENTRY_COUNT_MAX,
    ENTRY_END,
    ENTRY_KIND,
    ENTRY_NAME,
    ENTRY_NAME_END,
    FIXED_SIZE_MAX,
    GROWTH_MAX,
    KIND_DROP,
    KIND_ID,
    KIND_KEYS,
    KIND_ODD,
    KIND_TAG,
    KIND_USER,
)

__all__ = ["write_messages"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_TIME_MAX: Final = 1 << 53
_DIGEST: Final = np.frombuffer(b"\x22\x24\x08\x02\x12\x20", dtype=np.uint8)
_KIND: Final = np.frombuffer(b"\x28\x01\x30\x01", dtype=np.uint8)


@kernel("int64(int64)", is_inlined=True)
def _varint_size(number: int) -> int:
    size = 1
    while number >= 128:
        number >>= 7
        size += 1
    return size


@kernel("int64(uint8[::1], int64, int64)", is_inlined=True)
def _put_varint(out: Bytes8, at: int, number: int) -> int:
    while number >= 128:
        out[at] = number & 127 | 128
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@kernel(f"int64(uint8[::1], int64, int64, {BYTES}, int64, int64)", is_inlined=True)
def _put_text(out: Bytes8, at: int, key: int, data: Bytes8, start: int, end: int) -> int:
    """A key of one byte, and a slice with its length."""
    out[at] = key
    at = _put_varint(out, at + 1, end - start)
    return put_bytes(out, at, data, start, end)


@kernel("int64(uint8[::1], int64, int64, int64)")
def _put_time(out: Bytes8, at: int, key: int, milliseconds: int) -> int:
    out[at] = key
    size_at = at + 1
    at += 2
    seconds = milliseconds // 1_000
    rest = milliseconds - 1_000 * seconds
    if seconds:
        out[at] = 0x08
        at = _put_varint(out, at + 1, seconds)
    if rest:
        out[at] = 0x10
        at = _put_varint(out, at + 1, 1_000_000 * rest)
    out[size_at] = at - size_at - 1
    return at


@kernel(f"int64(uint8[::1], int64, int64, {BYTES}, int64)")
def _put_host(out: Bytes8, at: int, key: int, data: Bytes8, start: int) -> int:
    """An address of IPv4 with its port, as people write it; -1: the port is none."""
    port = u32(data, start + 4)
    if port >= 1 << 31:
        return -1
    out[at] = key
    size_at = at + 1
    at += 2
    for place in range(4):
        number: Any = data[start + place]
        at = put_number(out, at, number)
        out[at] = 0x3A if place == 3 else 0x2E
        at += 1
    at = put_number(out, at, port)
    out[size_at] = at - size_at - 1
    return at


@kernel(f"int64({BYTES}, int64, int64, {BYTES}, int64[:, ::1], int64[:, ::1])")
def _read_properties(
    data: Bytes8, start: int, end: int, names: Bytes8, kinds: Any, entries: Any
) -> int:
    """Where name and value of each property that is shown stand, and its kind (`ENTRY_…`); returns
    how many, or -1: they are not of the usual kind."""
    part = data[start:end]
    bits = np.uint8(0)
    for place in range(len(part)):
        bits |= part[place]
    if bits >= 0x80:
        return -1
    at, count = start, 0
    while at < end:
        stop = index_of(data, at, end, 2)
        separator = index_of(data, at, stop, 1)
        if at < separator < stop - 1:
            known = row_of(data, at, separator, names, kinds, len(kinds))
            kind = kinds[known, 2] if known >= 0 else KIND_USER
            if kind == KIND_ODD or count == ENTRY_COUNT_MAX:
                return -1
            if kind != KIND_DROP:
                if row_of(data, at, separator, data, entries, count) >= 0:
                    return -1
                entries[count, ENTRY_NAME] = at
                entries[count, ENTRY_NAME_END] = separator
                entries[count, ENTRY_END] = stop
                entries[count, ENTRY_KIND] = kind
                count += 1
        at = stop + 1
    return count


@kernel("boolean(int64)", is_inlined=True)
def _is_blank(byte: Any) -> Any:
    """Does it stand between words, as `str.split` says?"""
    return byte == 0x20 or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64[:, ::1], int64)")
def _put_texts(out: Bytes8, at: int, data: Bytes8, entries: Any, count: int) -> int:
    """Tag, keys and id, in the order of their numbers."""
    for kind in (KIND_TAG, KIND_KEYS, KIND_ID):
        for entry in range(count):
            if entries[entry, ENTRY_KIND] != kind:
                continue
            start, end = entries[entry, ENTRY_NAME_END] + 1, entries[entry, ENTRY_END]
            if kind != KIND_KEYS:
                at = _put_text(out, at, 0x0A if kind == KIND_TAG else 0x1A, data, start, end)
                continue
            word = start
            for place in range(start, end + 1):
                if place == end or _is_blank(data[place]):
                    if place > word:
                        at = _put_text(out, at, 0x12, data, word, place)
                    word = place + 1
    return at


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64[:, ::1], int64)")
def _put_users(out: Bytes8, at: int, data: Bytes8, entries: Any, count: int) -> int:
    """The user's own properties, as a map."""
    for entry in range(count):
        if entries[entry, ENTRY_KIND] != KIND_USER:
            continue
        name, separator = entries[entry, ENTRY_NAME], entries[entry, ENTRY_NAME_END]
        end = entries[entry, ENTRY_END]
        size = 2 + _varint_size(separator - name) + separator - name
        size += _varint_size(end - separator - 1) + end - separator - 1
        out[at] = 0x12
        at = _put_varint(out, at + 1, size)
        at = _put_text(out, at, 0x0A, data, name, separator)
        at = _put_text(out, at, 0x12, data, separator + 1, end)
    return at


@kernel(
    f"int64(uint8[::1], {BYTES}, int64[::1], int64[:, ::1], int64, {BYTES}, int64, int64,"
    f"int64, {BYTES}, uint64[::1])"
)
def _put_system(
    out: Bytes8,
    data: Bytes8,
    row: Int64s,
    entries: Any,
    count: int,
    receipts: Bytes8,
    receipt_start: int,
    receipt_end: int,
    attempt: int,
    invisible: Bytes8,
    work: Any,
) -> int:
    """The fields of a record that stand beside its body; returns their end, or -1."""
    queue_id, offset, times = row[PLAIN_QUEUE_ID], row[PLAIN_OFFSET], row[PLAIN_TIMES]
    born_ms, store_ms = row[PLAIN_BORN_MS], row[PLAIN_STORE_MS]
    if min(queue_id, offset, times, born_ms, store_ms) < 0 or max(born_ms, store_ms) > _TIME_MAX:
        return -1
    at = _put_texts(out, 0, data, entries, count)
    at = put_bytes(out, at, _DIGEST, 0, len(_DIGEST))
    at = put_md5(out, at, data, row[PLAIN_BODY_START], row[PLAIN_BODY_END], work)
    at = put_bytes(out, at, _KIND, 0, len(_KIND))
    at = _put_time(out, at, 0x3A, born_ms)
    at = _put_host(out, at, 0x42, data, row[PLAIN_BORN_HOST])
    if at < 0:
        return -1
    at = _put_time(out, at, 0x4A, store_ms)
    at = _put_host(out, at, 0x52, data, row[PLAIN_STORE_HOST])
    if at < 0:
        return -1
    if row[PLAIN_IS_DELAYED]:
        at = _put_time(out, at, 0x5A, store_ms)
    at = _put_text(out, at, 0x62, receipts, receipt_start, receipt_end)
    if queue_id:
        out[at] = 0x68
        at = _put_varint(out, at + 1, queue_id)
    out[at] = 0x70
    at = _put_varint(out, at + 1, offset)
    at = put_bytes(out, at, invisible, 0, len(invisible))
    return _put_varint(out, at, min(times + attempt, ATTEMPT_MAX))


@kernel(
    f"int64(uint8[::1], int64, {BYTES}, uint8[::1], int64, {BYTES}, int64, int64,"
    "int64[:, ::1], int64)"
)
def _put_message(
    out: Bytes8,
    at: int,
    head: Bytes8,
    scratch: Bytes8,
    system_size: int,
    data: Bytes8,
    body_start: int,
    body_end: int,
    entries: Any,
    count: int,
) -> int:
    """A message with its frame; what `_put_system` has written is in `scratch`."""
    users_end = _put_users(scratch, system_size, data, entries, count)
    body_size = body_end - body_start
    size = len(head) + users_end - system_size + 1 + _varint_size(system_size) + system_size
    if body_size:
        size += 1 + _varint_size(body_size) + body_size
    out[at] = 0
    at = put_big(out, at + 1, 1 + _varint_size(size) + size, 4)
    out[at] = 0x12
    at = _put_varint(out, at + 1, size)
    at = put_bytes(out, at, head, 0, len(head))
    at = put_bytes(out, at, scratch, system_size, users_end)
    at = _put_text(out, at, 0x1A, scratch, 0, system_size)
    return _put_text(out, at, 0x22, data, body_start, body_end) if body_size else at


@kernel(
    f"void({BYTES}, int64[:, ::1], {BYTES}, int64[::1], int64[::1], {BYTES}, {BYTES}, {BYTES},"
    "int64[:, ::1], uint8[::1], uint64[::1], int64[:, ::1], uint8[::1], int64[::1])"
)
def write_messages(
    data: Bytes8,
    rows: Any,
    receipts: Bytes8,
    receipt_ends: Int64s,
    attempts: Int64s,
    head: Bytes8,
    invisible: Bytes8,
    names: Bytes8,
    kinds: Any,
    scratch: Bytes8,
    work: Any,
    entries: Any,
    out: Bytes8,
    out_ends: Int64s,
) -> None:
    """Each message as an answer of its own, in its frame, one behind the other. One that is left
    out ends where the one before it does.

    Args:
        data, rows: records (`plain_rows`).
        head: the topic, as the first field of a message.
        invisible: for how long they are, as a field, and the key of the attempt behind it.
        names: of properties that are not the user's own; a row of `kinds` has start, end and kind.
        scratch, work, entries: for one message (`message_table`).
    """
    at = receipt_end = 0
    for number in range(len(rows)):
        row = rows[number]
        receipt_start, receipt_end = receipt_end, receipt_ends[number]
        out_ends[number] = at
        body_start, body_end = row[PLAIN_BODY_START], row[PLAIN_BODY_END]
        if body_start < 0:
            continue
        text_start, text_end = row[PLAIN_TEXT_START], row[PLAIN_TEXT_END]
        size_max = GROWTH_MAX * (text_end - text_start) + receipt_end - receipt_start
        size_max += len(invisible) + FIXED_SIZE_MAX
        if size_max > len(scratch) or at + size_max + len(head) + body_end - body_start > len(out):
            continue
        count = _read_properties(data, text_start, text_end, names, kinds, entries)
        if count < 0:
            continue
        size = _put_system(
            scratch,
            data,
            row,
            entries,
            count,
            receipts,
            receipt_start,
            receipt_end,
            attempts[number],
            invisible,
            work,
        )
        if size < 0:
            continue
        at = _put_message(out, at, head, scratch, size, data, body_start, body_end, entries, count)
        out_ends[number] = at

"""Sends of a whole turn, cut and read by compiled code; `dueline.wire.turn` says what it gives.

It understands what producers write: JSON headers without blanks, the one-letter names of codes 310
and 320, properties with or without escapes. Everything else it leaves alone, and the interpreted
codec (`dueline.wire.command`, `headers`, `batch`) has it: no frame is refused here.

Every function gets its bounds as arguments and looks at no byte outside of them. A result below 0
is "not understood".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import begins, eight, is_same, put_bytes, put_short, u32
from dueline.compiled import BYTES, kernel
from dueline.message_rows import (
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_BORN_MS,
    ROW_CHANNEL,
    ROW_FLAG,
    ROW_FRAME,
    ROW_HEAD,
    ROW_ID_START,
    ROW_LEVEL,
    ROW_TEXT_END,
    ROW_TEXT_START,
)
from dueline.wire.header_kernels import (
    FIELD_BATCH,
    FIELD_BORN,
    FIELD_PROPERTIES,
    FIELD_TOPIC,
    HEADER_CODE,
    HEADER_COUNT,
    HEADER_FLAG,
    HEADER_OPAQUE,
    HEADER_SIGNATURE,
    HEADER_TOKEN,
    HEADER_USER,
    HEADER_VERSION,
    HEADER_WIDTH,
    digits,
    read_header,
)
from dueline.wire.property_kernels import clear_row, read_properties, unescape
from dueline.wire.turn import (
    BATCH_CODE,
    CODE_MAX,
    ENTRY_COUNT_MAX,
    FIELD_COUNT,
    FIELD_SIZE_BYTES,
    FRAME_BODY_START,
    FRAME_CHANNEL,
    FRAME_END,
    FRAME_FIRST_ROW,
    FRAME_FLAG,
    FRAME_HEAD,
    FRAME_IS_FAST,
    FRAME_OPAQUE,
    FRAME_ROW_COUNT,
    FRAME_SIGNATURE_END,
    FRAME_SIGNATURE_START,
    FRAME_SIGNED_END,
    FRAME_SIGNED_START,
    FRAME_SIZE_BYTES,
    FRAME_START,
    FRAME_USER_END,
    HEAD_IS_BATCH,
    HEAD_KEY_END,
    HEAD_KEY_START,
    HEADS_MAX,
    LIMIT_BATCH,
    LIMIT_BODY,
    LIMIT_FRAME,
    LIMIT_HEADER,
    LIMIT_TEXT,
    SEND_CODE,
    TABLE_SIZE,
)

__all__ = ["read_turn"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_TRUE: Final = np.frombuffer(b"true", dtype=np.uint8)
_FALSE: Final = np.frombuffer(b"false", dtype=np.uint8)


@kernel(f"int64({BYTES}, int64[::1], uint8[::1], int64)")
def _write_key(data: Bytes8, header: Int64s, texts: Bytes8, at: int) -> int:
    """All that heads are told apart by, one after the other; returns the end."""
    for place in range(4):
        texts[at + place] = header[HEADER_VERSION] >> 8 * place & 0xFF
    texts[at + 4] = header[HEADER_CODE] - SEND_CODE + 1
    at += 5
    for field in range(FIELD_COUNT):
        if field == FIELD_BORN or field == FIELD_PROPERTIES:
            continue
        if header[2 * field] < 0:
            texts[at] = 0
            at += 1
            continue
        texts[at] = 1
        at = put_short(texts, at + 1, data, header[2 * field], header[2 * field + 1])
    return at


@kernel("int64(uint8[::1], int64, int64, int64[:, ::1], int64[::1], int64)")
def _find_head(texts: Bytes8, start: int, end: int, heads: Any, table: Int64s, count: int) -> int:
    """The number of the head with this key: `count` if it is new, -1 if there are too many."""
    value = np.uint64(14695981039346656037)
    at = start
    while at + 8 <= end:
        value = (value ^ eight(texts[at : at + 8], 0)) * np.uint64(1099511628211)
        value ^= value >> np.uint64(32)
        at += 8
    while at < end:
        value = (value ^ np.uint64(texts[at])) * np.uint64(1099511628211)
        at += 1
    slot = np.int64(value >> np.uint64(20)) & (TABLE_SIZE - 1)
    while table[slot]:
        head = table[slot] - 1
        first = heads[head, HEAD_KEY_START]
        size = heads[head, HEAD_KEY_END] - first
        if size == end - start and is_same(texts, first, texts, start, size):
            return head
        slot = (slot + 1) & (TABLE_SIZE - 1)
    if count >= len(heads) or count >= HEADS_MAX:
        return -1
    table[slot] = count + 1
    return count


@kernel(f"int64({BYTES}, int64[::1], uint8[::1], int64, int64, int64[::1])")
def _write_signed(
    data: Bytes8, header: Int64s, texts: Bytes8, text_at: int, at: int, frame: Int64s
) -> int:
    """What was signed but for the body: values by the order of their names; returns the end.

    Capitals come before small letters: the user, the token, then the fields a to n. The properties
    are in texts[text_at:at], without escapes.
    """
    text_end = at
    frame[FRAME_SIGNED_START] = at
    frame[FRAME_SIGNATURE_START] = header[HEADER_SIGNATURE]
    frame[FRAME_SIGNATURE_END] = header[HEADER_SIGNATURE + 1]
    at = put_short(texts, at, data, header[HEADER_USER], header[HEADER_USER + 1])
    frame[FRAME_USER_END] = at
    if header[HEADER_TOKEN] >= 0:
        at = put_bytes(texts, at, data, header[HEADER_TOKEN], header[HEADER_TOKEN + 1])
    for field in range(FIELD_COUNT):
        if field == FIELD_PROPERTIES:
            at = put_short(texts, at, texts, text_at, text_end)
        elif header[2 * field] >= 0:  # without escapes
            at = put_short(texts, at, data, header[2 * field], header[2 * field + 1])
    frame[FRAME_SIGNED_END] = at
    return at


@kernel(f"int64({BYTES}, int64[::1], uint8[::1], int64, int64)")
def _write_text(data: Bytes8, header: Int64s, texts: Bytes8, at: int, size_max: int) -> int:
    """The properties as text; returns the end."""
    start, end = header[2 * FIELD_PROPERTIES], header[2 * FIELD_PROPERTIES + 1]
    if start < 0:
        return at
    if end - start > size_max:
        return -1
    return unescape(data, start, end, texts, at)


@kernel(f"int64({BYTES}, int64[::1])")
def _is_batch(data: Bytes8, header: Int64s) -> int:
    """1: a batch, 0: one message, -1: not understood."""
    start, end = header[2 * FIELD_BATCH], header[2 * FIELD_BATCH + 1]
    is_true = start >= 0 and end - start == len(_TRUE) and begins(data, start, end, _TRUE)
    is_false = start < 0 or (end - start == len(_FALSE) and begins(data, start, end, _FALSE))
    if not is_true and not is_false:
        return -1
    return 1 if is_true or header[HEADER_CODE] == BATCH_CODE else 0


@kernel(
    f"int64({BYTES}, int64, int64, uint8[::1], int64, {BYTES}, int64[:, ::1], int64[:, ::1],"
    "int64[:, ::1], int64, int64[::1])"
)
def _read_batch(
    data: Bytes8,
    at: int,
    end: int,
    texts: Bytes8,
    text_at: int,
    names: Bytes8,
    actions: Any,
    entries: Any,
    rows: Any,
    row_count: int,
    limits: Int64s,
) -> int:
    """The messages of a batch into rows; returns how many rows there are then."""
    first_count = row_count
    while at < end:
        if end - at < 22 or row_count >= len(rows):
            return -1
        if row_count - first_count >= limits[LIMIT_BATCH]:
            return -1
        size = u32(data, at)
        body_size = u32(data, at + 16)
        if size < 22 or size > end - at or body_size > size - 22:
            return -1
        properties_at = at + 20 + body_size
        text_size = np.int64(data[properties_at]) << 8 | np.int64(data[properties_at + 1])
        if properties_at + 2 + text_size != at + size:
            return -1
        if body_size > limits[LIMIT_BODY] or text_size > limits[LIMIT_TEXT]:
            return -1
        row = rows[row_count]
        clear_row(row)
        put_bytes(texts, text_at, data, properties_at + 2, properties_at + 2 + text_size)
        stop = read_properties(
            texts, text_at, text_at + text_size, names, actions, entries, row, limits
        )
        if stop < 0 or row[ROW_ID_START] < 0:
            return -1
        flag = u32(data, at + 12)
        row[ROW_FLAG] = flag - (1 << 32) if flag >= 1 << 31 else flag
        if row[ROW_FLAG] == -(1 << 31):
            return -1
        row[ROW_BODY_START] = at + 20
        row[ROW_BODY_END] = properties_at
        row[ROW_TEXT_START] = text_at
        row[ROW_TEXT_END] = stop
        text_at = stop
        row_count += 1
        at += size
    return row_count if row_count > first_count else -1


@kernel(
    f"int64({BYTES}, int64, int64, int64, {BYTES}, int64[:, ::1], int64[::1], int64[::1],"
    "int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], uint8[::1], int64[::1], int64[::1])"
)
def _read_send(
    data: Bytes8,
    start: int,
    header_end: int,
    end: int,
    names: Bytes8,
    actions: Any,
    limits: Int64s,
    header: Int64s,
    entries: Any,
    rows: Any,
    heads: Any,
    table: Int64s,
    texts: Bytes8,
    counts: Int64s,
    frame: Int64s,
) -> int:
    """One frame into rows, a head and texts; `counts` has how many of each there are."""
    if read_header(data, start, header_end, header) < 0:
        return -1
    if header[HEADER_CODE] != SEND_CODE and header[HEADER_CODE] != BATCH_CODE:
        return -1
    if header[HEADER_FLAG] != 0 or header[2 * FIELD_TOPIC] < 0 or header[2 * FIELD_BORN] < 0:
        return -1
    born_ms = digits(data, header[2 * FIELD_BORN], header[2 * FIELD_BORN + 1])
    is_batch = _is_batch(data, header)
    text_at = counts[2]
    # Thrice a frame holds its key, its texts and what was signed, which do not get longer.
    if born_ms < 0 or is_batch < 0 or text_at + 3 * (end - start) + 64 > len(texts):
        return -1
    if counts[0] >= len(rows):
        return -1
    row = rows[counts[0]]
    clear_row(row)
    text_end = _write_text(data, header, texts, text_at, limits[LIMIT_TEXT])
    if text_end < 0:
        return -1
    free = text_end
    frame[FRAME_SIGNED_START] = -1
    if header[HEADER_USER] >= 0 and header[HEADER_SIGNATURE] >= 0:
        free = _write_signed(data, header, texts, text_at, text_end, frame)
    text_end = read_properties(texts, text_at, text_end, names, actions, entries, row, limits)
    if text_end < 0:
        return -1
    row_count = counts[0] + 1
    if is_batch:
        if row[ROW_LEVEL]:
            return -1
        row_count = _read_batch(
            data,
            header_end,
            end,
            texts,
            free,
            names,
            actions,
            entries,
            rows,
            counts[0],
            limits,
        )
        if row_count < 0:
            return -1
        free = rows[row_count - 1][ROW_TEXT_END]
    elif row[ROW_ID_START] < 0 or end - header_end > limits[LIMIT_BODY]:
        return -1
    else:
        row[ROW_BODY_START] = header_end
        row[ROW_BODY_END] = end
        row[ROW_TEXT_START] = text_at
        row[ROW_TEXT_END] = text_end
    key_end = _write_key(data, header, texts, free)
    head = _find_head(texts, free, key_end, heads, table, counts[1])
    if head < 0:
        return -1
    if head == counts[1]:
        heads[head, HEAD_KEY_START] = free
        heads[head, HEAD_KEY_END] = key_end
        heads[head, HEAD_IS_BATCH] = is_batch
        counts[1] += 1
        free = key_end
    for number in range(counts[0], row_count):
        rows[number, ROW_BORN_MS] = born_ms
        rows[number, ROW_HEAD] = head
    frame[FRAME_OPAQUE] = header[HEADER_OPAQUE]
    frame[FRAME_FLAG] = header[HEADER_FLAG]
    frame[FRAME_HEAD] = head
    frame[FRAME_FIRST_ROW] = counts[0]
    frame[FRAME_ROW_COUNT] = row_count - counts[0]
    frame[FRAME_SIZE_BYTES] = end - start + FIELD_SIZE_BYTES * header[HEADER_COUNT]
    frame[FRAME_BODY_START] = header_end
    counts[0] = row_count
    counts[2] = free
    return 0


@kernel(
    f"void({BYTES}, int64[:, ::1], {BYTES}, int64[:, ::1], int64[::1],"
    "int64[::1], int64[:, ::1], int64[::1],"
    "int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1])"
)
def _read_frames(
    data: Bytes8,
    spans: Any,
    names: Bytes8,
    actions: Any,
    limits: Int64s,
    header: Int64s,
    entries: Any,
    table: Int64s,
    frames: Any,
    rows: Any,
    heads: Any,
    texts: Bytes8,
    counts: Int64s,
) -> None:
    """`read_turn`, with room for what is being read: `table` is all zeros."""
    frame_count = 0
    for place in range(len(counts)):
        counts[place] = 0
    for channel in range(len(spans)):
        at, end = spans[channel, 0], spans[channel, 1]
        if at < 0 or end > len(data):
            continue
        while end - at >= 8 and frame_count < len(frames):
            length = u32(data, at)
            word = u32(data, at + 4)
            header_size = word & 0xFFFFFF
            if (
                length > limits[LIMIT_FRAME]
                or length < 4 + header_size
                or header_size > limits[LIMIT_HEADER]
                or word >> 24 > CODE_MAX
                or at + 4 + length > end
            ):
                break
            frame = frames[frame_count]
            frame[FRAME_START] = at
            frame[FRAME_END] = at + 4 + length
            frame[FRAME_CHANNEL] = channel
            frame[FRAME_IS_FAST] = 0
            if word >> 24 == 0:
                first_row = counts[0]
                if (
                    _read_send(
                        data,
                        at + 8,
                        at + 8 + header_size,
                        at + 4 + length,
                        names,
                        actions,
                        limits,
                        header,
                        entries,
                        rows,
                        heads,
                        table,
                        texts,
                        counts,
                        frame,
                    )
                    == 0
                ):
                    frame[FRAME_IS_FAST] = 1
                    for row in range(first_row, counts[0]):
                        rows[row, ROW_FRAME] = frame_count
                        rows[row, ROW_CHANNEL] = channel
            frame_count += 1
            at += 4 + length
    counts[3] = frame_count


@kernel(
    f"void({BYTES}, int64[:, ::1], {BYTES}, int64[:, ::1], int64[::1],"
    "int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1])",
    makes_arrays=True,
)
def read_turn(
    data: Bytes8,
    spans: Any,
    names: Bytes8,
    actions: Any,
    limits: Int64s,
    frames: Any,
    rows: Any,
    heads: Any,
    texts: Bytes8,
    counts: Int64s,
) -> None:
    """Cut and read what has come on each connection, data[spans[c, 0] : spans[c, 1]].

    Args:
        names: names of properties that mean something; actions: (start, end, action) of each.
        counts: how many rows, heads, bytes of text and frames there are at the end.
    """
    _read_frames(
        data,
        spans,
        names,
        actions,
        limits,
        np.empty(HEADER_WIDTH, dtype=np.int64),
        np.empty((ENTRY_COUNT_MAX, 2), dtype=np.int64),
        np.zeros(TABLE_SIZE, dtype=np.int64),
        frames,
        rows,
        heads,
        texts,
        counts,
    )

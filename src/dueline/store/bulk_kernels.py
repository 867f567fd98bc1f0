"""Rows of a table to property strings and sizes of records, compiled.

`dueline.store.bulk_rows` calls them; the plain twin is `dueline.store.bulk`. A column of texts is
its bytes and n + 1 offsets; an empty text counts as none.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import digit_count, put_bytes, put_number
from dueline.compiled import BYTES, kernel
from dueline.message import LEVEL_TOPIC, TIMER_TOPIC
from dueline.message_rows import (
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_HEAD,
    ROW_ID_END,
    ROW_ID_START,
    ROW_KEYS_END,
    ROW_KEYS_START,
    ROW_LEVEL,
    ROW_TEXT_END,
    ROW_TEXT_START,
)
from dueline.schedule import DUE_NAME, LEVEL_NAME, REAL_QUEUE_NAME, REAL_TOPIC_NAME
from dueline.store.block import HEAD_QUEUE_ID, HEAD_TOPIC_END, HEAD_TOPIC_START
from dueline.store.packed import (
    BODY_SIZE_MAX,
    HEAD_SIZE,
    ID_SIZE_MAX,
    PLACE_ID,
    PLACE_ID_END,
    PLACE_KEPT,
    PLACE_WIDTH,
    TIME_MAX,
)
from dueline.store.property_bytes import HEX, UNIQUE

__all__ = ["measure", "write_texts"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_KEYS: Final = np.frombuffer(b"\x02KEYS\x01", dtype=np.uint8)
_TAGS: Final = np.frombuffer(b"\x02TAGS\x01", dtype=np.uint8)
_LEVEL: Final = np.frombuffer(f"\x02{LEVEL_NAME}\x01".encode(), dtype=np.uint8)
_NAMES_SIZE: Final = len(REAL_TOPIC_NAME) + len(REAL_QUEUE_NAME) + 4
_LEVEL_SIZE: Final = len(LEVEL_TOPIC)
_TIMER_SIZE: Final = len(TIMER_TOPIC)
_DUE_SIZE: Final = len(DUE_NAME) + 2
_MADE_DIGITS: Final = 12


@kernel(f"int64({BYTES}, int64[::1], int64)")
def _size(data: Bytes8, offsets: Int64s, row: int) -> int:
    """Of a text; -1 if it is not within the data or has a separator in it."""
    start, end = offsets[row], offsets[row + 1]
    if start < 0 or end < start or end > len(data):
        return -1
    is_plain = True
    for at in range(start, end):
        is_plain &= data[at] != 1 and data[at] != 2
    return end - start if is_plain else -1


@kernel(f"boolean({BYTES}, int64, int64)")
def _is_hex(ids: Bytes8, start: int, end: int) -> bool:
    """Is it an even number of capital hexadecimal digits, not too many?"""
    if (end - start) % 2 or end - start > 2 * ID_SIZE_MAX:
        return False
    for at in range(start, end):
        if not (0x30 <= ids[at] <= 0x39 or 0x41 <= ids[at] <= 0x46):
            return False
    return True


@kernel("void(int64[::1], int64, int64, int64)")
def _plan_packing(packing: Int64s, start: int, end: int, id_size: int) -> None:
    """What is kept of a text that begins with a unique id of so many digits; 0: that stays."""
    for place in range(PLACE_WIDTH):
        packing[place] = 0
    kept = end - start
    if id_size:
        packing[PLACE_ID] = start + len(UNIQUE)
        packing[PLACE_ID_END] = packing[PLACE_ID] + id_size
        kept = max(end - packing[PLACE_ID_END] - 1, 0) + id_size // 2
    packing[PLACE_KEPT] = kept


@kernel(
    f"int64({BYTES}, int64[::1], {BYTES}, int64[::1], {BYTES}, int64[::1], int64,"
    "int64[::1], int64[:, ::1], int64, int64, boolean, int64[:, ::1], int64[::1], int64[::1],"
    "int64[:, ::1])"
)
def measure(
    ids: Bytes8,
    id_offsets: Int64s,
    keys: Bytes8,
    key_offsets: Int64s,
    tags: Bytes8,
    tag_offsets: Int64s,
    prefix_size: int,
    dues: Int64s,
    heads: Any,
    fixed_size: int,
    data_size: int,
    is_packed: bool,
    rows: Any,
    text_sizes: Int64s,
    sizes: Int64s,
    packings: Any,
) -> int:
    """How many bytes the texts of all rows have; -1: a row that must be refused, or looked at.

    Args:
        prefix_size: of the ids that are made for rows without one.
        fixed_size: of a record without its body, topic and properties.
        data_size: how many bytes the bodies are slices of.
        is_packed: whether those records are packed that can be.
        rows: bodies, levels and heads are read; where texts begin and end is written.
        text_sizes, sizes: of the properties of each record, and of the record; written.
        packings: how each record is packed (`packed.PLACE_KEPT`); written.
    """
    at = 0
    for row in range(len(rows)):
        body, body_end = rows[row, ROW_BODY_START], rows[row, ROW_BODY_END]
        id_size, key_size = _size(ids, id_offsets, row), _size(keys, key_offsets, row)
        tag_size = _size(tags, tag_offsets, row)
        if id_size < 0 or key_size < 0 or tag_size < 0:
            return -1
        if body < 0 or body_end < body or body_end > data_size:
            return -1
        head, level = rows[row, ROW_HEAD], rows[row, ROW_LEVEL]
        is_hex = id_size == 0 or _is_hex(ids, id_offsets[row], id_offsets[row + 1])
        id_size = id_size if id_size else prefix_size + _MADE_DIGITS
        size = len(UNIQUE) + id_size
        if key_size:
            size += len(_KEYS) + key_size
        if tag_size:
            size += len(_TAGS) + tag_size
        if level:
            size += len(_LEVEL) + digit_count(level)
        rows[row, ROW_TEXT_START] = at
        _plan_packing(packings[row], at, at + size, id_size if is_hex else 0)
        at += size
        rows[row, ROW_TEXT_END] = at
        topic_size = heads[head, HEAD_TOPIC_END] - heads[head, HEAD_TOPIC_START]
        size += _NAMES_SIZE + topic_size
        size += digit_count(heads[head, HEAD_QUEUE_ID])
        log_topic_size = _LEVEL_SIZE
        if not level:
            size += _DUE_SIZE + digit_count(dues[row])
            log_topic_size = _TIMER_SIZE
        text_sizes[row] = size
        sizes[row] = fixed_size + body_end - body + 3 + log_topic_size + size
        if is_packed and body_end - body <= BODY_SIZE_MAX and dues[row] <= TIME_MAX:
            sizes[row] = HEAD_SIZE + body_end - body + packings[row, PLACE_KEPT] + topic_size
        else:
            packings[row, PLACE_KEPT] = -1
    return at


@kernel(
    f"boolean({BYTES}, int64[::1], {BYTES}, int64[::1], {BYTES}, int64[::1], {BYTES}, int64,"
    "int64[:, ::1], uint8[::1])"
)
def write_texts(
    ids: Bytes8,
    id_offsets: Int64s,
    keys: Bytes8,
    key_offsets: Int64s,
    tags: Bytes8,
    tag_offsets: Int64s,
    prefix: Bytes8,
    first: int,
    rows: Any,
    texts: Bytes8,
) -> bool:
    """Write the texts that `measure` has measured; False if one does not fit.

    Args:
        first: the number of the id that is made for the first row.
        rows: where unique ids and keys begin and end is written.
    """
    for row in range(len(rows)):
        at, end = rows[row, ROW_TEXT_START], rows[row, ROW_TEXT_END]
        if at < 0 or end > len(texts):
            return False
        at = put_bytes(texts, at, UNIQUE, 0, len(UNIQUE))
        rows[row, ROW_ID_START] = at
        if id_offsets[row + 1] > id_offsets[row]:
            at = put_bytes(texts, at, ids, id_offsets[row], id_offsets[row + 1])
        else:
            at = put_bytes(texts, at, prefix, 0, len(prefix))
            for place in range(_MADE_DIGITS):
                shift = 4 * (_MADE_DIGITS - 1 - place)
                texts[at + place] = HEX[first + row >> shift & 15]
            at += _MADE_DIGITS
        rows[row, ROW_ID_END] = rows[row, ROW_KEYS_START] = rows[row, ROW_KEYS_END] = at
        if key_offsets[row + 1] > key_offsets[row]:
            rows[row, ROW_KEYS_START] = at = put_bytes(texts, at, _KEYS, 0, len(_KEYS))
            at = put_bytes(texts, at, keys, key_offsets[row], key_offsets[row + 1])
            rows[row, ROW_KEYS_END] = at
        if tag_offsets[row + 1] > tag_offsets[row]:
            at = put_bytes(texts, at, _TAGS, 0, len(_TAGS))
            at = put_bytes(texts, at, tags, tag_offsets[row], tag_offsets[row + 1])
        if rows[row, ROW_LEVEL]:
            at = put_bytes(texts, at, _LEVEL, 0, len(_LEVEL))
            at = put_number(texts, at, rows[row, ROW_LEVEL])
        if at != end:
            return False
    return True

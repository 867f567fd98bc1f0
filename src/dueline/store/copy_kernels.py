"""Records from the delay log to the commit log, compiled: looked at once, then copied.

    measure    checks a record as `restore.damaged` does, and says how long its copy will be
    copy       writes the copy as `restore.deliveries` makes it, with what is indexed of it

Both know the usual record: our own, with IPv4 hosts and a tag in ASCII. Any other row is left to
their twins in `dueline.store.restore`, row by row. Rows are given by n + 1 offsets; an offset that
does not lie within its array makes a row an unusual one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import begins, index_of, put_big, put_bytes, u32
from dueline.compiled import BYTES, kernel
from dueline.store.copies import ID, ID_END, KEYS, KEYS_END, TAG, TAG_END
from dueline.store.crc_kernels import crc
from dueline.store.record_kernels import (
    HEADER_SIZE,
    SIZE_MIN,
    fold_header,
    folded_crc,
    is_usual,
    key_hash,
)

__all__ = ["copy", "measure"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_UNIQ_KEY: Final = np.frombuffer(b"UNIQ_KEY\x01", dtype=np.uint8)
_KEYS: Final = np.frombuffer(b"KEYS\x01", dtype=np.uint8)
_TAGS: Final = np.frombuffer(b"TAGS\x01", dtype=np.uint8)


@kernel(f"void({BYTES}, int64, int64, int64[::1])")
def _find(data: Bytes8, start: int, end: int, values: Int64s) -> None:
    """Where the values are that are indexed, the first of each name: as `copies` numbers them.

    The range of one that is not there is empty.
    """
    for place in range(len(values)):
        values[place] = end
    at = start
    while at < end:
        stop = index_of(data, at, end, 2)
        if values[ID] == end and begins(data, at, stop, _UNIQ_KEY):
            values[ID], values[ID_END] = at + len(_UNIQ_KEY), stop
        elif values[KEYS] == end and begins(data, at, stop, _KEYS):
            values[KEYS], values[KEYS_END] = at + len(_KEYS), stop
        elif values[TAG] == end and begins(data, at, stop, _TAGS):
            values[TAG], values[TAG_END] = at + len(_TAGS), stop
        at = stop + 1


@kernel(f"int64({BYTES}, int64, int64)")
def _word_count(data: Bytes8, start: int, end: int) -> int:
    count = 0
    is_word = False
    for at in range(start, end):
        if data[at] == 32:
            is_word = False
        elif not is_word:
            is_word = True
            count += 1
    return count


@kernel(f"void({BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1])")
def measure(
    data: Bytes8,
    offsets: Int64s,
    topic_sizes: Int64s,
    sizes: Int64s,
    key_counts: Int64s,
    values: Any,
) -> None:
    """How long each record's copy will be, and how many key hashes it has; -1 for unusual ones.

    Args:
        topic_sizes: of the topic that each copy goes to.
        sizes, key_counts, values: written; values has `VALUE_WIDTH` columns.
    """
    for row in range(len(sizes)):
        sizes[row] = -1
        key_counts[row] = 0
        start, end = offsets[row], offsets[row + 1]
        if topic_sizes[row] < 1 or not is_usual(data, start, end):
            continue
        tail = start + HEADER_SIZE + u32(data, start + 84)
        own = values[row]
        _find(data, tail + 1 + data[tail] + 2, end, own)
        is_plain = True
        for at in range(own[TAG], own[TAG_END]):
            is_plain &= data[at] < 128
        if not is_plain:
            continue
        sizes[row] = end - start + topic_sizes[row] - np.int64(data[tail])
        key_counts[row] = 1 + _word_count(data, own[KEYS], own[KEYS_END])


@kernel("void(uint8[::1], int64, int64, int64, int64, int64, int64)")
def _stamp(
    out: Bytes8, to: int, size: int, tail: int, queue_id: int, origin: int, due_ms: int
) -> None:
    """Write what is new in the header of a copy at out[to : to + size], and its check."""
    put_big(out, to, size, 4)
    put_big(out, to + 12, queue_id, 4)
    put_big(out, to + 20, 0, 8)
    put_big(out, to + 28, 0, 8)
    put_big(out, to + 56, due_ms, 8)
    put_big(out, to + 76, 7 << 60 | origin, 8)
    check = fold_header(out, to) ^ folded_crc(crc(out, tail, to + size))
    out[to + 76] |= check >> 12 & 0x0F
    out[to + 77] = check >> 4 & 0xFF
    out[to + 78] |= (check & 0x0F) << 4


@kernel(f"int64({BYTES}, int64, int64)")
def _tag_code(data: Bytes8, start: int, end: int) -> Any:
    """`message.string_hash` of a tag in ASCII."""
    code = np.int64(0)
    for place in range(start, end):
        code = 31 * code + np.int64(data[place]) & 0xFFFFFFFF
    return code - (np.int64(1) << 32) if code >= np.int64(1) << 31 else code


@kernel("boolean(int64[::1], int64, int64)")
def _is_within(values: Int64s, start: int, end: int) -> bool:
    """Do all values lie in [start, end), or are empty at its end?"""
    is_within = True
    for place in range(0, len(values), 2):
        is_within &= start <= values[place] <= values[place + 1] <= end
    return is_within


@kernel(
    f"boolean({BYTES}, int64[::1], {BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], int64[:, ::1], uint8[::1], int64[::1], int64[::1], int64[::1], uint32[::1])"
)
def copy(
    data: Bytes8,
    offsets: Int64s,
    topics: Bytes8,
    topic_offsets: Int64s,
    topic: Int64s,
    queue_id: Int64s,
    origin: Int64s,
    due_ms: Int64s,
    values: Any,
    out: Bytes8,
    out_offsets: Int64s,
    key_offsets: Int64s,
    tags_code: Int64s,
    hashes: npt.NDArray[np.uint32],
) -> bool:
    """Write the copies of records that `measure` has measured; False if something does not fit.

    Args:
        topics: all names; row i goes to the one at topic_offsets[topic[i]].
        values: as `measure` has written them.
        out, tags_code, hashes: written; their rows are given by out_offsets and key_offsets.
    """
    for row in range(len(origin)):
        start, end = offsets[row], offsets[row + 1]
        if start < 0 or end > len(data) or end - start < SIZE_MIN:
            return False
        number = topic[row]
        if number < 0 or number + 1 >= len(topic_offsets):
            return False
        name, name_end = topic_offsets[number], topic_offsets[number + 1]
        if name < 0 or name_end > len(topics) or name_end - name > 127:
            return False
        tail = start + HEADER_SIZE + u32(data, start + 84)
        if tail + 3 > end:
            return False
        properties = tail + 1 + data[tail]
        to = out_offsets[row]
        size = tail - start + 1 + name_end - name + end - properties
        if properties > end or to < 0 or size != out_offsets[row + 1] - to or to + size > len(out):
            return False
        own = values[row]
        if not _is_within(own, properties, end):
            return False
        at = put_bytes(out, to, data, start, tail)
        out[at] = name_end - name
        put_bytes(out, put_bytes(out, at + 1, topics, name, name_end), data, properties, end)
        _stamp(out, to, size, at, queue_id[row], origin[row], due_ms[row])
        tags_code[row] = _tag_code(data, own[TAG], own[TAG_END])
        key = key_offsets[row]
        if key < 0 or key_offsets[row + 1] > len(hashes) or key >= key_offsets[row + 1]:
            return False
        hashes[key] = key_hash(data, own[ID], own[ID_END])
        keys, keys_end = own[KEYS], own[KEYS_END]
        word = keys
        for place in range(keys, keys_end + 1):
            if place == keys_end or data[place] == 32:
                if place > word:
                    key += 1
                    if key >= key_offsets[row + 1]:
                        return False
                    hashes[key] = key_hash(data, word, place)
                word = place + 1
    return True

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

from dueline.byte_kernels import put_bytes, u32
from dueline.compiled import BYTES, kernel
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


@kernel(f"UniTuple(int64, 2)({BYTES}, int64, int64, {BYTES})")
def _value(data: Bytes8, start: int, end: int, name: Bytes8) -> tuple[int, int]:
    """Where the value of a property is, the first of its name; an empty range if there is none."""
    at = start
    while at < end:
        stop = at
        while stop < end and data[stop] != 2:
            stop += 1
        if stop - at >= len(name):
            is_same = True
            for place in range(len(name)):
                if data[at + place] != name[place]:
                    is_same = False
                    break
            if is_same:
                return at + len(name), stop
        at = stop + 1
    return end, end


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


@kernel(f"void({BYTES}, int64[::1], int64[::1], int64[::1], int64[::1])")
def measure(
    data: Bytes8, offsets: Int64s, topic_sizes: Int64s, sizes: Int64s, key_counts: Int64s
) -> None:
    """How long each record's copy will be, and how many key hashes it has; -1 for unusual ones.

    Args:
        topic_sizes: of the topic that each copy goes to.
        sizes, key_counts: written.
    """
    for row in range(len(sizes)):
        sizes[row] = -1
        key_counts[row] = 0
        start, end = offsets[row], offsets[row + 1]
        if topic_sizes[row] < 1 or not is_usual(data, start, end):
            continue
        tail = start + HEADER_SIZE + u32(data, start + 84)
        text = tail + 1 + data[tail] + 2
        tag, tag_end = _value(data, text, end, _TAGS)
        is_plain = True
        for at in range(tag, tag_end):
            if data[at] >= 128:
                is_plain = False
        if not is_plain:
            continue
        keys, keys_end = _value(data, text, end, _KEYS)
        sizes[row] = end - start + topic_sizes[row] - np.int64(data[tail])
        key_counts[row] = 1 + _word_count(data, keys, keys_end)


@kernel("void(uint8[::1], int64, int64, int64, int64, int64, int64)")
def _stamp(
    out: Bytes8, to: int, size: int, tail: int, queue_id: int, origin: int, due_ms: int
) -> None:
    """Write what is new in the header of a copy at out[to : to + size], and its check."""
    for place in range(16):
        out[to + 20 + place] = 0
    mark = np.int64(7) << 60 | origin
    for place in range(8):
        shift = 56 - 8 * place
        out[to + 56 + place] = due_ms >> shift & 255
        out[to + 76 + place] = mark >> shift & 255
        if place < 4:
            out[to + place] = size >> (24 - 8 * place) & 255
            out[to + 12 + place] = queue_id >> (24 - 8 * place) & 255
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


@kernel(
    f"boolean({BYTES}, int64[::1], {BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1], uint32[::1])"
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
    out: Bytes8,
    out_offsets: Int64s,
    key_offsets: Int64s,
    tags_code: Int64s,
    hashes: npt.NDArray[np.uint32],
) -> bool:
    """Write the copies of records that `measure` has measured; False if something does not fit.

    Args:
        topics: all names; row i goes to the one at topic_offsets[topic[i]].
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
        at = to + tail - start
        put_bytes(out, to, data, start, tail)
        out[at] = name_end - name
        put_bytes(out, put_bytes(out, at + 1, topics, name, name_end), data, properties, end)
        _stamp(out, to, size, at, queue_id[row], origin[row], due_ms[row])
        text = properties + 2
        tag, tag_end = _value(data, text, end, _TAGS)
        tags_code[row] = _tag_code(data, tag, tag_end)
        key = key_offsets[row]
        if key < 0 or key_offsets[row + 1] > len(hashes) or key >= key_offsets[row + 1]:
            return False
        own, own_end = _value(data, text, end, _UNIQ_KEY)
        hashes[key] = key_hash(data, own, own_end)
        keys, keys_end = _value(data, text, end, _KEYS)
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

"""Array functions over record bytes: no Python loop over rows, but for checksums (`crc_kernels`).

Bytes live in one uint8 array `data`; rows are given by int64 arrays of starts, ends or sizes.
Arrow arrays come and go without a copy where Arrow allows it. Every function is pure and safe from
any thread.

The trick behind most of them: Arrow's *binary view* layout is an array of (size, prefix, buffer,
offset), which numpy can fill for slices anywhere in a buffer; casting it to `binary` then copies
in C.
"""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline import compiled
from dueline.message import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6
from dueline.store.layout import HEADER_SIZE, HOST_V6_EXTRA, RECONSUME_TIMES_AT, STORE_MS_AT
from dueline.store.record import MARK_CHECK_MASK

__all__ = [
    "CRC_KERNELS",
    "HEADER_DTYPE",
    "Int32s",
    "Int64s",
    "body_crcs",
    "body_starts",
    "born_extra",
    "buffer_of",
    "crc32_list",
    "fixed_rows",
    "fold_headers",
    "fold_words",
    "gather",
    "headers",
    "join",
    "lengths_of",
    "offsets_of",
    "padded",
    "read_only",
    "slices",
    "tail_checks",
    "windows",
]

Bytes8 = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

CRC_KERNELS: Final = "dueline.store.crc_kernels"
"""Compiled, where that is possible."""

HEADER_DTYPE: Final = np.dtype(
    [
        ("size", ">u4"),
        ("magic", ">u4"),
        ("crc", ">u4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("position", ">i8"),
        ("sys_flag", ">i4"),
        ("born_ms", ">i8"),
        ("born_host", "V8"),
        ("store_ms", ">i8"),
        ("store_host", "V8"),
        ("reconsume_times", ">i4"),
        ("mark", ">u8"),
        ("body_size", ">u4"),
    ]
)
assert HEADER_DTYPE.itemsize == HEADER_SIZE
_WIDE_HOSTS: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6

_VIEW_DTYPE: Final = np.dtype(
    [("size", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("offset", "<i4")]
)
_INLINE_MAX: Final = 12
# 16-bit words of the header that the check covers: not queueOffset, position and mark.
_CHECKED_WORDS: Final = np.r_[0:10, 18:38, 42:44]


def windows(data: Bytes8, width: int) -> Bytes8:
    """All `width`-byte windows of `data` as an overlapping view: row i is data[i : i + width]."""
    return np.lib.stride_tricks.as_strided(
        data, shape=(max(len(data) - width + 1, 0), width), strides=(1, 1), writeable=False
    )


def gather(
    buffers: list[Any], buffer_index: Int32s, offsets: Int32s, sizes: Int32s
) -> pa.BinaryArray:
    """Whole records (which start with their big-endian size) from several buffers; one copy."""
    views = np.empty(len(sizes), dtype=_VIEW_DTYPE)
    views["size"] = sizes
    views["prefix"] = sizes.byteswap().view(np.uint32)
    views["buffer"] = buffer_index
    views["offset"] = offsets
    return _from_views(views, buffers)


def slices(data: Bytes8, starts: Int64s, sizes: Int64s) -> pa.BinaryArray:
    """data[start : start + size] of each row as a binary array; a copy."""
    views = np.zeros(len(starts), dtype=_VIEW_DTYPE)
    views["size"] = sizes
    views["offset"] = starts
    short = np.flatnonzero(sizes <= _INLINE_MAX)
    if len(short):
        raw = views.view(np.uint8).reshape(len(starts), 16)
        raw[short, 4:16] = _inline(data, starts[short], sizes[short])
    return _from_views(views, [pa.py_buffer(data)])


def _inline(data: Bytes8, starts: Int64s, sizes: Int64s) -> Bytes8:
    """Short values as Arrow keeps them inside a view: 12 bytes, zeros behind the value."""
    return padded(data, starts, sizes, _INLINE_MAX)


def padded(data: Bytes8, starts: Int64s, sizes: Int64s, width: int) -> Bytes8:
    """Values of at most `width` bytes as rows of an n x width array, zeros behind each; a copy."""
    if len(data) < width:
        data = np.pad(data, (0, width - len(data)))
    last = len(data) - width  # a window must not reach beyond the data
    rows = windows(data, width)[np.minimum(starts, last)]
    for row in np.flatnonzero(starts > last).tolist():
        tail = data[starts[row] : starts[row] + sizes[row]]
        rows[row, : len(tail)] = tail
    masks = np.where(np.arange(width) < np.arange(width + 1)[:, None], 255, 0).astype(np.uint8)
    rows &= masks[sizes]
    return rows


def _from_views(views: npt.NDArray[Any], buffers: list[Any]) -> pa.BinaryArray:
    array = pa.Array.from_buffers(
        pa.binary_view(), len(views), [None, pa.py_buffer(views), *buffers]
    )
    return array.cast(pa.binary())


def buffer_of(array: pa.BinaryArray) -> tuple[Bytes8, Int64s]:
    """The value bytes and the n + 1 offsets of a binary or string array; views, no copy."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type):
        offset_type: type[Any] = np.int64
    else:
        offset_type = np.int32
    _, offset_buffer, value_buffer = array.buffers()
    if not len(array):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    offsets = np.frombuffer(offset_buffer, dtype=offset_type)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if value_buffer is None:
        return np.empty(0, dtype=np.uint8), offsets
    return np.frombuffer(value_buffer, dtype=np.uint8), offsets


def read_only(data: Bytes8) -> Bytes8:
    """A view of bytes that nobody writes to, which is what compiled readers want."""
    view = data.view()
    view.flags.writeable = False
    return view


def lengths_of(lists: pa.ListArray) -> Int64s:
    """How many items each row of a list array has."""
    offsets: Int64s = np.asarray(lists.offsets, dtype=np.int64)
    return offsets[1:] - offsets[:-1]


def offsets_of(sizes: Int64s) -> Int64s:
    """Running starts of rows with these sizes, and their total at the end."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def fixed_rows(rows: npt.NDArray[Any]) -> pa.BinaryArray:
    """An array of n fixed-width items (structured, or n x w bytes) as n binary values; no copy."""
    rows = np.ascontiguousarray(rows)
    count = len(rows)
    width = rows.nbytes // count if count else 0
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows.view(np.uint8))]
    )


def join(*parts: Any) -> pa.BinaryArray:
    """Row-wise concatenation of binary arrays and scalars."""
    return pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")


def headers(data: Bytes8, starts: Int64s) -> npt.NDArray[Any]:
    """The header fields of the records at `starts` (HEADER_DTYPE, a copy).

    Fields behind a wide (IPv6) host are found where they are; `born_host` and `store_host` of such
    rows hold only the first 8 bytes. A record that says it has wide hosts but is too short for them
    (it is damaged) is left as it stands.
    """
    rows = np.ascontiguousarray(windows(data, HEADER_SIZE)[starts]).view(HEADER_DTYPE)[:, 0]
    wide = np.flatnonzero(rows["sys_flag"] & _WIDE_HOSTS)
    wide = wide[body_starts(rows[wide], starts[wide]) <= len(data)]
    if len(wide):
        raw = rows.view(np.uint8).reshape(len(rows), HEADER_SIZE)
        store_at = starts[wide] + STORE_MS_AT + born_extra(rows[wide])
        last_at = body_starts(rows[wide], starts[wide]) - HEADER_SIZE + RECONSUME_TIMES_AT
        raw[wide, STORE_MS_AT:RECONSUME_TIMES_AT] = windows(data, 16)[store_at]
        raw[wide, RECONSUME_TIMES_AT:] = windows(data, 16)[last_at]
    return rows


def born_extra(rows: npt.NDArray[Any]) -> Int64s:
    """How much longer than an IPv4 one the born host of each header's record is."""
    is_wide = rows["sys_flag"] & SYS_BORN_HOST_V6 != 0
    return np.where(is_wide, HOST_V6_EXTRA, 0).astype(np.int64)


def body_starts(rows: npt.NDArray[Any], starts: Int64s) -> Int64s:
    """Where the bodies of the records at `starts` with these headers begin."""
    is_wide = rows["sys_flag"] & SYS_STORE_HOST_V6 != 0
    store_extra = np.where(is_wide, HOST_V6_EXTRA, 0)
    result: Int64s = starts + HEADER_SIZE + born_extra(rows) + store_extra
    return result


def fold_words(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """XOR of the four 16-bit words of each number."""
    values = values ^ values >> np.uint64(32)
    values = values ^ values >> np.uint64(16)
    return values.astype(np.uint16)


def fold_headers(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """The header's part of each record's check; rows with IPv4 hosts only."""
    words = np.ascontiguousarray(rows).view(">u2").reshape(len(rows), HEADER_SIZE // 2)
    folded = np.bitwise_xor.reduce(words[:, _CHECKED_WORDS], axis=1).astype(np.uint16)
    marks = rows["mark"].astype(np.uint64) & np.uint64(~MARK_CHECK_MASK & 0xFFFFFFFFFFFFFFFF)
    result: npt.NDArray[np.uint16] = folded ^ fold_words(marks)
    return result


def tail_checks(data: Bytes8, starts: Int64s, ends: Int64s) -> npt.NDArray[np.uint16]:
    """The check over topic and properties (with their sizes) of each row."""
    crcs = _crc32s(data, starts, ends)
    folded = crcs ^ crcs >> np.uint64(5) ^ crcs >> np.uint64(8)
    result: npt.NDArray[np.uint16] = folded.astype(np.uint16)
    return result


def body_crcs(data: Bytes8, starts: Int64s, ends: Int64s) -> npt.NDArray[np.uint32]:
    """CRC-32 of each body with the sign bit cleared."""
    return (_crc32s(data, starts, ends) & np.uint64(0x7FFFFFFF)).astype(np.uint32)


def _crc32s(data: Bytes8, starts: Int64s, ends: Int64s) -> npt.NDArray[np.uint64]:
    crc_kernels = compiled.ready(CRC_KERNELS)
    if crc_kernels is None:
        return np.array(crc32_list(data, starts, ends), dtype=np.uint64)
    found = np.empty(len(starts), dtype=np.uint32)
    rows = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    crc_kernels.crcs(np.ascontiguousarray(data), *rows, found)
    return found.astype(np.uint64)


def crc32_list(data: Bytes8, starts: Int64s, ends: Int64s) -> list[int]:
    """CRC-32 of each slice of `data`, with a call for each."""
    view = data.data
    return [
        crc32(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]

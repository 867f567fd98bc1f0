"""Packed records among many that were read of a delay log, made into those they stand for.

`LogReader.gather` passes everything through here, so nobody else knows that there are two forms. A
packed record that is damaged is left as it is: the reader's checks say so.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from dueline import compiled
from dueline.errors import CorruptRecord, LimitExceeded
from dueline.store import kernels, packed
from dueline.store import record as records
from dueline.store.kernels import Int64s

__all__ = ["UNPACKING_KERNELS", "expanded", "expanded_from"]

UNPACKING_KERNELS: Final = "dueline.store.unpacking_kernels"

_WAIT_ROWS_MIN: Final = 20_000
"""For so many rows it is worth while to wait until kernels are loaded: interpreted, each takes ten
microseconds."""
_BYTES_MAX: Final = 2**31 - 1
_MAGIC: Final = np.frombuffer(packed.MAGIC.to_bytes(4, "big"), dtype=np.uint8)


def expanded(batch: pa.BinaryArray, positions: Int64s) -> pa.BinaryArray:
    """The records of a batch, each as any record is kept.

    Args:
        positions: where each of them was read.

    Raises:
        LimitExceeded: together they are too much for one array; ask for fewer.
    """
    data, offsets = kernels.buffer_of(batch)
    if not _has_packed(data, offsets[:-1], offsets[1:]):
        return batch
    functions = _functions(len(batch))
    if functions is None:
        return _interpreted(batch, positions)
    return _compiled(functions, data, offsets[:-1], offsets[1:], positions)


def expanded_from(
    data: kernels.Bytes8, starts: Int64s, sizes: Int64s, positions: Int64s
) -> pa.BinaryArray | None:
    """The same of records at some places of a segment; None: there is nothing to expand, or no
    compiled code.

    Raises:
        LimitExceeded: together they are too much for one array; ask for fewer.
    """
    ends = starts + sizes
    if not _has_packed(data, starts, ends):
        return None
    functions = _functions(len(starts))
    return None if functions is None else _compiled(functions, data, starts, ends, positions)


def _has_packed(data: kernels.Bytes8, starts: Int64s, ends: Int64s) -> bool:
    """Is one of the rows packed, as its magic says?"""
    starts = starts[ends - starts >= packed.SIZE_MIN]
    if not bool((data[starts + 4] == _MAGIC[0]).any()):
        return False
    return bool((kernels.windows(data, 4)[starts + 4] == _MAGIC).all(axis=1).any())


def _functions(row_count: int) -> Any | None:
    functions = compiled.ready(UNPACKING_KERNELS)
    if functions is None and row_count >= _WAIT_ROWS_MIN and compiled.load([UNPACKING_KERNELS]):
        functions = compiled.ready(UNPACKING_KERNELS)
    return functions


def _compiled(
    functions: Any, data: kernels.Bytes8, starts: Int64s, ends: Int64s, positions: Int64s
) -> pa.BinaryArray:
    data = kernels.read_only(data)
    rows = [np.ascontiguousarray(each, dtype=np.int64) for each in (starts, ends, positions)]
    sizes = np.empty(len(positions), dtype=np.int64)
    total = _checked(functions.measure(data, *rows, sizes))
    out = np.empty(total, dtype=np.uint8)
    if functions.expand(data, *rows, sizes, out) != total:
        raise AssertionError("records have another size than was measured")
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(np.abs(sizes), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def _interpreted(batch: pa.BinaryArray, positions: Int64s) -> pa.BinaryArray:
    rows = [
        _unpacked(data, position)
        for data, position in zip(batch.to_pylist(), positions.tolist(), strict=True)
    ]
    _checked(sum(map(len, rows)))
    return pa.array(rows, pa.binary())


def _unpacked(data: bytes, position: int) -> bytes:
    """The record that some bytes stand for, or the bytes themselves."""
    if not records.is_packed(data) or int.from_bytes(data[:4], "big") != len(data):
        return data
    try:
        return records.unpacked(memoryview(data), position)
    except CorruptRecord:
        return data


def _checked(total: int) -> int:
    if total > _BYTES_MAX:
        raise LimitExceeded(
            f"records: expected at most {_BYTES_MAX} bytes at once, found {total}; ask for fewer",
            limit=_BYTES_MAX,
            found=total,
        )
    return total

"""The usual rows of a table as records, by kernels: what `dueline.store.bulk` does, quicker.

A table without a map of properties is made into rows of numbers (`dueline.message_rows`), which
the kernel writes that also writes what clients send together (`dueline.store.block`). What it does
not know, and what must be refused, is left to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline import compiled
from dueline.message import HOST_UNKNOWN, UniqueIds
from dueline.message_rows import (
    HOST_SIZE_MAX,
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_BORN_MS,
    ROW_HEAD,
    ROW_ID_END,
    ROW_ID_START,
    ROW_KEYS_END,
    ROW_KEYS_START,
    ROW_LEVEL,
    ROW_WIDTH,
)
from dueline.store import kernels
from dueline.store.block import BLOCK_KERNELS, KIND_LEVEL, KIND_TIMER
from dueline.store.kernels import Int32s, Int64s
from dueline.store.layout import HEADER_SIZE, HOST_SIZE
from dueline.store.restore import check_rows

__all__ = ["BULK_KERNELS", "BulkRows", "Written", "written"]

BULK_KERNELS: Final = "dueline.store.bulk_kernels"

_HOSTS: Final = np.frombuffer(HOST_UNKNOWN.ljust(HOST_SIZE_MAX, b"\0"), dtype=np.uint8)[None, :]
_HOST_SIZES: Final = np.array([len(HOST_UNKNOWN)], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRows:
    """What is known of rows: topics are `names[topic[i]]`, columns as SCHEDULE has them."""

    columns: Mapping[str, Any]
    due_ms: Int64s
    level: Int32s
    names: list[str]
    topic: Int32s
    queue_id: Int32s


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Sealed records in `data`, and what is found in them."""

    data: npt.NDArray[np.uint8]
    sizes: Int64s
    key_hashes: pa.ListArray
    unique_ids: pa.BinaryArray


def written(rows: BulkRows, *, now_ms: int, ids: UniqueIds, store_host: bytes) -> Written | None:
    """The records of rows, without what the log decides; None: the kernels cannot say.

    Raises:
        InvalidRequest: properties that no record can hold; names the first row.
    """
    bulk_kernels, block_kernels = map(compiled.ready, (BULK_KERNELS, BLOCK_KERNELS))
    if bulk_kernels is None or block_kernels is None or "properties" in rows.columns:
        return None
    count = len(rows.due_ms)
    data, offsets = kernels.buffer_of(rows.columns["body"])
    texts = [*_text(rows, "unique_id"), *_text(rows, "keys"), *_text(rows, "tags")]
    heads, topics, head = _heads(rows)
    table = np.zeros((count, ROW_WIDTH), dtype=np.int64)
    table[:, ROW_BODY_START], table[:, ROW_BODY_END] = offsets[:-1], offsets[1:]
    table[:, ROW_HEAD], table[:, ROW_LEVEL] = head, rows.level
    table[:, ROW_BORN_MS] = now_ms
    prefix = np.frombuffer(ids.prefix.encode(), dtype=np.uint8)
    text_sizes, sizes = np.empty((2, count), dtype=np.int64)
    fixed_size = HEADER_SIZE - HOST_SIZE + len(store_host)
    total = bulk_kernels.measure(
        *texts,
        *(len(prefix), rows.due_ms, heads, fixed_size, len(data), table, text_sizes, sizes),
    )
    if total < 0:
        return None
    check_rows(np.ones(count, dtype=np.int64), text_sizes)
    made = np.empty(total, dtype=np.uint8)
    is_done = bulk_kernels.write_texts(*texts, prefix, ids.take(count), table, made)
    assert is_done, "what was measured fits"
    keys_sizes = table[:, ROW_KEYS_END] - table[:, ROW_KEYS_START]
    hash_count = int(((keys_sizes + 1) // 2).sum()) + count
    hashes, owners = np.empty(hash_count, dtype=np.uint32), np.empty(hash_count, dtype=np.int64)
    out = np.empty(int(sizes.sum()), dtype=np.uint8)
    numbers = np.arange(count, dtype=np.int64)  # for positions, so that hashes have their row
    hash_count = block_kernels.write_records(
        *(data, made, table, heads, topics, _HOSTS, _HOST_SIZES),
        *(np.frombuffer(store_host, dtype=np.uint8), numbers),
        *(np.where(rows.level > 0, KIND_LEVEL, KIND_TIMER), rows.due_ms, sizes),
        *(numbers, np.zeros(count, dtype=np.int64), 0, 0, 0, out, hashes, owners),
    )
    assert hash_count >= 0, "what was measured fits"
    counts = np.bincount(owners[:hash_count], minlength=count)
    return Written(
        data=out,
        sizes=sizes,
        key_hashes=pa.ListArray.from_arrays(
            pa.array(kernels.offsets_of(counts).astype(np.int32)), pa.array(hashes[:hash_count])
        ),
        unique_ids=kernels.slices(
            made, table[:, ROW_ID_START], table[:, ROW_ID_END] - table[:, ROW_ID_START]
        ),
    )


def _text(rows: BulkRows, name: str) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """A column's bytes and offsets; empty texts where there is none."""
    column = rows.columns.get(name)
    if column is None or column.null_count == len(column):
        return np.empty(0, dtype=np.uint8), np.zeros(len(rows.due_ms) + 1, dtype=np.int64)
    return kernels.buffer_of(pc.fill_null(column, "") if column.null_count else column)


def _heads(rows: BulkRows) -> tuple[Int64s, npt.NDArray[np.uint8], Int64s]:
    """Pairs of topic and queue as `block` has them, the topics' bytes, and each row's pair."""
    names = [name.encode() for name in rows.names]
    offsets = kernels.offsets_of(np.array([len(name) for name in names], dtype=np.int64)).tolist()
    pairs = rows.topic.astype(np.int64) << 32 | rows.queue_id
    distinct, head = np.unique(pairs, return_inverse=True)
    table = [
        (pair & 0xFFFFFFFF, 0, 0, 0, offsets[pair >> 32], offsets[(pair >> 32) + 1], 0)
        for pair in distinct.tolist()
    ]
    heads = np.array(table, dtype=np.int64).reshape(len(table), 7)
    return heads, np.frombuffer(b"".join(names), dtype=np.uint8), head

"""The usual rows of a table as records, by kernels: what `dueline.store.bulk` does, quicker.

A table without a map of properties is first measured: how long its records will be, which is all
that a log has to know to say where they go. When that is decided, the rows are made into rows of
numbers (`dueline.message_rows`), which the kernel writes that also writes what clients send
together (`dueline.store.block`). So a record is written once, complete, into memory that the caller
uses again for the next rows. What the kernels do not know, and what must be refused, is left to the
caller.
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
from dueline.message import HOST_UNKNOWN, TIMER_TOPIC, UniqueIds
from dueline.message_rows import (
    HOST_SIZE_MAX,
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_BORN_MS,
    ROW_HEAD,
    ROW_KEYS_END,
    ROW_KEYS_START,
    ROW_LEVEL,
    ROW_WIDTH,
)
from dueline.store import kernels
from dueline.store.block import BLOCK_KERNELS, KIND_LEVEL, KIND_TIMER
from dueline.store.kernels import Int32s, Int64s
from dueline.store.layout import HEADER_SIZE, HOST_SIZE, HOST_V6_EXTRA, RECORD_SIZE_MIN
from dueline.store.packed import PLACE_WIDTH
from dueline.store.record import MARK_DELAYED, MARK_GROUP
from dueline.store.restore import check_rows

__all__ = ["BULK_KERNELS", "BulkRows", "Finished", "Places", "UsualRows", "made_ids"]

BULK_KERNELS: Final = "dueline.store.bulk_kernels"

_HOSTS: Final = np.frombuffer(HOST_UNKNOWN.ljust(HOST_SIZE_MAX, b"\0"), dtype=np.uint8)[None, :]
_HOST_SIZES: Final = np.array([len(HOST_UNKNOWN)], dtype=np.int64)
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)


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
class Places:
    """What the log has decided of rows: row i is the message `first_seq + i`."""

    positions: Int64s
    queue_offsets: Int64s
    store_ms: int
    first_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Whole records, one after the other, and the hashes of their keys; `owners` are positions."""

    data: npt.NDArray[np.uint8]
    hashes: npt.NDArray[np.uint32]
    owners: Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """Rows of numbers, and how many bytes the texts of all rows have."""

    table: npt.NDArray[np.int64]
    heads: Int64s
    topics: npt.NDArray[np.uint8]
    text_sizes: Int64s
    sizes: Int64s
    packings: Int64s
    total: int

    @property
    def size_bytes_max(self) -> int:
        """About the largest record's size once it is a commit log's."""
        sizes = self.table[:, ROW_BODY_END] - self.table[:, ROW_BODY_START] + self.text_sizes
        return RECORD_SIZE_MIN + HOST_V6_EXTRA + len(TIMER_TOPIC) + int(sizes.max(initial=0))


class UsualRows:
    """Rows that were measured; `finish` writes their records."""

    def __init__(  # noqa: PLR0913 - what is known of rows, most of it keyword-only
        self,
        kernels_of: tuple[Any, Any],
        rows: BulkRows,
        measured: _Measured,
        *,
        now_ms: int,
        ids: UniqueIds,
        store_host: bytes,
    ) -> None:
        """`kernels_of` are those of rows and of records."""
        self._kernels = kernels_of
        self._rows = rows
        self._now_ms = now_ms
        self._prefix = ids.prefix
        self._first_id = ids.take(len(measured.sizes))
        self._store_host = store_host
        self.sizes: Final = measured.sizes
        self.room_bytes: Final = int(measured.sizes.sum())
        self.size_bytes_max: Final = measured.size_bytes_max
        self.due_ms: Final = rows.due_ms
        self.level: Final = rows.level
        self.topic: Final = rows.topic
        self.names: Final = rows.names
        self.queue_id: Final = rows.queue_id

    @classmethod
    def of(
        cls, rows: BulkRows, *, now_ms: int, ids: UniqueIds, store_host: bytes
    ) -> UsualRows | None:
        """Measure rows; None: the kernels cannot say.

        Raises:
            InvalidRequest: properties that no record can hold; names the first row.
        """
        bulk_kernels, block_kernels = map(compiled.ready, (BULK_KERNELS, BLOCK_KERNELS))
        if bulk_kernels is None or block_kernels is None or "properties" in rows.columns:
            return None
        measured = _measured(bulk_kernels, rows, now_ms, len(ids.prefix), len(store_host))
        if measured is None:
            return None
        check_rows(np.ones(len(rows.due_ms), dtype=np.int64), measured.text_sizes)
        both = bulk_kernels, block_kernels
        return cls(both, rows, measured, now_ms=now_ms, ids=ids, store_host=store_host)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def unique_ids(self) -> pa.Array:
        """Those that were given, and those that are made."""
        made = made_ids(self._prefix, self._first_id, len(self))
        given = self._rows.columns.get("unique_id")
        if given is None:
            return made
        is_given = pc.greater(pc.binary_length(given), 0)
        return pc.if_else(pc.fill_null(is_given, False), given.cast(pa.binary()), made)

    def finish(self, places: Places, room: npt.NDArray[np.uint8]) -> Finished:
        """Write the records to the beginning of `room`, which has `room_bytes` or more."""
        bulk_kernels, block_kernels = self._kernels
        rows, prefix = self._rows, np.frombuffer(self._prefix.encode(), dtype=np.uint8)
        found = _measured(bulk_kernels, rows, self._now_ms, len(prefix), len(self._store_host))
        assert found is not None, "the rows are those that were measured"
        data, _ = kernels.buffer_of(rows.columns["body"])
        made = np.empty(found.total, dtype=np.uint8)
        is_done = bulk_kernels.write_texts(*_texts(rows), prefix, self._first_id, found.table, made)
        assert is_done, "what was measured fits"
        key_sizes = found.table[:, ROW_KEYS_END] - found.table[:, ROW_KEYS_START]
        hash_count = int(((key_sizes + 1) // 2).sum()) + len(self)
        hashes, owners = np.empty(hash_count, np.uint32), np.empty(hash_count, np.int64)
        out = room[: self.room_bytes]
        mark = MARK_DELAYED | MARK_GROUP | places.first_seq
        hash_count = block_kernels.write_records(
            *(data, made, found.table, found.heads, found.topics, _HOSTS, _HOST_SIZES),
            *(np.frombuffer(self._store_host, dtype=np.uint8), np.arange(len(self))),
            *(np.where(rows.level > 0, KIND_LEVEL, KIND_TIMER), rows.due_ms, self.sizes),
            *(found.packings,),
            *(places.positions, places.queue_offsets, places.store_ms, mark, 1),
            *(out, hashes, owners),
        )
        assert hash_count >= 0, "what was measured fits"
        return Finished(data=out, hashes=hashes[:hash_count], owners=owners[:hash_count])


def made_ids(prefix: str, first: int, count: int) -> pa.BinaryArray:
    """The unique ids that a maker gives to rows without one."""
    start = np.frombuffer(prefix.encode(), dtype=np.uint8)
    numbers = (np.arange(count, dtype=np.uint64) + np.uint64(first)).astype(">u8")
    raw = numbers.view(np.uint8).reshape(count, 8)[:, 2:]
    rows = np.empty((count, len(start) + 12), dtype=np.uint8)
    rows[:, : len(start)] = start
    rows[:, len(start) :: 2] = _HEX[raw >> 4]
    rows[:, len(start) + 1 :: 2] = _HEX[raw & 15]
    return kernels.fixed_rows(rows)


def _measured(
    bulk_kernels: Any, rows: BulkRows, now_ms: int, prefix_size: int, store_host_size: int
) -> _Measured | None:
    """None: a row that must be refused, or looked at."""
    count = len(rows.due_ms)
    data, offsets = kernels.buffer_of(rows.columns["body"])
    heads, topics, head = _heads(rows)
    table = np.zeros((count, ROW_WIDTH), dtype=np.int64)
    table[:, ROW_BODY_START], table[:, ROW_BODY_END] = offsets[:-1], offsets[1:]
    table[:, ROW_HEAD], table[:, ROW_LEVEL] = head, rows.level
    table[:, ROW_BORN_MS] = now_ms
    text_sizes, sizes = np.empty((2, count), dtype=np.int64)
    packings = np.empty((count, PLACE_WIDTH), dtype=np.int64)
    total = bulk_kernels.measure(
        *(*_texts(rows), prefix_size, rows.due_ms, heads),
        *(HEADER_SIZE - HOST_SIZE + store_host_size, len(data), store_host_size == HOST_SIZE),
        *(table, text_sizes, sizes, packings),
    )
    if total < 0:
        return None
    return _Measured(
        table=table,
        heads=heads,
        topics=topics,
        text_sizes=text_sizes,
        sizes=sizes,
        packings=packings,
        total=total,
    )


def _texts(rows: BulkRows) -> tuple[Any, ...]:
    """Bytes and offsets of unique ids, keys and tags."""
    return (*_text(rows, "unique_id"), *_text(rows, "keys"), *_text(rows, "tags"))


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

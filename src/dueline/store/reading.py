"""Reading what consumers may see: by queue offset, by position, by key, by time.

Records come back as views of the mapped log, in RocketMQ's layout, ready to be sent as they are.
Any thread may read at any time; only finding a queue and looking up keys takes the store's lock,
for moments.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import CorruptRecord, NotFound
from dueline.message import decode_properties, key_words
from dueline.store import layout, restore
from dueline.store import record as records
from dueline.store.core import Core
from dueline.store.properties import key_hash
from dueline.store.record import Record
from dueline.store.schema import STORED_SCHEMA, empty_batch
from dueline.store.stretch import Mask, Stretch

__all__ = ["ReadResult", "ReadStatus", "Reader"]

AT_HAND_SIZE_BYTES_MAX: Final = 256 << 10

Accept = Callable[[npt.NDArray[np.int64]], Mask]


class ReadStatus(enum.Enum):
    """Why a read returned what it did."""

    FOUND = "found"
    NO_MATCH = "no match"  # units were read, none was accepted
    AT_END = "at end"  # nothing there yet
    BEFORE_START = "before start"
    BEYOND_END = "beyond end"


class ReadResult(NamedTuple):
    """Records and where to go on; `damaged` are offsets whose record fails its checks."""

    status: ReadStatus
    next_offset: int
    start: int
    end: int
    chunks: Sequence[memoryview] = ()
    """The records as they are sent, one or more in each."""
    damaged: Sequence[int] = ()

    @property
    def records(self) -> list[memoryview]:
        """Each record by itself."""
        return [view for chunk in self.chunks for view in layout.split(chunk)]


class Reader:
    """The reading side of a store."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def offset_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first offset that exists and the next one to be written; (0, 0) for no queue."""
        queue = self._core.queues.get(topic, queue_id)
        return (0, 0) if queue is None else (queue.start, queue.end)

    def is_at_hand(self, topic: str, queue_id: int, offset: int, *, count_max: int) -> bool:
        """Would a read find what it needs in memory, as far as can be told without a wait?"""
        queue = self._core.queues.get(topic, queue_id)
        if queue is None or not queue.start <= offset < queue.end:
            return True
        if queue.needs_file(offset, count_max):
            return False
        units = queue.read(offset, count_max)
        if not len(units):  # gone meanwhile
            return True
        first, last = units[[0, -1]].tolist()
        start, end = first[0], last[0] + last[1]
        log = self._core.commit
        base = log.base_of(start)
        if not 0 < end - start <= AT_HAND_SIZE_BYTES_MAX or end > base + log.segment_size_bytes:
            return False
        try:
            return log.file_of(base).is_cached(start - base, end - base)
        except NotFound:
            return False

    def read(  # noqa: PLR0913 - a place and its limits, the limits keyword-only
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int = 32,
        size_bytes_max: int = 256 * 1024,
        accept: Accept | None = None,
    ) -> ReadResult:
        """Records from `offset` on, at least one if there is one.

        Args:
            accept: which tags codes are wanted; None: all.
        """
        queue = self._core.queues.get(topic, queue_id)
        start, end = (0, 0) if queue is None else (queue.start, queue.end)
        if queue is None or not start <= offset < end:
            return _outside(offset, start, end)
        units = queue.read(offset, count_max)
        wanted = None if accept is None else accept(units["tags_code"].astype(np.int64))
        stretch = Stretch(self._core, units, wanted, offset, size_bytes_max)
        stretch.run()
        return ReadResult(
            status=ReadStatus.FOUND if stretch.chunks else ReadStatus.NO_MATCH,
            chunks=stretch.chunks,
            next_offset=offset + stretch.row,
            start=start,
            end=end,
            damaged=stretch.damaged,
        )

    def read_rows(
        self, topic: str, queue_id: int, offset: int, *, count_max: int, size_bytes_max: int
    ) -> tuple[pa.RecordBatch, int]:
        """Many records at once (STORED_SCHEMA), and the offset to go on from.

        Offsets whose record is damaged or gone are left out. At the queue's end there are no rows
        and the offset stays.
        """
        queue = self._core.queues.get(topic, queue_id)
        offset = offset if queue is None else max(offset, queue.start)
        if queue is None or offset >= queue.end:
            return empty_batch(STORED_SCHEMA), offset
        units = queue.read(offset, count_max)
        total = np.cumsum(units["size"], dtype=np.int64)
        count = max(1, int(np.searchsorted(total, size_bytes_max, side="right")))
        positions = units["position"][:count].astype(np.int64)
        found = self._core.commit.gather(positions, units["size"][:count].astype(np.int32))
        offsets = np.arange(offset, offset + len(positions), dtype=np.int64)
        batch = pa.RecordBatch.from_arrays([pa.array(offsets), found], schema=STORED_SCHEMA)
        bad = restore.damaged(batch)
        sound = batch.filter(pa.array(~bad)) if bool(bad.any()) else batch
        return sound, offset + len(positions)

    def record_at(self, position: int) -> Record:
        """The commit-log record at a position.

        Raises:
            NotFound: no record stands there.
        """
        return read_record(self._core.commit, position)

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The first offset whose message became visible at or after a time; the end if none did."""
        queue = self._core.queues.get(topic, queue_id)
        if queue is None:
            return 0
        low, high = queue.start, queue.end
        while low < high:
            middle = (low + high) // 2
            if self._store_ms(int(queue.read(middle, 1)["position"][0])) < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def _store_ms(self, position: int) -> int:
        return layout.store_ms_of(self._core.commit.read(position, layout.STORE_MS_END))

    def query(  # noqa: PLR0913 - the limits of a search
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = 1 << 62,
        count_max: int = 64,
        size_bytes_max: int = 1 << 62,
    ) -> list[Record]:
        """Visible messages of a topic with this key or unique id, the newest first.

        Args:
            size_bytes_max: of all records; one alone may be larger.
        """
        with self._core.lock:
            positions = self._core.commit_keys.find(key_hash(key))
        found: list[Record] = []
        size_bytes = 0
        for position in positions:
            try:
                record = self.record_at(position)
            except NotFound:
                continue
            if record.topic.decode("utf-8", "replace") != topic or not has_key(record, key):
                continue
            if begin_ms <= record.store_ms <= end_ms and is_shown(self._core, record):
                size_bytes += record.size_bytes
                if found and size_bytes > size_bytes_max:
                    break
                found.append(record)
                if len(found) >= count_max:
                    break
        return found


def read_record(log: records.LogLike, position: int) -> Record:
    """Decode the record at a position of a log.

    Raises:
        NotFound: no sound record stands there.
    """
    try:
        size = log.size_at(position)
        return records.decode(
            log.read(position, size), position=position, is_foreign=log.is_foreign
        )
    except (CorruptRecord, ValueError, OverflowError) as error:
        raise NotFound(
            f"position {position}: expected a record, found none ({error})", position=position
        ) from error


def is_shown(core: Core, record: Record) -> bool:
    """Does a queue point at this record? Not if it waits at the gate or was cancelled there."""
    queue = core.queues.get(record.topic.decode("utf-8", "replace"), record.queue_id)
    if queue is None:
        return False
    units = queue.read(record.queue_offset, 1)
    return len(units) == 1 and int(units["position"][0]) == record.position


def has_key(record: Record, key: str) -> bool:
    """Is this one of the record's keys, or its unique id?"""
    properties = decode_properties(record.properties)
    return properties.get("UNIQ_KEY") == key or key in key_words(properties.get("KEYS", ""))


def _outside(offset: int, start: int, end: int) -> ReadResult:
    if offset == end:
        status, next_offset = ReadStatus.AT_END, offset
    elif offset < start:
        status, next_offset = ReadStatus.BEFORE_START, start
    else:
        status, next_offset = ReadStatus.BEYOND_END, end
    return ReadResult(status=status, next_offset=next_offset, start=start, end=end)

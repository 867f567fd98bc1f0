"""What is in a store, as streams of rows: what waits, and what consumers can read.

Nothing is remembered between calls and nothing is locked for long: a table is read in parts, each
as it is at its moment. A message that becomes due while a job reads may be in what waits, in what
was delivered, in both or, if it was cancelled, in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dueline.broker.delayed_states import states_of
from dueline.broker.waiting.ledger import ledger
from dueline.errors import InvalidRequest
from dueline.store import Store, Window
from dueline.store.corner import SEQ_MAX
from dueline.store.kernels import Int32s
from dueline.store.schema import WAITING_SCHEMA
from dueline.store.survey import Survey, Waiting

__all__ = ["QueueRange", "TimeRange", "Views", "row_parts", "rows_of"]

CHUNK_ROWS: Final = 16_384
CHUNK_BYTES: Final = 16 << 20
SCAN_ROWS: Final = 1 << 16
SLICE_COUNT_MAX: Final = 10_000
_BUCKET_MS: Final = 60_000
_EVERY_ROW: Final = SEQ_MAX
_WAITING: Final = ("pending", "carried over")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Due times [start_ms, end_ms)."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange:
    """Offsets [start, end) of one queue."""

    queue_id: int
    start: int
    end: int


class Views:
    """The rows of one store; any thread may read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def window(self, window: Window) -> Iterator[pa.RecordBatch]:
        """WINDOW rows of units that a plan has."""
        parts = row_parts(window.units.size)
        return (self._store.read_window(rows_of(window, part)) for part in parts)

    # What waits

    def plan_pending(
        self, start_ms: int, end_ms: int, *, slice_count_max: int, slice_row_count_min: int
    ) -> list[TimeRange]:
        """Ranges of due time with about equal numbers of messages."""
        if slice_row_count_min < 1 or slice_count_max < 1:
            raise InvalidRequest(
                "slices: expected 1 or more, and 1 or more rows in each, found "
                f"{slice_count_max} and {slice_row_count_min}"
            )
        _check(start_ms, end_ms)
        survey = self._store.survey()
        counts = {
            bucket_ms: count
            for bucket_ms, count in survey.pending_by_bucket(_BUCKET_MS, with_gate=True).items()
            if bucket_ms + _BUCKET_MS > start_ms and bucket_ms < end_ms
        }
        total = sum(counts.values())
        if not total:
            return []
        count_max = min(slice_count_max, SLICE_COUNT_MAX)
        part_count = max(1, min(count_max, total // slice_row_count_min))
        cuts = [start_ms]
        seen = 0
        for bucket_ms, count in counts.items():
            if seen >= total * len(cuts) / part_count and start_ms < bucket_ms < end_ms:
                cuts.append(bucket_ms)
            seen += count
        ends = [*cuts[1:], end_ms]
        return [
            TimeRange(start_ms=start, end_ms=end) for start, end in zip(cuts, ends, strict=True)
        ]

    def pending(
        self,
        start_ms: int,
        end_ms: int,
        *,
        topics: Collection[str] | None = None,
        row_count_max: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """WAITING rows in due order; of all that waits only a part is in memory at a time.

        Args:
            row_count_max: the first so many; None: all.
        """
        _check(start_ms, end_ms)
        survey = self._store.survey()
        left = _EVERY_ROW if row_count_max is None else row_count_max
        wanted = None
        if topics is not None:
            wanted = np.array([name in topics for name in survey.topic_names] or [False])
        slabs = survey.slabs(
            start_ms=max(start_ms, 0),
            end_ms=min(end_ms, SEQ_MAX),
            topics=wanted,
            step=SCAN_ROWS if wanted is not None else max(min(SCAN_ROWS, left), 1),
        )
        for rows, _ in slabs:
            if left <= 0:
                return
            rows = rows.take(slice(0, left))
            left -= len(rows)
            for part in row_parts(rows.units.size):
                yield _waiting(survey, rows.take(part))

    def found(
        self, key: str, is_seen: Callable[[str], bool] = lambda topic: True
    ) -> Iterator[pa.RecordBatch]:
        """WAITING rows of what waits under a key, in topics that the caller may see."""
        found = self._store.find_delayed(key)
        rows = {
            message.seq: (message, state)
            for message, state in zip(found, states_of(found), strict=True)
            if state in _WAITING and is_seen(message.topic)
        }
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "origin": seq,
                    "due_ms": message.due_ms,
                    "topic": message.topic,
                    "queue_id": message.queue_id,
                    "record": message.record.encode(),
                    "state": state,
                }
                for seq, (message, state) in sorted(rows.items())
            ],
            schema=WAITING_SCHEMA,
        )

    def ledger(self) -> Iterator[pa.RecordBatch]:
        """LEDGER rows: every delayed message within retention, with its outcome."""
        return ledger(self._store)

    # What consumers can read

    def list_queues(
        self, topic: str, *, start_ms: int | None = None, end_ms: int | None = None
    ) -> list[QueueRange]:
        """A topic's queues with the offsets that became visible in a time range."""
        queues = []
        for queue_id in self._store.queue_ids(topic):
            start, end = self._store.offset_range(topic, queue_id)
            if start_ms is not None:
                start = max(start, self._store.search_offset(topic, queue_id, start_ms))
            if end_ms is not None:
                end = min(end, self._store.search_offset(topic, queue_id, end_ms))
            if start < end:
                queues.append(QueueRange(queue_id=queue_id, start=start, end=end))
        return sorted(queues, key=lambda queue: queue.queue_id)

    def messages(
        self, topic: str, queue_id: int, *, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        """STORED rows of a queue; offsets whose record is damaged or gone are left out."""
        offset = start
        while offset < end:
            batch, following = self._store.read_rows(
                topic,
                queue_id,
                offset,
                count_max=min(CHUNK_ROWS, end - offset),
                size_bytes_max=CHUNK_BYTES,
            )
            if following == offset:
                return
            offset = following
            if following > end:  # what it began with is gone: rows may be beyond the end
                batch = batch.filter(pc.less(batch.column("queue_offset"), end))
            yield batch


def row_parts(sizes: Int32s) -> Iterator[slice]:
    """Rows of these sizes in parts of bounded rows and bytes; a single row may be larger."""
    ends = np.cumsum(sizes, dtype=np.int64)
    start = 0
    while start < len(ends):
        base = int(ends[start - 1]) if start else 0
        end = max(int(np.searchsorted(ends, base + CHUNK_BYTES, side="right")), start + 1)
        end = min(end, start + CHUNK_ROWS)
        yield slice(start, end)
        start = end


def _waiting(survey: Survey, rows: Waiting) -> pa.RecordBatch:
    """WAITING rows; without those whose record has gone since the survey."""
    units = rows.units
    names = pa.array(survey.topic_names, pa.string())
    states = pa.array(_WAITING, pa.string())
    records = survey.records(rows)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(units.seq),
            pa.array(units.due_ms),
            names.take(pa.array(units.topic)),
            pa.array(units.queue_id),
            records,
            states.take(pa.array(rows.is_at_gate.astype(np.int32))),
        ],
        schema=WAITING_SCHEMA,
    )
    return batch.filter(pc.greater(pc.binary_length(records), 0))


def rows_of(window: Window, rows: slice | np.ndarray) -> Window:
    """Some rows of a window."""
    return Window(end=window.end, units=window.units.take(rows), topic_names=window.topic_names)


def _check(start_ms: int, end_ms: int) -> None:
    if not -1 << 62 <= start_ms <= end_ms <= 1 << 62:
        raise InvalidRequest(f"time range: expected start before end, found {start_ms} to {end_ms}")

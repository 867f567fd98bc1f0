"""Taking records that RocketMQ wrote into a store's logs, whole batches at a time.

    adopt_visible     commit log, under their own topics and queues, in the order they come
    adopt_waiting     delay log, each with its due time

Body, properties, tags, keys, unique id, born time and host, flags and the number of attempts stay
as they are: the bytes are copied, not read and written again. What a log decides is new: position,
store time (now), store host, queue offset and mark. A message that waits gets one more property,
TIMER_OUT_MS, which says its due time to the millisecond, whatever level it had.

A batch is one atomic group: after a crash all of it is there or nothing, so that the number of
messages that are there says which. The store must have no other writer meanwhile.

`begin` lets queues that are new here begin at another offset than 0, as they stood elsewhere, so
that offsets which consumers keep for themselves go on to mean the same messages. It is durable
when it returns; recovery knows where such a queue begins from the checkpoint, or else from the
offsets in its records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.message import TIMER_TOPIC
from dueline.schedule import DUE_NAME, REAL_QUEUE_NAME, REAL_TOPIC_NAME
from dueline.store import control, kernels, properties, stamp
from dueline.store.append import Append
from dueline.store.bulk import Bulk
from dueline.store.core import Core
from dueline.store.kernels import Int64s
from dueline.store.layout import BORN_MS_AT, HEADER_SIZE
from dueline.store.record import MARK_GROUP, MARK_PRESENT
from dueline.store.record_columns import RecordColumns

__all__ = ["Adopter", "waiting_rows"]

_DUE_START: Final = DUE_NAME.encode() + b"\x01"
_SIZED_TIMER_TOPIC: Final = bytes((len(TIMER_TOPIC),)) + TIMER_TOPIC.encode()


class Adopter:
    """The adopting side of a store."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def begin(
        self, firsts: Mapping[tuple[str, int], int], checkpoint: Callable[[], None]
    ) -> dict[tuple[str, int], int]:
        """Let queues that are new begin at the given offsets; returns the next offset of each."""
        core = self._core
        found = {}
        with core.commit_lock, core.lock, core.closing_on_failure():
            core.check_open()
            if any(firsts.values()):
                # Fillers point to position 0. If that is before the log's beginning, RocketMQ
                # knows where such a queue begins; otherwise it takes them for messages.
                core.commit.skip_first_segment()
            for name, first in firsts.items():
                number = core.queues.number_of(*name)
                if core.queues.by_number(number).end == 0:
                    core.queues.begin(number, first)
                found[name] = core.queues.by_number(number).end
        checkpoint()
        return found

    def append(self, records: pa.BinaryArray) -> int:
        """Append sound records without a mark as one group; returns how many."""
        core = self._core
        rows = _VisibleRows(records)
        with core.commit_lock:
            core.check_open()
            with Append(core, core.commit, rows.sizes, numbers=control.NO_NUMBERS) as append:
                with core.lock:
                    store_ms = append.stamp()
                    numbers = rows.queue_numbers(core)
                    core.open_gate_before(np.unique(numbers).tolist(), store_ms)
                    offsets = core.queues.next_offsets(numbers)
                stamp.restamp(
                    rows.data,
                    rows.starts,
                    positions=append.positions,
                    store_ms=np.full(len(numbers), store_ms, dtype=np.int64),
                    queue_offsets=offsets,
                    store_host=core.store_host,
                )
                append.write(rows.data)
                with core.indexing():
                    self._index(rows, numbers, append.positions)
                    core.note_shown(store_ms)
        return len(numbers)

    def _index(self, rows: _VisibleRows, numbers: Int64s, positions: Int64s) -> None:
        core = self._core
        core.queues.append(numbers, positions, rows.sizes.astype(np.int32), rows.tags_codes)
        hashes, owners = rows.columns.key_hashes()
        core.commit_keys.add(hashes, positions[owners], position_end=core.commit.end)
        core.notify(np.unique(numbers).tolist())


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A copy of records' bytes that may be changed, and where each begins."""

    data: npt.NDArray[np.uint8]
    offsets: Int64s

    @classmethod
    def of(cls, records: pa.BinaryArray) -> _Bytes:
        data, offsets = kernels.buffer_of(records)
        return cls(data[offsets[0] : offsets[-1]].copy(), offsets - offsets[0])

    def seal(self) -> None:
        """Give every record a mark that says it belongs to a group."""
        count = len(self.offsets) - 1
        stamp.seal(
            self.data,
            self.offsets[:-1],
            self.offsets[1:],
            marks=np.full(count, MARK_PRESENT | MARK_GROUP, dtype=np.uint64),
            store_ms=np.zeros(count, dtype=np.int64),
        )


class _VisibleRows:
    """Records for the commit log: all they need is a mark and their place."""

    def __init__(self, records: pa.BinaryArray) -> None:
        self.columns = RecordColumns(records)
        copied = _Bytes.of(records)
        copied.seal()
        self.data = copied.data
        self.starts = copied.offsets[:-1]
        self.sizes: Int64s = np.diff(copied.offsets)
        self.tags_codes = properties.tags_codes(properties.values(self.columns.texts, "TAGS"))

    def queue_numbers(self, core: Core) -> Int64s:
        """The small number of each row's queue."""
        topics = self.columns.topics.dictionary_encode()
        names = [name.decode("ascii") for name in topics.dictionary.to_pylist()]
        pairs = np.stack(
            [topics.indices.to_numpy().astype(np.int64), self.columns.headers["queue_id"]], axis=1
        )
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        numbers = [
            core.queues.number_of(names[topic], queue_id) for topic, queue_id in distinct.tolist()
        ]
        return np.array(numbers, dtype=np.int64)[inverse.reshape(-1)]


def waiting_rows(records: pa.BinaryArray, due_ms: Int64s, *, store_host: bytes) -> Bulk:
    """Delayed records of RocketMQ, which name their real topic and queue, as rows to put."""
    columns = RecordColumns(records)
    texts = _with_due(columns.texts, due_ms)
    made = _Bytes.of(_records(records, columns, texts))
    made.seal()
    starts = made.offsets[:-1]
    stamp.restamp(
        made.data,
        starts,
        positions=np.zeros(len(starts), dtype=np.int64),
        store_ms=np.zeros(len(starts), dtype=np.int64),
        store_host=store_host,
    )
    topics = properties.values(texts, REAL_TOPIC_NAME).dictionary_encode()
    queue_ids = properties.values(texts, REAL_QUEUE_NAME)
    unique_ids = properties.values(texts, "UNIQ_KEY")
    return Bulk(
        data=made.data,
        starts=starts,
        sizes=np.diff(made.offsets),
        due_ms=due_ms,
        level=np.zeros(len(starts), dtype=np.int32),
        topic=topics.indices.to_numpy().astype(np.int32),
        names=[name.decode("ascii") for name in topics.dictionary.to_pylist()],
        queue_id=queue_ids.cast(pa.string()).cast(pa.int32()).to_numpy(),
        key_hashes=properties.key_hashes(unique_ids, properties.values(texts, "KEYS")),
        unique_ids=unique_ids,
    )


def _with_due(texts: pa.BinaryArray, due_ms: Int64s) -> pa.BinaryArray:
    """Property strings that say the due time, and say it once."""
    had = pc.match_substring(texts, _DUE_START).to_numpy(zero_copy_only=False)
    if bool(had.any()):
        cleaned = [
            b"\x02".join(entry for entry in text.split(b"\x02") if not entry.startswith(_DUE_START))
            for text in texts.to_pylist()
        ]
        texts = pa.array(cleaned, pa.binary())
    due = pa.array(due_ms).cast(pa.string()).cast(pa.binary())
    return kernels.join(_DUE_START, due, b"\x02", texts)


def _records(
    records: pa.BinaryArray, columns: RecordColumns, texts: pa.BinaryArray
) -> pa.BinaryArray:
    """The records with the timer's topic and queue, and these properties."""
    data, offsets = kernels.buffer_of(records)
    starts, ends = offsets[:-1], offsets[1:]
    headers = columns.headers.copy()
    body_at = kernels.body_starts(headers, starts)
    body_end = body_at + headers["body_size"].astype(np.int64)
    text_sizes = pc.binary_length(texts).to_numpy()
    headers["queue_id"] = 0
    headers["size"] = body_end - starts + len(_SIZED_TIMER_TOPIC) + 2 + text_sizes
    raw = headers.view(np.uint8).reshape(len(headers), HEADER_SIZE)
    middles_at = starts + BORN_MS_AT
    middles = kernels.slices(data, middles_at, body_end - middles_at)
    assert bool((ends > body_end).all())
    return kernels.join(
        kernels.fixed_rows(np.ascontiguousarray(raw[:, :BORN_MS_AT])),
        middles,
        pa.scalar(_SIZED_TIMER_TOPIC, pa.binary()),
        kernels.fixed_rows(text_sizes.astype(">u2")),
        texts,
    )

"""Putting messages into the logs: one at a time, together, and as tables.

    put        one message
    put_all    a list with one write and one fsync per log; each message is answered on its own
    put_many   an Arrow table, all or nothing

A message is answered when it is on disk (`flush = sync`). A refused message changes nothing: all
that can be refused is refused before the first byte is written. If a write fails all the same, its
messages are answered with `StoreFailed`, and those that were written before it as accepted. What
is written together is one group: a power cut leaves all of it or nothing, and no hole between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from dueline.errors import BrokerError
from dueline.message import DELAY_LOG_MARK, Message, message_id
from dueline.store import bulk, control, kernels, singles
from dueline.store.append import Append
from dueline.store.core import Core
from dueline.store.draft import Draft, encode_all, prepare
from dueline.store.kernels import Int64s
from dueline.store.log import Log
from dueline.store.record import MARK_DELAYED, MARK_GROUP, reference
from dueline.store.run import Units
from dueline.store.states import MOVED

__all__ = ["Admit", "PutManyResult", "PutResult", "Putter"]

ENCODER_COUNT: Final = 2
"""Threads that encode a large table: more would take the processor from what is due."""

Admit = Callable[[Mapping[str, int]], None]
"""May rows go to these topics? Given the highest queue id of each; raises if not."""


class PutResult(NamedTuple):  # a tuple: one is made for every single put
    """Where an accepted message stands, and when it is due (None: at once)."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    store_ms: int
    store_host: bytes
    unique_id: str
    due_ms: int | None = None
    seq: int | None = None

    @property
    def message_id(self) -> str:
        """The offset id; it says which log the message stands in."""
        mark = 0 if self.seq is None else DELAY_LOG_MARK
        return message_id(self.store_host, self.position | mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutManyResult:
    """An accepted table: its rows have the acceptance numbers [first_seq, first_seq + count)."""

    first_seq: int
    count: int
    unique_ids: pa.Array
    due_ms: Int64s


class Putter:
    """The writing side of a store."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def put(self, message: Message) -> PutResult:
        """Accept one message; returns when it is durable."""
        (answer,) = self.put_all([message])
        if isinstance(answer, BrokerError):
            raise answer
        return answer

    def check(self, message: Message) -> None:
        """Refuse a message that cannot be stored; nothing is changed."""
        core = self._core
        draft = prepare(message, now_ms=core.clock.now_ms(), rules=core.rules, ids=core.ids)
        core.check_size(draft.size_bytes(core.store_host), is_delayed=draft.due is not None)

    def put_all(self, messages: Sequence[Message]) -> list[PutResult | BrokerError]:
        """Accept messages together; a refused one is answered with its error.

        Raises:
            StoreClosed: nothing can be written; none of the messages was.
        """
        core = self._core
        core.check_open()
        now_ms = core.clock.now_ms()
        answers: list[Any] = [None] * len(messages)
        ordinary: list[Draft] = []
        delayed: list[Draft] = []
        ordinary_numbers: list[int] = []
        delayed_numbers: list[int] = []
        rules, ids, host = core.rules, core.ids, core.store_host
        for number, message in enumerate(messages):
            try:
                draft = prepare(message, now_ms=now_ms, rules=rules, ids=ids)
                is_delayed = draft.due is not None
                core.check_size(draft.size_bytes(host), is_delayed=is_delayed)
            except BrokerError as error:
                answers[number] = error
                continue
            (delayed if is_delayed else ordinary).append(draft)
            (delayed_numbers if is_delayed else ordinary_numbers).append(number)
        results = self._put_drafts(ordinary, delayed)
        for number, result in zip(ordinary_numbers + delayed_numbers, results, strict=True):
            answers[number] = result
        return answers

    def _put_drafts(
        self, ordinary: list[Draft], delayed: list[Draft]
    ) -> list[PutResult | BrokerError]:
        """Write both kinds, each to its log, or refuse all of them: a batch may hold both."""
        core = self._core
        results: list[PutResult | BrokerError] = []
        with (
            core.commit_lock if ordinary else contextlib.nullcontext(),
            core.delay_lock if delayed else contextlib.nullcontext(),
        ):
            core.check_open()
            try:
                core.room.check_send()
                if ordinary and delayed:
                    core.reserve(core.delay, self._end_of(core.delay, delayed))
                for drafts, write in (
                    (ordinary, self._put_ordinary),
                    (delayed, self._put_delayed),
                ):
                    if drafts:
                        results += write(drafts)
            except BrokerError as error:
                results += [error] * (len(ordinary) + len(delayed) - len(results))
        return results

    def _end_of(self, log: Log, drafts: list[Draft]) -> int:
        """Where a log would end with these messages."""
        sizes = self._sizes(drafts)
        if len(drafts) > 1:
            sizes.append(control.encoded_size(0))
        return log.place(sizes)[1]

    def _sizes(self, drafts: list[Draft]) -> list[int]:
        host = self._core.store_host
        return [draft.size_bytes(host) for draft in drafts]

    def _put_ordinary(self, drafts: list[Draft]) -> list[PutResult]:
        """Append to the commit log; the caller holds its lock."""
        core = self._core
        host = core.store_host
        sizes = self._sizes(drafts)
        numbers, flags = (control.NO_NUMBERS, MARK_GROUP) if len(drafts) > 1 else (None, 0)
        with Append(core, core.commit, sizes, numbers=numbers) as append:
            places = append.positions
            with core.lock:
                store_ms = append.stamp()
                rows = singles.queue_rows(core, drafts)
                core.open_gate_before(rows, store_ms)
                offsets = singles.take_offsets(core, rows, len(drafts))
            append.write(
                encode_all(
                    drafts,
                    positions=places,
                    queue_offsets=offsets,
                    marks=[
                        flags | reference(draft.message.prepared_position, place)
                        for draft, place in zip(drafts, places, strict=True)
                    ],
                    store_ms=store_ms,
                    store_host=host,
                )
            )
            with core.indexing():
                singles.index(core, rows, drafts, places, sizes)
                core.note_shown(store_ms)
        return [
            PutResult(draft.topic, draft.queue_id, offset, place, store_ms, host, draft.unique_id)
            for draft, place, offset in zip(drafts, places, offsets, strict=True)
        ]

    def _put_delayed(
        self, drafts: list[Draft], *, replaced: Int64s | None = None
    ) -> list[PutResult]:
        """Append to the delay log; with `replaced`, as one group that cancels those numbers.

        The caller holds the log's lock.
        """
        core = self._core
        host = core.store_host
        sizes = self._sizes(drafts)
        count = len(drafts)
        if replaced is None and count > 1:
            replaced = control.NO_NUMBERS
        flags = MARK_DELAYED if replaced is None else MARK_DELAYED | MARK_GROUP
        with Append(core, core.delay, sizes, numbers=replaced) as append:
            places = append.positions
            store_ms = append.stamp()
            first_seq = core.next_seq
            offsets = [self._next_delay_offset(draft) for draft in drafts]
            append.write(
                encode_all(
                    drafts,
                    positions=places,
                    queue_offsets=offsets,
                    marks=[flags | seq for seq in range(first_seq, first_seq + count)],
                    store_ms=store_ms,
                    store_host=host,
                )
            )
            with core.indexing():
                core.next_seq += count
                dues = [self._due_ms(draft, store_ms) for draft in drafts]
                self._index_delayed(drafts, dues, places, sizes, first_seq)
                core.note_accepted(store_ms)
        return [
            PutResult(
                *(draft.topic, draft.queue_id, offset, place, store_ms, host, draft.unique_id),
                due_ms=due,
                seq=seq,
            )
            for seq, (draft, place, offset, due) in enumerate(
                zip(drafts, places, offsets, dues, strict=True), start=first_seq
            )
        ]

    def _index_delayed(
        self,
        drafts: list[Draft],
        dues: list[int],
        places: list[int],
        sizes: list[int],
        first_seq: int,
    ) -> None:
        """Let the timeline and the key index know of records that are durable."""
        core = self._core
        end = first_seq + len(drafts)
        positions = np.array(places, dtype=np.int64)
        core.note_segments(positions, first_seq)
        topics = [core.timeline.topics.number_of(draft.topic) for draft in drafts]
        units = Units(
            due_ms=np.array(dues, dtype=np.int64),
            seq=np.arange(first_seq, end, dtype=np.int64),
            position=positions,
            size=np.array(sizes, dtype=np.int32),
            topic=np.array(topics, dtype=np.int32),
            queue_id=np.array([draft.queue_id for draft in drafts], dtype=np.int32),
        )
        core.timeline.add(units, end=end, position_end=core.delay.end)
        keys = singles.key_rows(drafts, places)
        core.delay_keys.add(*keys, position_end=core.delay.end)

    def _next_delay_offset(self, draft: Draft) -> int:
        name = f"{draft.log_topic}/{draft.log_queue_id}"
        offset = self._core.delay_queues.get(name, 0)
        self._core.delay_queues[name] = offset + 1
        return offset

    def _due_ms(self, draft: Draft, store_ms: int) -> int:
        assert draft.due is not None
        if draft.due.level:
            return store_ms + self._core.rules.levels.delay_ms(draft.due.level)
        return draft.due.due_ms

    def put_many(self, table: pa.Table, admit: Admit | None = None) -> PutManyResult:
        """Accept a table of messages (see `dueline.store.bulk`), all of them or none.

        Raises:
            InvalidRequest, LimitExceeded: names the first bad row; nothing was changed.
        """
        self._core.check_open()
        now_ms = self._core.clock.now_ms()
        try:
            parts = self._encode_parts(table, now_ms)
        except BrokerError:
            self._encode(table, now_ms)  # refuses it too, and counts rows from the table's first
            raise
        if admit is not None:
            admit(_last_queue_ids(parts))
        return self._put_parts(parts)

    def _encode_parts(self, table: pa.Table, now_ms: int) -> list[bulk.Bulk]:
        """Encode a table in parts, several at a time: nearly all of it needs no interpreter."""
        part_rows = self._core.options.thresholds.part_rows
        tables = [
            table.slice(start, part_rows) for start in range(0, max(table.num_rows, 1), part_rows)
        ]
        if len(tables) == 1:
            return [self._encode(table, now_ms)]
        with ThreadPoolExecutor(ENCODER_COUNT, thread_name_prefix="encoder") as encoders:
            return list(encoders.map(lambda part: self._encode(part, now_ms), tables))

    def _encode(self, table: pa.Table, now_ms: int) -> bulk.Bulk:
        core = self._core
        return bulk.encode(
            table, now_ms=now_ms, rules=core.rules, ids=core.ids, store_host=core.store_host
        )

    def put_encoded(self, rows: bulk.Bulk) -> PutManyResult:
        """Append encoded rows as one group."""
        return self._put_parts([rows])

    def replace_encoded(
        self, rows: bulk.Bulk, replaced: Int64s, forget: Callable[[Int64s, int], None]
    ) -> PutManyResult:
        """Append encoded rows in place of earlier numbers, which are forgotten with it."""
        return self._put_parts([rows], replaced, lambda: forget(replaced, MOVED))

    def _put_parts(
        self,
        parts: Sequence[bulk.Bulk],
        replaced: Int64s = control.NO_NUMBERS,
        forget: Callable[[], None] = lambda: None,
    ) -> PutManyResult:
        core = self._core
        count = sum(len(part) for part in parts)
        unique_ids = pa.concat_arrays([part.unique_ids for part in parts])
        if not count:
            empty = np.empty(0, dtype=np.int64)
            return PutManyResult(
                first_seq=core.next_seq, count=0, unique_ids=unique_ids, due_ms=empty
            )
        with core.delay_lock:
            core.check_open()
            core.room.check_send()
            sizes = np.concatenate([part.sizes for part in parts])
            core.check_size(int(sizes.max()), is_delayed=True)
            with Append(core, core.delay, sizes, numbers=replaced) as append:
                positions = append.positions
                store_ms = append.stamp()
                first_seq = core.next_seq
                due_ms = self._stamp(parts, positions, store_ms)
                append.write(*(part.data for part in parts))
                with core.indexing():
                    core.next_seq += count
                    core.note_segments(positions, first_seq)
                    units = self._units(parts, positions, sizes, due_ms, first_seq)
                    core.timeline.add(units, end=first_seq + count, position_end=core.delay.end)
                    hashes, owners = _flat_hashes([part.key_hashes for part in parts])
                    core.delay_keys.add(hashes, positions[owners], position_end=core.delay.end)
                    core.note_accepted(store_ms)
                    forget()
        return PutManyResult(first_seq=first_seq, count=count, unique_ids=unique_ids, due_ms=due_ms)

    def _stamp(self, parts: Sequence[bulk.Bulk], positions: Int64s, store_ms: int) -> Int64s:
        """Fill in what the log decided, before anything is written; returns the due times."""
        core = self._core
        delays_ms = np.array(core.rules.levels.delays_ms, dtype=np.int64)
        dues = []
        seq = core.next_seq
        for part, own in _cut(parts, positions):
            dues.append(
                part.stamp(
                    positions=own,
                    queue_offsets=self._take_delay_offsets(part),
                    store_ms=store_ms,
                    first_seq=seq,
                    level_delays_ms=delays_ms,
                )
            )
            seq += len(part)
        return np.concatenate(dues)

    def _units(
        self,
        parts: Sequence[bulk.Bulk],
        positions: Int64s,
        sizes: Int64s,
        due_ms: Int64s,
        first_seq: int,
    ) -> Units:
        topics = self._core.timeline.topics
        numbers = [
            np.array([topics.number_of(name) for name in part.names], dtype=np.int32)[part.topic]
            for part in parts
        ]
        return Units(
            due_ms=due_ms,
            seq=np.arange(first_seq, first_seq + len(positions), dtype=np.int64),
            position=positions,
            size=sizes.astype(np.int32),
            topic=np.concatenate(numbers),
            queue_id=np.concatenate([part.queue_id for part in parts]),
        )

    def _take_delay_offsets(self, rows: bulk.Bulk) -> Int64s:
        """Queue offsets within SCHEDULE_TOPIC_XXXX/level - 1, or the timer topic's one queue."""
        offsets = np.empty(len(rows), dtype=np.int64)
        for level in np.unique(rows.level).tolist():
            chosen = rows.level == level
            name = f"SCHEDULE_TOPIC_XXXX/{level - 1}" if level else "rmq_sys_wheel_timer/0"
            first = self._core.delay_queues.get(name, 0)
            count = int(np.count_nonzero(chosen))
            offsets[chosen] = np.arange(first, first + count)
            self._core.delay_queues[name] = first + count
        return offsets

    def replace(self, drafts: list[Draft], replaced: Int64s) -> list[PutResult]:
        """Append delayed messages in place of earlier ones, as one group."""
        with self._core.delay_lock:
            self._core.check_open()
            self._core.room.check_send()
            return self._put_delayed(drafts, replaced=replaced)


def _last_queue_ids(parts: Sequence[bulk.Bulk]) -> dict[str, int]:
    """The highest queue id of each topic."""
    last: dict[str, int] = {}
    for part in parts:
        highest = np.zeros(len(part.names), dtype=np.int32)
        np.maximum.at(highest, part.topic, part.queue_id)
        for name, queue_id in zip(part.names, highest.tolist(), strict=True):
            last[name] = max(queue_id, last.get(name, 0))
    return last


def _cut(parts: Sequence[bulk.Bulk], positions: Int64s) -> Iterator[tuple[bulk.Bulk, Int64s]]:
    """Each part with its rows' positions."""
    start = 0
    for part in parts:
        yield part, positions[start : start + len(part)]
        start += len(part)


def _flat_hashes(parts: list[pa.ListArray]) -> tuple[Any, Int64s]:
    """All hashes and the row each belongs to."""
    lists = pa.concat_arrays(parts)
    owners = np.repeat(np.arange(len(lists), dtype=np.int64), kernels.lengths_of(lists))
    return lists.flatten().to_numpy(), owners

"""Putting messages into the logs: one at a time, and together.

    put        one message
    put_all    a list with one write and one fsync per log; each message is answered on its own

A message is answered when it is on disk (`flush = sync`). A refused message changes nothing: all
that can be refused is refused before the first byte is written. If a write fails all the same, its
messages are answered with `StoreFailed`, and those that were written before it as accepted. What
is written together is one group: a power cut leaves all of it or nothing, and no hole between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dueline.errors import BrokerError
from dueline.message import DELAY_LOG_MARK, Message, message_id
from dueline.store import control, singles
from dueline.store.append import Append
from dueline.store.core import Core
from dueline.store.draft import Draft, encode_all, encode_delayed, prepare
from dueline.store.kernels import Int64s
from dueline.store.log import Log
from dueline.store.record import MARK_DELAYED, MARK_GROUP, reference
from dueline.store.run import Units

__all__ = ["PutResult", "Putter"]


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
        """Where the delay log would end with these messages."""
        sizes = self._delayed_sizes(drafts)
        if len(drafts) > 1:
            sizes.append(control.encoded_size(0))
        return log.place(sizes)[1]

    def _sizes(self, drafts: list[Draft]) -> list[int]:
        host = self._core.store_host
        return [draft.size_bytes(host) for draft in drafts]

    def _delayed_sizes(self, drafts: list[Draft]) -> list[int]:
        host = self._core.store_host
        return [draft.delayed_size_bytes(host) for draft in drafts]

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
        sizes = self._delayed_sizes(drafts)
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
                encode_delayed(
                    drafts,
                    positions=places,
                    queue_offsets=offsets,
                    first_mark=flags | first_seq,
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

    def replace(self, drafts: list[Draft], replaced: Int64s) -> list[PutResult]:
        """Append delayed messages in place of earlier ones, as one group."""
        with self._core.delay_lock:
            self._core.check_open()
            self._core.room.check_send()
            return self._put_delayed(drafts, replaced=replaced)

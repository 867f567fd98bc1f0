"""Asking about delayed messages and changing one's mind: find, cancel, reschedule, count.

Every question about a message that may be delayed has a definite answer:

    cancelled      it will not be delivered (also if that was so before)
    rescheduled    it will be delivered at the new time, and only then
    delivered      too late: consumers may have seen it, or the transform dropped it
    unknown        no such message was ever accepted here, or it is too long ago

A message can be cancelled up to its due millisecond, also when it waits at the gate: what decides
is a control record in the delay log, and recovery drops a waiting record whose origin was
cancelled.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.message import (
    DELAY_LOG_MARK,
    HALF_TOPIC,
    Message,
    decode_properties,
    parse_message_id,
)
from dueline.schedule import Due
from dueline.store import control
from dueline.store.control import Control
from dueline.store.core import Core
from dueline.store.draft import prepare
from dueline.store.kernels import Int64s
from dueline.store.properties import key_hash
from dueline.store.reading import has_key, is_shown, read_record
from dueline.store.record import Record
from dueline.store.states import CANCELLED, DELIVERED, FORGOTTEN, PENDING
from dueline.store.writing import PutResult, Putter

__all__ = ["Answer", "Pending", "PendingMessage"]

_HALF = HALF_TOPIC.encode()
_SCHEDULE_NAMES = (
    "DELAY",
    "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS",
    "TIMER_DELIVER_MS",
    "TIMER_OUT_MS",
    "REAL_TOPIC",
    "REAL_QID",
)


class Answer(enum.Enum):
    """What became of a request to cancel or to reschedule."""

    CANCELLED = "cancelled"
    RESCHEDULED = "rescheduled"
    DELIVERED = "delivered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessage:
    """A delayed message that was found: what it is, when it is due, what became of it."""

    seq: int
    due_ms: int
    topic: str
    queue_id: int
    unique_id: str
    record: Record
    state: int
    is_at_gate: bool


class Pending:
    """The delayed messages of a store."""

    def __init__(self, core: Core, putter: Putter) -> None:
        self._core = core
        self._putter = putter

    # Finding

    def find(self, key: str) -> list[PendingMessage]:
        """Delayed messages with this key, unique id or offset id, the newest first.

        Also those that are done, as long as the store remembers what became of them. An offset id
        stands for the unique id of the message at its place, so that it still names the message
        after a reschedule has moved it to another place.
        """
        key = self._unique_id_at(key) or key
        with self._core.lock:
            positions = self._core.delay_keys.find(key_hash(key))
        found = []
        for position in positions:
            record = self._record_at(position)
            if record is None or not has_key(record, key):
                continue
            message = self._describe(record)
            if message.state != FORGOTTEN:
                found.append(message)
        return found

    def _unique_id_at(self, text: str) -> str | None:
        """The unique id of the delayed message that an offset id points at; None if it is none."""
        try:
            _, position = parse_message_id(text)
        except InvalidRequest:
            return None
        if not position & DELAY_LOG_MARK:
            return None
        record = self._record_at(position & ~DELAY_LOG_MARK)
        return None if record is None else decode_properties(record.properties).get("UNIQ_KEY")

    def _record_at(self, position: int) -> Record | None:
        try:
            record = read_record(self._core.delay, position)
        except NotFound:
            return None
        return record if record.seq is not None else None

    def _describe(self, record: Record) -> PendingMessage:
        properties = decode_properties(record.properties)
        seq = record.seq
        assert seq is not None
        with self._core.lock:
            state = self._core.timeline.states.one(seq)
            at_gate = state == DELIVERED and self._core.gate.holds(seq)
        return PendingMessage(
            seq=seq,
            due_ms=due_of_record(record, properties, self._core),
            topic=properties.get("REAL_TOPIC", ""),
            queue_id=int(properties.get("REAL_QID", "0")),
            unique_id=properties.get("UNIQ_KEY", ""),
            record=record,
            state=state,
            is_at_gate=at_gate,
        )

    # Cancelling

    def cancel(self, key: str) -> Answer:
        """Cancel every pending message with this key, unique id or offset id."""
        return self.cancel_many([key])[0]

    def cancel_many(self, keys: Sequence[str]) -> list[Answer]:
        """Cancel many at once, with one fsync; an answer per key."""
        found = [self.find(key) for key in keys]
        with self._core.commit_lock, self._core.delay_lock, self._core.gate_shut():
            self._core.check_open()
            with self._core.lock:
                answers = [self._answer(matches) for matches in found]
                seqs = np.array(
                    sorted(
                        {
                            match.seq
                            for matches, answer in zip(found, answers, strict=True)
                            if answer is None
                            for match in matches
                            if self._is_changeable(match.seq)
                        }
                    ),
                    dtype=np.int64,
                )
            if len(seqs):
                self._write_cancel(seqs)
        return [
            answer if answer is not None else self._unfound(key, matches)
            for key, matches, answer in zip(keys, found, answers, strict=True)
        ]

    def cancel_seqs(self, seqs: Int64s) -> Int64s:
        """Cancel by acceptance number; returns the numbers that were still changeable."""
        with self._core.commit_lock, self._core.delay_lock, self._core.gate_shut():
            self._core.check_open()
            with self._core.lock:
                chosen = np.array(
                    [seq for seq in np.unique(seqs).tolist() if self._is_changeable(seq)],
                    dtype=np.int64,
                )
            if len(chosen):
                self._write_cancel(chosen)
        return chosen

    def _answer(self, matches: list[PendingMessage]) -> Answer | None:
        """The answer if nothing can be changed; None if something can, or nothing was found."""
        if not matches or any(self._is_changeable(match.seq) for match in matches):
            return None
        state = self._core.timeline.states.one(matches[0].seq)
        return Answer.CANCELLED if state == CANCELLED else Answer.DELIVERED

    def _unfound(self, key: str, matches: list[PendingMessage]) -> Answer:
        if matches:
            return Answer.CANCELLED
        with self._core.lock:
            positions = self._core.commit_keys.find(key_hash(key))
        for position in positions:
            try:
                record = read_record(self._core.commit, position)
            except NotFound:
                continue
            if record.topic == _HALF:  # not delivered to anybody until it is committed
                continue
            if has_key(record, key) and is_shown(self._core, record):
                return Answer.DELIVERED
        return Answer.UNKNOWN

    def _is_changeable(self, seq: int) -> bool:
        """Pending, or carried over but not yet visible; the caller holds the lock."""
        core = self._core
        if seq >= core.timeline.end:
            return False
        state = core.timeline.states.one(seq)
        if state == PENDING:
            return True
        return state == DELIVERED and core.gate.holds(seq)

    def _write_cancel(self, seqs: Int64s) -> None:
        core = self._core
        tombstone = Control(kind=control.CANCEL, numbers=seqs)
        sizes = np.array([control.encoded_size(len(seqs))], dtype=np.int64)
        positions, end = core.delay.place(sizes)
        core.reserve(core.delay, end)
        data = control.encode(tombstone, position=int(positions[0]), store_ms=core.clock.now_ms())
        core.append(core.delay, positions, sizes, data)
        with core.lock:
            core.timeline.mark(seqs, CANCELLED)
            core.gate.remove(seqs)

    # Rescheduling

    def reschedule(self, key: str, due_ms: int) -> Answer:
        """Move every pending message with this key or id to a new due time."""
        return self.reschedule_many([(key, due_ms)])[0]

    def reschedule_many(self, requests: Sequence[tuple[str, int]]) -> list[Answer]:
        """Move many at once, as one group; an answer per request.

        Raises:
            LimitExceeded: a time further away than the configured maximum; nothing was changed.
        """
        core = self._core
        now_ms = core.clock.now_ms()
        for _, due_ms in requests:
            if due_ms - now_ms > core.rules.delay_max_ms:
                raise LimitExceeded(
                    f"delay: expected at most {core.rules.delay_max_ms} ms, "
                    f"found {due_ms - now_ms} ms",
                    limit=core.rules.delay_max_ms,
                    found=due_ms - now_ms,
                )
        found = [self.find(key) for key, _ in requests]
        with core.commit_lock, core.gate_shut():
            core.check_open()
            with core.lock:
                answers = [self._answer(matches) for matches in found]
                chosen: dict[int, tuple[PendingMessage, int]] = {}
                for matches, (_, due_ms) in zip(found, requests, strict=True):
                    for match in matches:
                        if self._is_changeable(match.seq):
                            chosen[match.seq] = (match, due_ms)
            if chosen:
                self._replace(list(chosen.values()), now_ms)
        return [
            answer
            if answer is not None
            else (Answer.RESCHEDULED if matches else self._unfound(key, matches))
            for (key, _), matches, answer in zip(requests, found, answers, strict=True)
        ]

    def _replace(self, chosen: list[tuple[PendingMessage, int]], now_ms: int) -> list[PutResult]:
        core = self._core
        drafts = [
            prepare(
                message_of(match.record),
                now_ms=now_ms,
                rules=core.rules,
                ids=core.ids,
                due=Due(due_ms=max(due_ms, now_ms), level=0),
            )
            for match, due_ms in chosen
        ]
        replaced = np.array(sorted(match.seq for match, _ in chosen), dtype=np.int64)
        results = self._putter.replace(drafts, replaced)
        with core.lock:
            core.timeline.mark(replaced, CANCELLED)
            core.gate.remove(replaced)
        return results

    # Counting

    def count(self) -> int:
        with self._core.lock:
            return self._core.timeline.pending_count()

    def count_by_bucket(self, bucket_ms: int, topic: str | None = None) -> dict[int, int]:
        """Pending messages by due time, in buckets of `bucket_ms`; empty buckets are left out."""
        if bucket_ms < 1:
            raise InvalidRequest(f"bucket: expected at least 1 ms, found {bucket_ms}")
        with self._core.lock:
            return self._core.timeline.pending_by_bucket(bucket_ms, topic)

    def count_by_topic(self) -> dict[str, int]:
        with self._core.lock:
            return self._core.timeline.pending_by_topic()


def message_of(record: Record) -> Message:
    """The message as its producer sent it, from a delayed or delivered record."""
    properties = decode_properties(record.properties)
    topic = properties.get("REAL_TOPIC", record.topic.decode("utf-8", "replace"))
    queue_id = int(properties.get("REAL_QID", str(record.queue_id)))
    for name in _SCHEDULE_NAMES:
        properties.pop(name, None)
    return Message(
        topic=topic,
        body=record.body,
        queue_id=queue_id,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times,
    )


def due_of_record(record: Record, properties: dict[str, str], core: Core) -> int:
    """When the delayed message in this record is due, from the record alone."""
    if "TIMER_OUT_MS" in properties:
        return max(int(properties["TIMER_OUT_MS"]), 0)
    level = int(properties.get("DELAY", "1"))
    return record.store_ms + core.levels_at(record.position).delay_ms(max(level, 1))

"""Asking about delayed messages and changing one's mind: find, cancel, reschedule, count.

Every question about a message that may be delayed has a definite answer:

    cancelled      it will not be delivered (also if that was so before)
    rescheduled    it will be delivered at the new time, and only then
    delivered      too late: consumers may have seen it, or the transform dropped it
    unknown        no such message was accepted here, or it was done longer ago than the commit log
                   is kept (`retention_ms`): so long a done message is remembered, by its record in
                   the delay log, in the commit log, or by `done_index.py`

A message can be cancelled up to its due millisecond, also when it waits at the gate: what decides
is a control record in the delay log, and recovery drops a waiting record whose origin was
cancelled.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dueline.errors import InvalidRequest, NotFound
from dueline.message import (
    DELAY_LOG_MARK,
    HALF_TOPIC,
    SYS_COMMIT,
    Message,
    decode_properties,
    key_words,
    parse_message_id,
    real_queue_id,
)
from dueline.schedule import REAL_QUEUE_NAME, REAL_TOPIC_NAME, WAITING_NAMES, Due, too_far
from dueline.store import control, due
from dueline.store.append import Append, gate_shut
from dueline.store.control import Control
from dueline.store.core import Core
from dueline.store.corner import SEQ_MAX, Corner
from dueline.store.draft import prepare
from dueline.store.kernels import Int64s
from dueline.store.properties import key_hash
from dueline.store.reading import is_shown, read_record
from dueline.store.record import Record
from dueline.store.states import CANCELLED, DELIVERED, FORGOTTEN, MOVED, PENDING
from dueline.store.writing import PutResult, Putter

__all__ = ["Answer", "Changed", "Name", "Overdue", "Pending", "PendingMessage"]

_HALF = HALF_TOPIC.encode()


class Answer(enum.Enum):
    """The outcome of a request to cancel or to reschedule."""

    CANCELLED = "cancelled"
    RESCHEDULED = "rescheduled"
    DELIVERED = "delivered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Name:
    """What a request calls the messages it means.

    Without a topic: a key, a unique id or an offset id, and all messages that have it, of whatever
    topic. With a topic: a unique id, and exactly the messages that were sent to that topic with it.
    There are several only if a producer has sent the same message more than once. Messages of
    topics that `may` says no to are not meant.
    """

    text: str
    topic: str | None = None
    may: Callable[[str], bool] | None = None

    def is_of(self, properties: Mapping[str, str], topic: str) -> bool:
        """Does it mean a message with these properties that was sent to this topic?"""
        if self.may is not None and not self.may(topic):
            return False
        if self.topic is not None:
            return topic == self.topic and properties.get("UNIQ_KEY") == self.text
        is_unique_id = properties.get("UNIQ_KEY") == self.text
        return is_unique_id or self.text in key_words(properties.get("KEYS", ""))


@dataclass(frozen=True, slots=True)
class Changed:
    """The answer to one request, and how many messages were changed for it."""

    answer: Answer
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessage:
    """A delayed message that was found: what it is, when it is due, its state."""

    seq: int
    due_ms: int
    topic: str
    queue_id: int
    unique_id: str
    record: Record
    state: int
    is_at_gate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """How many messages were due and are still pending, and which has been for longest."""

    count: int
    oldest: PendingMessage | None


class Pending:
    """The delayed messages of a store."""

    def __init__(self, core: Core, putter: Putter) -> None:
        self._core = core
        self._putter = putter

    # Finding

    def find(self, name: Name) -> list[PendingMessage]:
        """Delayed messages of this name, the newest first.

        Also those that are done, as long as the store remembers their outcome. An offset id
        stands for the unique id of the message at its place, so that it still names the message
        after a reschedule has moved it to another place.
        """
        if name.topic is None:
            name = replace(name, text=self._unique_id_at(name.text) or name.text)
        with self._core.lock:
            positions = self._core.delay_keys.find(key_hash(name.text))
        found = []
        for position in positions:
            record = self._record_at(position)
            if record is None:
                continue
            properties = decode_properties(record.properties)
            if not name.is_of(properties, properties.get(REAL_TOPIC_NAME, "")):
                continue
            message = self._describe(record, properties)
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

    def record_of(self, seq: int) -> Record | None:
        """The delay log's record of a number; None if it is not known where that is."""
        with self._core.lock:
            units = self._core.timeline.find(np.array([seq], dtype=np.int64))
        return self._record_at(int(units.position[0])) if len(units) else None

    def of_number(self, seq: int) -> PendingMessage | None:
        """The delayed message with a number; None if it is not known where its record is."""
        record = self.record_of(seq)
        return (
            None if record is None else self._describe(record, decode_properties(record.properties))
        )

    def delivered_record(self, message: PendingMessage) -> Record | None:
        """The commit log's record of a message that was carried over; None if it is not found."""
        with self._core.lock:
            positions = self._core.commit_keys.find(key_hash(message.unique_id))
        for position in positions:
            try:
                record = read_record(self._core.commit, position)
            except NotFound:
                continue
            if record.seq == message.seq:
                return record
        return None

    def _describe(self, record: Record, properties: dict[str, str]) -> PendingMessage:
        seq = record.seq
        assert seq is not None
        with self._core.lock:
            state = self._core.timeline.states.one(seq)
            at_gate = state == DELIVERED and self._core.gate.holds(seq)
        return PendingMessage(
            seq=seq,
            due_ms=due.due_ms(properties, record.store_ms, self._core.levels.at(record.position)),
            topic=properties.get(REAL_TOPIC_NAME, ""),
            queue_id=real_queue_id(properties.get(REAL_QUEUE_NAME)),
            unique_id=properties.get("UNIQ_KEY", ""),
            record=record,
            state=state,
            is_at_gate=at_gate,
        )

    # Cancelling

    def cancel(self, names: Sequence[Name]) -> list[Changed]:
        """Cancel every pending message of each name, with one fsync for all."""
        found = [self.find(name) for name in names]
        with self._core.commit_lock, self._core.delay_lock, gate_shut(self._core):
            self._core.check_open()
            with self._core.lock:
                answers = [self._answer(matches) for matches in found]
                chosen = self._choose(found)
            seqs = np.array(sorted(seq for part in chosen for seq in part), dtype=np.int64)
            if len(seqs):
                self._write_cancel(seqs)
        return [
            Changed(answer or self._done_answer(name, matches, Answer.CANCELLED), len(part))
            for name, matches, answer, part in zip(names, found, answers, chosen, strict=True)
        ]

    def _choose(self, found: list[list[PendingMessage]]) -> list[list[int]]:
        """Who of each request's matches can still be changed; each message is chosen once."""
        taken: set[int] = set()
        chosen = []
        for matches in found:
            part = [
                match.seq
                for match in matches
                if match.seq not in taken and self._is_changeable(match.seq)
            ]
            taken.update(part)
            chosen.append(part)
        return chosen

    def cancel_seqs(self, seqs: Int64s) -> Int64s:
        """Cancel by acceptance number; returns the numbers that were still changeable."""
        with self._core.commit_lock, self._core.delay_lock, gate_shut(self._core):
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

    def _done_answer(self, name: Name, matches: list[PendingMessage], success: Answer) -> Answer:
        """The answer where some could be changed, or where no delayed message was found."""
        if matches:
            return success
        with self._core.lock:
            positions = self._core.commit_keys.find(key_hash(name.text))
        for position in positions:
            try:
                record = read_record(self._core.commit, position)
            except NotFound:
                continue
            if record.topic == _HALF:  # not delivered to anybody until it is committed
                continue
            topic = record.topic.decode("utf-8", "replace")
            is_meant = name.is_of(decode_properties(record.properties), topic)
            if is_meant and is_shown(self._core, record):
                return Answer.DELIVERED
        with self._core.lock:
            state = self._core.done.find(name.text, name.topic)
        if state is None:
            return Answer.UNKNOWN
        return Answer.CANCELLED if state == CANCELLED else Answer.DELIVERED

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
        sizes = [control.encoded_size(len(seqs))]
        with Append(core, core.delay, sizes, may_spend=True) as append:
            (position,) = append.positions
            append.write(control.encode(tombstone, position=position, store_ms=append.stamp()))
            with core.indexing():
                core.timeline.mark(seqs, CANCELLED)
                core.gate.remove(seqs)

    # Rescheduling

    def reschedule(self, requests: Sequence[tuple[Name, int]]) -> list[Changed]:
        """Move every pending message of each name to a new due time, as one group.

        Raises:
            LimitExceeded: a time further away than the configured maximum; nothing was changed.
        """
        core = self._core
        now_ms = core.clock.now_ms()
        for _, due_ms in requests:
            if due_ms - now_ms > core.rules.delay_max_ms:
                raise too_far(due_ms - now_ms, core.rules.delay_max_ms)
        found = [self.find(name) for name, _ in requests]
        with core.commit_lock, gate_shut(core):
            core.check_open()
            with core.lock:
                answers = [self._answer(matches) for matches in found]
                chosen: dict[int, tuple[PendingMessage, int]] = {}
                counts = []
                for matches, (_, due_ms) in zip(found, requests, strict=True):
                    part = [match for match in matches if self._is_changeable(match.seq)]
                    chosen.update({match.seq: (match, due_ms) for match in part})
                    counts.append(len(part))
            if chosen:
                self._replace(list(chosen.values()), now_ms)
        return [
            Changed(answer or self._done_answer(name, matches, Answer.RESCHEDULED), count)
            for (name, _), matches, answer, count in zip(
                requests, found, answers, counts, strict=True
            )
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
            core.timeline.mark(replaced, MOVED)
            core.gate.remove(replaced)
        return results

    # Counting

    def count(self) -> int:
        with self._core.lock:
            return self._core.timeline.pending_count()

    def overdue(self, until_ms: int) -> Overdue:
        """What was due by `until_ms` and is not carried over."""
        timeline = self._core.timeline
        with self._core.lock:
            count = timeline.due_count(until_ms)
            if not count:
                return Overdue(count=0, oldest=None)
            corner = Corner(due_ms=until_ms, seq=SEQ_MAX, end=timeline.end)
            (position,) = timeline.window(corner, row_count_max=1).units.position.tolist()
        record = self._record_at(position)
        if record is None:  # it was carried over and its record deleted since a moment ago
            return Overdue(count=count, oldest=None)
        oldest = self._describe(record, decode_properties(record.properties))
        return Overdue(count=count, oldest=oldest)


def message_of(record: Record) -> Message:
    """The message as its producer sent it, from a delayed or delivered record."""
    properties = decode_properties(record.properties)
    topic = properties.get(REAL_TOPIC_NAME, record.topic.decode("utf-8", "replace"))
    queue_id = real_queue_id(properties.get(REAL_QUEUE_NAME), record.queue_id)
    for name in WAITING_NAMES:
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


def half_to_message(record: Record) -> Message:
    """The message that a half message commits: real topic and queue, marked as committed."""
    properties = decode_properties(record.properties)
    plain = message_of(record)
    kept = {
        name: value
        for name, value in properties.items()
        if name not in (REAL_TOPIC_NAME, REAL_QUEUE_NAME)
    }
    return replace(
        plain,
        properties=kept,
        sys_flag=plain.sys_flag & ~0xC | SYS_COMMIT,
        prepared_position=record.position,
    )

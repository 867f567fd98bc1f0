"""Transactions: messages that wait for their producer to decide.

A half message is durable but stands in a topic that nobody consumes. Its producer decides: commit
sends the message on to its real topic (delayed, if it asks for that), rollback does not; either
way an *outcome* record with the half message's queue offset is written, for a commit only when the
message is on disk: a power cut may lose any part of what is written together, and a half message
that counts as decided is never looked at again. The producer is answered before that, since the
message says by itself that it was committed. What has no outcome after a while is asked for: `due`
lists it, and a protocol passes the question to a producer of the group.

Everything known here is read from the two topics, from where the group `CID_RMQ_SYS_TRANS` stands
on: at start, and then whatever is new. So it does not matter which protocol a half message came
by, and a restart forgets nothing but how often was asked. A crash between a commit and its outcome
is noticed at start, since a committed message names the half message it comes from.

Bounded: one small value per undecided message, at most `UNDECIDED_COUNT_MAX` of them. A message
that stays undecided after `ask_count_max` questions goes to TRANS_CHECK_MAX_TIME_TOPIC, as in
RocketMQ. Any thread may call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from dueline.consumer_offsets import ConsumerOffsets
from dueline.engine import Engine, Results
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, NotFound
from dueline.message import (
    HALF_TOPIC,
    SYS_COMMIT,
    SYS_TRANSACTION_MASK,
    Message,
    decode_properties,
    message_id,
)
from dueline.messaging.names import OUTCOME_TOPIC, TRANSACTION_GROUP, UNDECIDED_TOPIC
from dueline.store import ReadStatus, Record
from dueline.store import record as records
from dueline.store.store import half_to_message

__all__ = ["Half", "TransactionOptions", "Transactions"]

UNDECIDED_COUNT_MAX: Final = 1_000_000
_READ_COUNT: Final = 1_024
_READ_SIZE_BYTES: Final = 4 << 20
_DELAY_NAMES: Final = ("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")

Ended = Callable[[BaseException | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """When undecided messages are asked for."""

    first_ask_ms: int = 6_000
    ask_interval_ms: int = 30_000
    ask_count_max: int = 15
    undecided_ms_max: int = 24 * 3_600_000


@dataclass(slots=True, kw_only=True)
class Half:
    """An undecided message; `record()` of the owner has the rest."""

    queue_offset: int
    position: int
    group: str
    unique_id: str
    topic: str
    store_ms: int
    next_ask_ms: int
    ask_count: int = 0
    is_ending: bool = False
    is_decided: bool = False  # what it becomes is on disk; its outcome may not be
    is_concluding: bool = False  # its outcome is on its way


class Transactions:
    """The undecided messages of one broker."""

    def __init__(
        self,
        engine: Engine,
        offsets: ConsumerOffsets,
        options: TransactionOptions | None = None,
    ) -> None:
        self._engine = engine
        self._store = engine.store
        self._offsets = offsets
        self._options = options or TransactionOptions()
        self._undecided: dict[int, Half] = {}
        self._decided: dict[int, int] = {}  # half offset -> outcome offset, above the progress
        self._half_offset = self._start_of(HALF_TOPIC)
        self._outcome_offset = self._start_of(OUTCOME_TOPIC)
        self._lock = threading.RLock()
        self.refresh()
        self._repair()

    def _start_of(self, topic: str) -> int:
        start, _ = self._store.offset_range(topic, 0)
        return max(start, self._offsets.get(TRANSACTION_GROUP, topic).get(0, 0))

    def __len__(self) -> int:
        return len(self._undecided)

    # Following the two topics

    def refresh(self) -> None:
        """Take in what is new since the last time."""
        with self._lock:
            # Outcomes first: one that is read before its half message is kept in `_decided`.
            for record in self._read(OUTCOME_TOPIC):
                self._outcome_offset = record.queue_offset + 1
                for offset in _numbers(record.body):
                    self._decided[offset] = record.queue_offset
                    self._undecided.pop(offset, None)
            for record in self._read(HALF_TOPIC):
                self._half_offset = record.queue_offset + 1
                if record.queue_offset not in self._decided:
                    self._undecided[record.queue_offset] = self._half_of(record)
            self._save_progress()

    def _read(self, topic: str) -> Iterator[Record]:
        offset = self._outcome_offset if topic == OUTCOME_TOPIC else self._half_offset
        while True:
            result = self._store.read(
                topic, 0, offset, count_max=_READ_COUNT, size_bytes_max=_READ_SIZE_BYTES
            )
            if result.status in (ReadStatus.AT_END, ReadStatus.BEYOND_END):
                return
            for view in result.records:
                yield records.decode(view)
            offset = result.next_offset

    def _half_of(self, record: Record) -> Half:
        properties = decode_properties(record.properties)
        seconds = properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS", "")
        wait_ms = (
            int(seconds) * 1_000
            if seconds.isascii() and seconds.isdigit() and len(seconds) < 10
            else self._options.first_ask_ms
        )
        return Half(
            queue_offset=record.queue_offset,
            position=record.position,
            group=properties.get("PGROUP", ""),
            unique_id=properties.get("UNIQ_KEY", ""),
            topic=properties.get("REAL_TOPIC", ""),
            store_ms=record.store_ms,
            next_ask_ms=record.store_ms + wait_ms,
        )

    def _save_progress(self) -> None:
        """Where a restart goes on: at the first undecided message and the outcomes it needs."""
        half_offset = min(self._undecided, default=self._half_offset)
        self._decided = {
            half: outcome for half, outcome in self._decided.items() if half >= half_offset
        }
        outcome_offset = min(self._decided.values(), default=self._outcome_offset)
        for topic, offset in ((HALF_TOPIC, half_offset), (OUTCOME_TOPIC, outcome_offset)):
            if offset != self._offsets.get(TRANSACTION_GROUP, topic).get(0, 0):
                self._offsets.set(TRANSACTION_GROUP, topic, {0: offset})

    def _repair(self) -> None:
        """After a crash: write the outcome of what was committed, or put aside, without one."""
        committed = [half for half in self._undecided.values() if self._is_committed(half)]
        for half in committed:
            self._store.put(_outcome(half.queue_offset))
        if committed:
            self.refresh()

    def _is_committed(self, half: Half) -> bool:
        for topic in (half.topic, UNDECIDED_TOPIC):
            found = self._store.query(topic, half.unique_id, count_max=1 << 31)
            if any(record.prepared_position == half.position for record in found):
                return True
        # A delayed message has its acceptance number where an ordinary one names its origin.
        return any(
            delayed.record.sys_flag & SYS_TRANSACTION_MASK == SYS_COMMIT
            and delayed.topic == half.topic
            for delayed in self._store.find_delayed(half.unique_id)
        )

    # Deciding

    def end(self, position: int, *, commit: bool, group: str, done: Ended) -> None:
        """Commit or roll back the half message at a position; `done` gets None or the error.

        Deciding again changes nothing and is no error.

        Raises:
            NotFound: no half message stands there.
            InvalidRequest: it belongs to another producer group.
            Unavailable, LimitExceeded: it cannot be written now; decide again later.
        """
        record = self.record(position)
        properties = decode_properties(record.properties)
        owner = properties.get("PGROUP", "")
        if group and owner and owner != group:
            raise InvalidRequest(
                f"transaction: expected the producer group {owner!r}, found {group!r:.200}",
                field="producerGroup",
            )
        with self._lock:
            self.refresh()
            half = self._undecided.get(record.queue_offset)
            if half is None or half.is_ending:
                done(None)
                return
            half.is_ending = True
        try:
            self._decide(half, half_to_message(record) if commit else None, done)
        except BaseException:
            half.is_ending = False
            raise

    def _decide(self, half: Half, message: Message | None, done: Ended) -> None:
        """Write what the half message becomes, None for nothing, and then that it was decided."""

        def written(results: Results | BaseException) -> None:
            failure = _failure(results)
            half.is_ending = half.is_decided = failure is None
            half.is_concluding = failure is None and message is None
            done(failure)
            if half.is_decided and not half.is_concluding:
                self._conclude(half)

        self._engine.send([message or _outcome(half.queue_offset)], written)

    def _conclude(self, half: Half) -> None:
        """Write the outcome of what is on disk; if that fails, `due` or a restart does it again."""

        def written(results: Results | BaseException) -> None:
            half.is_concluding = _failure(results) is None

        half.is_concluding = True
        try:
            self._engine.send([_outcome(half.queue_offset)], written)
        except BrokerError:
            half.is_concluding = False

    def record(self, position: int) -> Record:
        """The half message at a position.

        Raises:
            NotFound: none stands there.
        """
        found = self._store.record_at(position)
        if found.topic != HALF_TOPIC.encode():
            raise NotFound(
                f"position {position}: expected a half message, found one of topic {found.topic!r}",
                position=position,
            )
        return found

    def find(self, unique_id: str, topic: str) -> Half | None:
        """An undecided message by its unique id."""
        with self._lock:
            self.refresh()
            for half in self._undecided.values():
                if half.unique_id == unique_id and half.topic == topic:
                    return half
        return None

    # Asking

    def due(self, now_ms: int, *, count_max: int = 1_000) -> list[Half]:
        """The messages whose producers should be asked now; `asked` says that they were."""
        with self._lock:
            self.refresh()
            if len(self._undecided) > UNDECIDED_COUNT_MAX:
                raise LimitExceeded(
                    f"undecided messages: expected at most {UNDECIDED_COUNT_MAX}, found "
                    f"{len(self._undecided)}",
                    limit=UNDECIDED_COUNT_MAX,
                    found=len(self._undecided),
                )
            halves = list(self._undecided.values())
        for half in halves:
            if half.is_decided and not half.is_concluding:
                self._conclude(half)
        found = [half for half in halves if half.next_ask_ms <= now_ms and not half.is_ending]
        return found[:count_max]

    def asked(self, half: Half, now_ms: int, *, is_heard: bool) -> bool:
        """Somebody was asked, or nobody was there; returns whether the message was given up."""
        options = self._options
        half.next_ask_ms = now_ms + options.ask_interval_ms
        half.ask_count += is_heard
        if (
            half.ask_count <= options.ask_count_max
            and now_ms - half.store_ms <= options.undecided_ms_max
        ):
            return False
        self._give_up(half)
        return True

    def _give_up(self, half: Half) -> None:
        message = self._put_aside(half)
        half.is_ending = True
        try:
            self._decide(half, message, lambda _: None)
        except BaseException:
            half.is_ending = False
            raise

    def _put_aside(self, half: Half) -> Message | None:
        """The message for TRANS_CHECK_MAX_TIME_TOPIC; None if retention has taken it."""
        try:
            message = half_to_message(self.record(half.position))
        except NotFound:
            return None
        properties = {
            name: value for name, value in message.properties.items() if name not in _DELAY_NAMES
        }
        properties["REAL_TOPIC"] = message.topic
        return replace(message, topic=UNDECIDED_TOPIC, queue_id=0, properties=properties)

    def question(self, half: Half) -> Record:
        """The half message as its producer knows it: the real topic and queue, its own place."""
        record = self.record(half.position)
        properties = decode_properties(record.properties)
        return replace(
            record,
            topic=half.topic.encode(),
            queue_id=int(properties.get("REAL_QID", "0")),
            mark=0,
        )

    def offset_id(self, half: Half) -> str:
        """The half message's offset id."""
        return message_id(self.record(half.position).store_host, half.position)


def _outcome(queue_offset: int) -> Message:
    """RocketMQ's record of an outcome: the half message's offset as text, tag `d`."""
    return Message(
        topic=OUTCOME_TOPIC, body=str(queue_offset).encode(), properties={"TAGS": "d"}, born_ms=0
    )


def _failure(results: Results | BaseException) -> BaseException | None:
    """The first error among the answers, if there is one."""
    if isinstance(results, BaseException):
        return results
    return next((each for each in results if isinstance(each, BaseException)), None)


def _numbers(body: bytes) -> list[int]:
    """The offsets in an outcome's body; 5.x brokers write several with commas."""
    return [int(text) for text in body.split(b",") if text.isdigit() and len(text) < 19]

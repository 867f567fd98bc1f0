"""Transactions: messages that wait for their producer to decide.

A half message is durable but stands in a topic that nobody consumes. Its producer decides: commit
sends the message on to its real topic (delayed, if it asks for that), rollback does not; either
way an *outcome* record with the half message's queue offset is written, for a commit only when the
message is on disk: a power cut may lose any part of what is written together, and a half message
that counts as decided is never looked at again. The producer is answered before that, since the
message says by itself that it was committed. What has no outcome after a while is asked for: `due`
lists it, and `dueline.broker.asking` finds a producer to ask.

Everything known here is read from the two topics, from where the group `CID_RMQ_SYS_TRANS` stands
on: at start, and then whatever is new. So it does not matter which protocol a half message came
by, and a restart forgets nothing but how often was asked. A crash between a commit and its outcome
is noticed at start, since a committed message names the half message it comes from.

Bounded: one small value per undecided message and none per decided one, and half messages are
refused while `UNDECIDED_COUNT_MAX` are undecided (`check_room`). Deciding one takes the same time
however many others there are. A message that stays undecided after `ask_count_max` questions goes
to TRANS_CHECK_MAX_TIME_TOPIC, as in RocketMQ. Any thread may call.

Why decided ones need not be remembered: an outcome is written after its half message. So whoever
reads the new outcomes and then the new half messages has met both, or none, or an undecided half
message; and no outcome that was there before a half message belongs to it or a later one, which is
where a restart begins to read outcomes.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from dueline.broker.agenda import Agenda
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.names import OUTCOME_TOPIC, TRANSACTION_GROUP, UNDECIDED_TOPIC
from dueline.broker.offset_bits import Offsets
from dueline.broker.writing import Put, Results, first_error
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, NotFound, Unavailable
from dueline.message import (
    HALF_TOPIC,
    SYS_COMMIT,
    SYS_TRANSACTION_MASK,
    Message,
    decode_properties,
)
from dueline.schedule import DELAY_NAMES
from dueline.store import ReadStatus, Record, Store
from dueline.store import record as records
from dueline.store.pending import half_to_message

__all__ = ["Half", "TransactionOptions", "Transactions"]

UNDECIDED_COUNT_MAX: Final = 100_000
_NAME_SIZE_MAX: Final = 255
_READ_COUNT: Final = 1_024
_READ_SIZE_BYTES: Final = 4 << 20

Ended = Callable[[BaseException | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """When undecided messages are asked for."""

    first_ask_ms: int = 6_000
    ask_interval_ms: int = 30_000
    look_again_ms: int = 1_000
    """After nobody was there to be asked."""
    ask_count_max: int = 15
    undecided_ms_max: int = 24 * 3_600_000


@dataclass(slots=True, kw_only=True)
class Half:
    """An undecided message; its record has the rest."""

    queue_offset: int
    position: int
    group: str
    topic: str
    store_ms: int
    outcome_offset: int
    """No outcome before this one is about this message or a later one."""
    ask_count: int = 0
    is_ending: bool = False

    @property
    def is_of_topic(self) -> bool:
        """Whether any producer of the topic may be asked: those of 5.x have no group."""
        return self.group == self.topic


class Transactions:
    """The undecided messages of one broker."""

    def __init__(
        self,
        store: Store,
        offsets: ConsumerOffsets,
        put: Put,
        options: TransactionOptions | None = None,
    ) -> None:
        self._store = store
        self._put = put
        self._offsets = offsets
        self._options = options or TransactionOptions()
        # In order of offset, which is the order of reading; the first one is needed often.
        self._undecided: OrderedDict[int, Half] = OrderedDict()
        self._agenda = Agenda()
        self._unconcluded: dict[int, Half] = {}  # what they become is on disk, their outcome not
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
            outcome_start = self._outcome_offset
            decided = self._read_outcomes()
            for record in self._read(HALF_TOPIC, self._half_offset, decided):
                self._half_offset = record.queue_offset + 1
                self._add(record, outcome_start)
            self._half_offset, _ = decided.gap(self._half_offset)
            self._save_progress()

    def _read_outcomes(self) -> Offsets:
        """Take in new outcomes; returns those of half messages that are not read yet."""
        _, end = self._store.offset_range(HALF_TOPIC, 0)
        ahead = Offsets(self._half_offset, max(end, self._half_offset))
        for record in self._read(OUTCOME_TOPIC, self._outcome_offset, Offsets(0, 0)):
            self._outcome_offset = record.queue_offset + 1
            for offset in _numbers(record.body):
                ahead.add(offset)
                self._remove(offset)
        return ahead

    def _add(self, record: Record, outcome_offset: int) -> None:
        properties = decode_properties(record.properties)
        half = Half(
            queue_offset=record.queue_offset,
            position=record.position,
            group=_name(properties.get("PGROUP", "")),
            topic=_name(properties.get("REAL_TOPIC", "")),
            store_ms=record.store_ms,
            outcome_offset=outcome_offset,
        )
        ask_ms = record.store_ms + self._wait_ms(properties)
        self._undecided[half.queue_offset] = half
        self._agenda.put(half.queue_offset, ask_ms)

    def _remove(self, offset: int) -> None:
        if self._undecided.pop(offset, None) is not None:
            self._agenda.remove(offset)

    def _wait_ms(self, properties: Mapping[str, str]) -> int:
        seconds = properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS", "")
        if seconds.isascii() and seconds.isdigit() and len(seconds) < 10:
            return int(seconds) * 1_000
        return self._options.first_ask_ms

    def _read(self, topic: str, offset: int, passed_over: Offsets) -> Iterator[Record]:
        """What stands from an offset on; what is passed over is not even looked at."""
        while True:
            offset, end = passed_over.gap(offset)
            result = self._store.read(
                topic,
                0,
                offset,
                count_max=min(end - offset, _READ_COUNT),
                size_bytes_max=_READ_SIZE_BYTES,
            )
            if result.status in (ReadStatus.AT_END, ReadStatus.BEYOND_END):
                return
            for view in result.records:
                yield records.decode(view)
            offset = result.next_offset

    def _save_progress(self) -> None:
        """Where a restart goes on: at the first undecided message and the outcomes it needs."""
        first = next(iter(self._undecided.values()), None)
        half_offset = self._half_offset if first is None else first.queue_offset
        outcome_offset = self._outcome_offset if first is None else first.outcome_offset
        for topic, offset in ((HALF_TOPIC, half_offset), (OUTCOME_TOPIC, outcome_offset)):
            if offset != self._offsets.get(TRANSACTION_GROUP, topic).get(0, 0):
                self._offsets.set(TRANSACTION_GROUP, topic, {0: offset})

    def _repair(self) -> None:
        """After a crash: write the outcome of what was committed, or put aside, without one."""
        committed = [half for half in self._undecided.values() if self._is_committed(half)]
        for half in committed:
            half.is_ending = True
            try:
                self._store.put(_outcome(half.queue_offset))
            except Unavailable:  # a full disk must not keep the broker from starting
                self._unconcluded[half.queue_offset] = half
        if committed:
            self.refresh()

    def _is_committed(self, half: Half) -> bool:
        try:
            properties = decode_properties(self.record(half.position).properties)
        except NotFound:
            return False  # retention has taken it
        unique_id = properties.get("UNIQ_KEY", "")
        for topic in (half.topic, UNDECIDED_TOPIC):
            found = self._store.query(topic, unique_id, count_max=1 << 31)
            if any(record.prepared_position == half.position for record in found):
                return True
        # A delayed message has its acceptance number where an ordinary one names its origin.
        return any(
            delayed.record.sys_flag & SYS_TRANSACTION_MASK == SYS_COMMIT
            and delayed.topic == half.topic
            for delayed in self._store.find_delayed(unique_id)
        )

    # Deciding

    def end(  # noqa: PLR0913 - what a client says of it, keyword-only
        self,
        position: int,
        *,
        commit: bool,
        group: str,
        done: Ended,
        queue_offset: int | None = None,
        admit: Callable[[str], None] = lambda topic: None,
    ) -> None:
        """Commit or roll back the half message at a position; `done` gets None or the error.

        Deciding again changes nothing and is no error.

        Args:
            group: of the producer that decides; empty: it has none.
            queue_offset: what the producer takes for the half message's; None: it does not say.
            admit: raises if messages of the topic may not be decided.

        Raises:
            NotFound: no half message stands there, or one of another queue offset.
            InvalidRequest: it belongs to another producer group.
            Unavailable, LimitExceeded: it cannot be written now; decide again later.
        """
        record = self.record(position)
        if queue_offset is not None and record.queue_offset != queue_offset:
            raise NotFound(
                f"transaction: expected queue offset {record.queue_offset}, found {queue_offset}",
                position=position,
            )
        properties = decode_properties(record.properties)
        admit(properties.get("REAL_TOPIC", ""))
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
            failure = first_error(results)
            half.is_ending = failure is None
            done(failure)
            if failure is None and message is not None:
                self._conclude(half)

        self._put([message or _outcome(half.queue_offset)], written)

    def _conclude(self, half: Half) -> None:
        """Write the outcome of what is on disk; if that fails, `due` or a restart does it again."""

        def written(results: Results | BaseException) -> None:
            if first_error(results) is not None:
                self._unconcluded[half.queue_offset] = half

        try:
            self._put([_outcome(half.queue_offset)], written)
        except BrokerError:
            self._unconcluded[half.queue_offset] = half

    def _conclude_again(self) -> None:
        """Holds no lock: whoever writes may wait for the disk."""
        with self._lock:
            self.refresh()
            offsets = list(self._unconcluded)
            halves = [self._unconcluded.pop(offset) for offset in offsets]
            halves = [half for half in halves if half.queue_offset in self._undecided]
        for half in halves:
            self._conclude(half)

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

    def undecided(self, *, count_max: int) -> list[Half]:
        """The oldest messages that nobody has decided."""
        with self._lock:
            self.refresh()
            return list(islice(self._undecided.values(), count_max))

    def check_room(self) -> None:
        """Refuse a half message while too many are undecided.

        Raises:
            LimitExceeded: send it again when others are decided.
        """
        if len(self._undecided) >= UNDECIDED_COUNT_MAX:
            raise LimitExceeded(
                f"undecided messages: expected at most {UNDECIDED_COUNT_MAX}, found as many; "
                "decide some of them first",
                limit=UNDECIDED_COUNT_MAX,
                found=len(self._undecided) + 1,
            )

    # Asking

    def due(self, now_ms: int, *, count_max: int = 1_000) -> list[Half]:
        """The messages whose producers should be asked now; `asked` says that they were."""
        self._conclude_again()
        with self._lock:
            halves = [self._undecided[offset] for offset in self._agenda.due(now_ms, count_max)]
            for half in halves:
                if half.is_ending:  # if that fails, it is asked for after all
                    self._agenda.put(half.queue_offset, now_ms + self._options.ask_interval_ms)
            return [half for half in halves if not half.is_ending]

    def asked(self, half: Half, now_ms: int, *, is_heard: bool) -> bool:
        """Somebody was asked, or nobody was there; returns whether the message was given up."""
        options = self._options
        again_ms = options.ask_interval_ms if is_heard else options.look_again_ms
        with self._lock:
            if half.queue_offset in self._undecided:
                self._agenda.put(half.queue_offset, now_ms + again_ms)
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
            name: value for name, value in message.properties.items() if name not in DELAY_NAMES
        }
        properties["REAL_TOPIC"] = message.topic
        return replace(message, topic=UNDECIDED_TOPIC, queue_id=0, properties=properties)


def _outcome(queue_offset: int) -> Message:
    """RocketMQ's record of an outcome: the half message's offset as text, tag `d`."""
    return Message(
        topic=OUTCOME_TOPIC, body=str(queue_offset).encode(), properties={"TAGS": "d"}, born_ms=0
    )


def _name(text: str) -> str:
    """Shared by all messages that have it; what is longer than a name may be is none."""
    return sys.intern(text) if len(text) <= _NAME_SIZE_MAX else ""


def _numbers(body: bytes) -> list[int]:
    """The offsets in an outcome's body; 5.x brokers write several with commas."""
    return [int(text) for text in body.split(b",") if text.isdigit() and len(text) < 19]

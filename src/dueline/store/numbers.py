"""Changing many delayed messages by their acceptance numbers, with an answer for each.

    done       it is as was asked for: cancelled, or moved to the time
    too late   it was delivered, dropped, expired, cancelled or moved before
    unknown    no message has this number
    failed     it waits, but its record cannot be read: it is damaged

A portion is one group with one fsync: after a crash all of it is done or nothing. The commit log's
lock is held meanwhile, so that nothing is carried over and changed at the same time; the gate stays
open, unless the portion has a message that stands at the gate. So portions should be small where
others are to be on time.

A cancelled message that is cancelled again is *done*. One that was moved has another number, under
which it is found again; asked to move to the time at which it is due then, it is *done* as well. So
a caller that is not sure whether a change has happened may ask for it once more. One that a rule of
its topic has turned back at the gate has another number too, and is meant by its old one as well.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import InvalidRequest, Unavailable
from dueline.message import decode_properties
from dueline.schedule import REAL_TOPIC_NAME, too_far
from dueline.store import control, road_file
from dueline.store.adoption import waiting_rows
from dueline.store.append import Append, gate_shut
from dueline.store.control import Control
from dueline.store.core import Core
from dueline.store.ended import Ended, ended
from dueline.store.gate import GateRows
from dueline.store.kernels import Int64s
from dueline.store.pending import Name, Pending, PendingMessage
from dueline.store.record import Record
from dueline.store.record_columns import RecordColumns
from dueline.store.restore import damaged
from dueline.store.road import RoadRule
from dueline.store.run import Units
from dueline.store.states import DELIVERED, MOVED, PENDING
from dueline.store.survey import Survey, Waiting
from dueline.store.table_writing import TablePutter
from dueline.store.turned_back import TurnedBack

__all__ = ["DONE", "FAILED", "TOO_LATE", "UNKNOWN", "Answers", "Numbers"]

DONE: Final = 0
TOO_LATE: Final = 1
UNKNOWN: Final = 2
FAILED: Final = 3
PORTION_ROWS: Final = 4_096

Answers = npt.NDArray[np.uint8]
_log = logging.getLogger(__name__)

Flags = npt.NDArray[np.bool_]


class Numbers:
    """The delayed messages of one store, by number."""

    def __init__(
        self, core: Core, tables: TablePutter, pending: Pending, after_put: Callable[[], None]
    ) -> None:
        self._core = core
        self._tables = tables
        self._pending = pending
        self._after_put = after_put
        self._rules_lock = threading.Lock()
        self._has_turned_back = False
        self._turned_back = TurnedBack()

    # Looking

    def message(self, seq: int) -> PendingMessage | None:
        """The delayed message with a number; None if it is not known where its record is."""
        return self._pending.of_number(seq)

    def ended(self) -> Iterator[Ended]:
        """Those that ended without being delivered, as long as the delay log has them."""
        return ended(self._core)

    def delivered(self, message: PendingMessage) -> Record | None:
        """The record of a delayed message in the commit log, if it is there."""
        return self._pending.delivered_record(message)

    def newest(self, seqs: Int64s) -> Int64s:
        """The numbers under which messages wait that were turned back at the gate (`_turn_back`):
        nobody has asked for that, so they are still meant by their old ones. What was turned back
        before the store was opened is followed as long as the timeline has it. Where no rule ever
        held, a number means its message and no other."""
        if not self._has_turned_back:
            return seqs
        newest = self._turned_back.newest(seqs)
        with self._core.lock:
            known = np.minimum(np.maximum(newest, 0), self._core.timeline.end)
            moved = np.flatnonzero(self._core.timeline.states.of(known) == MOVED)
        for row in moved.tolist():
            message = self.message(int(newest[row]))
            same = [] if message is None else self._with_same_time(message)
            newest[row] = max([int(newest[row]), *(each.seq for each in same)])
        return newest

    def was_before(self, seq: int, end: int) -> bool:
        """Did a message that waits under this number have one below `end`, and was turned back?"""
        message = self.message(seq)
        same = [] if message is None else self._with_same_time(message)
        return any(each.seq < end and each.state == MOVED for each in same)

    def _with_same_time(self, message: PendingMessage) -> list[PendingMessage]:
        """A message under its other numbers, as far as it was due at the same time."""
        name = Name(message.unique_id, message.topic)
        return [each for each in self._pending.find(name) if each.due_ms == message.due_ms]

    # Cancelling

    def cancel(self, seqs: Int64s) -> Answers:
        """Cancel numbers, as one group; an answer for each."""
        answers = self._end(seqs, control.CANCEL)
        self._core.observers.tell(lambda each: each.cancelled(_done_count(answers)))
        return answers

    def expire(self, seqs: Int64s) -> int:
        """Let numbers expire, as one group; returns how many have."""
        if not len(seqs):
            return 0
        with self._core.lock:
            was_free = self._looked_up(seqs)[1]
        self._end(seqs, control.EXPIRE)
        count = int(np.count_nonzero(was_free))
        self._core.observers.tell(lambda each: each.expired(count))
        return count

    def _expire_overdue(self) -> int:
        """Let all expire whose time is over by the rules of their topics; returns how many."""
        core = self._core
        with core.lock:
            found = core.road.overdue_expired(core.clock.now_ms())
        count = 0
        for start in range(0, len(found), PORTION_ROWS):
            count += self.expire(found[start : start + PORTION_ROWS])
        return count

    @property
    def rules(self) -> dict[str, RoadRule]:
        """The rules of the road that hold, by topic."""
        with self._core.lock:
            return dict(self._core.road.rules)

    def set_rule(self, topic: str, rule: RoadRule) -> None:
        """Let a rule of the road hold for a topic, durably.

        Returns when what stands at the gate keeps to it: it goes back to the delay log where its
        topic is paused, or has another rate, or none any more.

        Raises:
            Unavailable: the disk is full; the rule does not hold, or is kept a little later.
            StoreClosed: the disk failed.
        """
        core = self._core
        with self._rules_lock:
            before = self.rules
            after = {**before, topic: rule}
            with core.closing_on_disk_error():
                road_file.save(core.files, core.path, after)
            with core.lock:
                core.road.set(after, core.clock.now_ms())
            if rule.rate != before.get(topic, RoadRule()).rate:
                self._turn_back(topic)
            self.sweep()

    def load_rules(self) -> None:
        """Let the rules hold that were set before; what is at the gate has its slots.

        Raises:
            InvalidRequest: their file is damaged.
        """
        core = self._core
        rules = road_file.load(core.files, core.path)
        for name, rule in rules.items():
            if rule.rate is not None:
                self._tell_due_times(name)
        with core.lock:
            core.road.set(rules, core.clock.now_ms())
        self._has_turned_back = bool(rules)
        try:
            self.sweep()
        except Unavailable as error:  # a full disk must not be in the way of a start
            _log.warning("the rules of the road are not kept yet: %s", error)

    def sweep(self) -> int:
        """See to it that the rules are kept: let expire what is too late, and let what stands at
        the gate of a paused topic go back. Returns how many have expired.

        Raises:
            Unavailable: the disk is full; it is to be tried again.
        """
        for name, rule in self.rules.items():
            if rule.is_paused:
                self._turn_back(name)
        return self._expire_overdue()

    def _turn_back(self, topic: str) -> None:
        """Let what stands at the gate for a topic wait in the delay log again, and its slots be
        free."""
        core = self._core
        with core.commit_lock, core.lock:  # what is being carried over stands at the gate by then
            found = core.road.at_gate(topic)
        found = found.take(np.lexsort((found.origin, found.due_ms)))
        self._has_turned_back |= len(found) > 0
        for start in range(0, len(found), PORTION_ROWS):
            units = self._units_at_gate(found.take(slice(start, start + PORTION_ROWS)))
            rows = Waiting(units=units, is_at_gate=np.zeros(len(units), dtype=np.bool_))
            self._move(units.seq, units.due_ms, rows, is_back=True)
        if len(found):
            with core.commit_lock, core.lock:
                core.road.free_slots(topic, core.clock.now_ms())

    def _tell_due_times(self, topic: str) -> None:
        """Let the gate know when a topic's messages are due: after a restart it knows their slots
        only."""
        core = self._core
        with core.lock:
            found = core.road.at_gate(topic)
        units = self._units_at_gate(found)
        units = units.take(np.argsort(units.seq))
        with core.lock:
            core.gate.set_due(units.seq, units.due_ms)

    def _units_at_gate(self, found: GateRows) -> Units:
        """The delay log's units of rows at the gate, in due order."""
        none = np.zeros(len(found), dtype=np.int32)
        units = Units(
            due_ms=found.due_ms,
            seq=found.origin,
            position=found.position,
            size=found.size,
            topic=none,
            queue_id=none,
        )
        is_at_gate = np.ones(len(found), dtype=np.bool_)
        units = self._delayed_units(Waiting(units=units, is_at_gate=is_at_gate))
        return units.take(np.lexsort((units.seq, units.due_ms)))

    def _end(self, seqs: Int64s, kind: bytes) -> Answers:
        core = self._core
        with core.commit_lock:
            seqs = self.newest(seqs)
            with self._steady(seqs), core.delay_lock:
                core.check_open()
                with core.lock:
                    state, free = self._looked_up(seqs)
                chosen = np.unique(seqs[free])
                if len(chosen):
                    self._write(chosen, kind)
        answers = _answers(state, free)
        answers[state == control.DELAY_LOG_STATES[kind]] = DONE
        return answers

    def _write(self, chosen: Int64s, kind: bytes) -> None:
        core = self._core
        entry = Control(kind=kind, numbers=chosen)
        sizes = [control.encoded_size(len(chosen))]
        with Append(core, core.delay, sizes, may_spend=True) as append:
            (position,) = append.positions
            append.write(control.encode(entry, position=position, store_ms=append.stamp()))
            with core.indexing():
                self._forget(chosen, control.DELAY_LOG_STATES[kind])

    def _forget(self, chosen: Int64s, state: int) -> None:
        core = self._core
        at_gate = core.timeline.states.of(chosen) == DELIVERED
        core.timeline.mark(chosen, state)
        if bool(at_gate.any()):
            core.gate.remove(chosen[at_gate])
            core.road.expire()

    # Moving

    def move(self, seqs: Int64s, due_ms: Int64s, found: Waiting | None = None) -> Answers:
        """Give numbers other due times, as one group in this order; an answer for each.

        A time that has passed means now, unless the message is due at that very time already.

        Args:
            found: the rows of these numbers, if the caller has them.

        Raises:
            LimitExceeded: a time further away than the configured maximum; nothing was changed.
        """
        self._check_times(due_ms)
        if len(np.unique(seqs)) != len(seqs):
            raise InvalidRequest("numbers: expected each once, found one several times")
        newest = _each_once(seqs, self.newest(seqs))
        if found is None or not np.array_equal(newest, seqs):
            found = Survey(self._core).find(newest)
        return self._move(newest, due_ms, found)

    def _move(
        self, seqs: Int64s, due_ms: Int64s, rows: Waiting, *, is_back: bool = False
    ) -> Answers:
        """As `move`. With `is_back`, all of them are moved, also to a time that has passed."""
        core = self._core
        units, records = self._sources(rows)
        same = _same_time(seqs, due_ms, rows.units) & (not is_back)
        wanted = np.isin(seqs, units.seq)
        with core.commit_lock, self._steady(seqs):
            core.check_open()
            with core.lock:
                state, free = self._looked_up(seqs)
            chosen = np.flatnonzero(free & wanted & ~same)
            if len(chosen):
                earliest_ms = 0 if is_back else core.clock.now_ms()
                times_ms = np.maximum(due_ms[chosen], earliest_ms)
                first_seq = self._replace(seqs[chosen], times_ms, units, records)
                if is_back:
                    self._turned_back.add(seqs[chosen], first_seq)
        answers = _answers(state, free)
        answers[free & ~wanted & ~same] = FAILED
        answers = self._settle_moved(seqs, due_ms, state, answers)
        self._after_put()
        if not is_back:
            core.observers.tell(lambda each: each.rescheduled(len(chosen)))
        return answers

    def _check_times(self, due_ms: Int64s) -> None:
        now_ms, longest = self._core.clock.now_ms(), self._core.rules.delay_max_ms
        latest = int(due_ms.max(initial=0))
        if latest - now_ms > longest:
            raise too_far(latest - now_ms, longest)

    def _sources(self, rows: Waiting) -> tuple[Units, pa.BinaryArray]:
        """Where the rows' delayed records are, and the records; of those that are sound.

        At the gate stands what was made of a delayed message, perhaps by a transform; what is to
        be moved is the message itself, which is still in the delay log.
        """
        core = self._core
        units = rows.units.take(np.flatnonzero(~rows.is_at_gate))
        at_gate = rows.take(np.flatnonzero(rows.is_at_gate))
        if len(at_gate):
            units = Units.concat([units, self._delayed_units(at_gate)])
        records = core.delay.gather(units.position, units.size)
        sound = np.flatnonzero(~damaged(pa.record_batch([records], names=["record"])))
        if len(sound) == len(units):
            return units, records
        return units.take(sound), records.take(pa.array(sound))

    def _delayed_units(self, at_gate: Waiting) -> Units:
        """Units of messages at the gate, with their places in the delay log."""
        core = self._core
        with core.lock:
            found = core.timeline.find(at_gate.units.seq)
        missing = np.flatnonzero(~np.isin(at_gate.units.seq, found.seq))
        if not len(missing):
            return found
        at_gate = at_gate.take(missing)
        units, places = at_gate.units, []
        for row, data in enumerate(Survey(core).records(at_gate).to_pylist()):
            message = self._delayed_message(int(units.seq[row]), data)
            if message is not None:
                places.append((row, message))
        own = units.take(np.array([row for row, _ in places], dtype=np.int64))
        positions = [each.record.position for _, each in places]
        by_key = Units(
            due_ms=np.array([each.due_ms for _, each in places], dtype=np.int64),
            seq=own.seq,
            position=np.array(positions, dtype=np.int64),
            size=np.array([core.delay.size_at(at) for at in positions], dtype=np.int32),
            topic=own.topic,
            queue_id=own.queue_id,
        )
        return Units.concat([found, by_key])

    def _delayed_message(self, seq: int, delivered: bytes) -> PendingMessage | None:
        """A number's message in the delay log, found by its unique id."""
        texts = RecordColumns(pa.array([delivered], pa.binary())).texts if delivered else None
        unique_id = decode_properties(texts[0].as_py()).get("UNIQ_KEY") if texts else None
        for message in self._pending.find(Name(unique_id)) if unique_id else ():
            if message.seq == seq:
                return message
        return None

    def _replace(self, seqs: Int64s, due_ms: Int64s, units: Units, records: pa.BinaryArray) -> int:
        """Let messages wait under new numbers; returns the first of these."""
        core = self._core
        order = np.argsort(units.seq)
        rows = order[np.searchsorted(units.seq[order], seqs)]
        made = waiting_rows(records.take(pa.array(rows)), due_ms, store_host=core.store_host)
        return self._tables.replace_encoded(made, seqs, self._forget).first_seq

    def _settle_moved(
        self, seqs: Int64s, due_ms: Int64s, state: Answers, answers: Answers
    ) -> Answers:
        """What was moved before, to that very time, is as was asked for."""
        for row in np.flatnonzero((state == MOVED) & (answers == TOO_LATE)).tolist():
            if self._successor_due_ms(int(seqs[row])) == int(due_ms[row]):
                answers[row] = DONE
        return answers

    def _successor_due_ms(self, seq: int) -> int | None:
        """When the message of a number that was moved is due now; None if that is not known."""
        record = self._pending.record_of(seq)
        if record is None:
            return None
        known = decode_properties(record.properties)
        name = Name(known.get("UNIQ_KEY", ""), known.get(REAL_TOPIC_NAME, ""))
        waiting = [each for each in self._pending.find(name) if each.seq > seq]
        return waiting[0].due_ms if waiting else None

    # Both

    def _looked_up(self, seqs: Int64s) -> tuple[Answers, Flags]:
        """The state of each number (255: it has none), and whether it can be changed."""
        core = self._core
        state = core.timeline.states.of(seqs)
        state[(seqs < 0) | (seqs >= core.timeline.end)] = _NO_STATE
        free = state == PENDING
        carried = np.flatnonzero(state == DELIVERED)
        if len(carried):
            free[carried] = core.gate.holds_each(seqs[carried])
        return state, free

    @contextlib.contextmanager
    def _steady(self, seqs: Int64s) -> Iterator[None]:
        """Keep the gate shut if any of these stands there; the caller holds the commit lock."""
        core = self._core
        with core.lock:
            states = core.timeline.states.of(np.minimum(seqs, core.timeline.end))
            carried = seqs[states == DELIVERED]
            is_there = len(carried) > 0 and bool(core.gate.holds_each(carried).any())
        with gate_shut(core) if is_there else contextlib.nullcontext():
            yield


_NO_STATE: Final = 255


def _done_count(answers: Answers) -> int:
    return int(np.count_nonzero(answers == DONE))


def _each_once(seqs: Int64s, newest: Int64s) -> Int64s:
    """The newest numbers, where two mean one message only one of them: the other keeps its old."""
    order = np.lexsort((newest != seqs, newest))
    is_first = np.ones(len(seqs), dtype=np.bool_)
    is_first[order[1:]] = newest[order[1:]] != newest[order[:-1]]
    return np.where(is_first, newest, seqs)


def _answers(state: Answers, free: Flags) -> Answers:
    answers = np.where(free, DONE, TOO_LATE).astype(np.uint8)
    answers[state == _NO_STATE] = UNKNOWN
    return answers


def _same_time(seqs: Int64s, due_ms: Int64s, units: Units) -> Flags:
    """Which numbers are due at the wanted time already."""
    order = np.argsort(units.seq)
    at = np.searchsorted(units.seq[order], seqs)
    known = at < len(order)
    rows = order[np.where(known, at, 0)] if len(order) else np.zeros(len(seqs), dtype=np.int64)
    same = np.zeros(len(seqs), dtype=np.bool_)
    if len(order):
        same = known & (units.seq[rows] == seqs) & (units.due_ms[rows] == due_ms)
    return same

"""Rules of the road: what a topic's delayed messages must keep to on their way to consumers.

    paused    nothing is carried over; what stands at the gate goes back to the delay log
    rate      at most so many become visible in any second, in due order
    expiry    what could be visible only so long after its due time is not delivered any more

A rule is for the messages that were sent to the topic, wherever a transform takes them. All of it
is decided before a message is appended to the commit log, since a queue's order is a function of
that log alone, and so is what recovery shows:

    hold      says which pending messages the pipeline may carry over now: none of a paused topic,
              and of one with a rate no more than find a slot within `AHEAD_MS`
    slots     a rate's messages are given their times of visibility when they are appended, one gap
              apart; the record keeps it, so a restart changes nothing
    expired   among those that are appended, and at the gate

A message that is due before others that have their slots already (it was accepted later) is not
made to wait behind them: order comes first, and the next slots are later by as much. Not
thread-safe: its owner holds the store's lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.store.corner import Key
from dueline.store.gate import Gate, GateRows
from dueline.store.held import NOTHING
from dueline.store.kernels import Int32s, Int64s
from dueline.store.laggards import Laggards
from dueline.store.timeline import Timeline

__all__ = ["Road", "RoadRule", "Stamped"]

AHEAD_MS: Final = 30_000
LOOK_MS: Final = 100
_NEVER: Final = 1 << 62
_ROUNDING: Final = 1e-6

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoadRule:
    """What holds for one topic; `rate` is in messages a second.

    `resumed_ms` is when the topic was last resumed: what was due before is late since then only.
    """

    is_paused: bool = False
    rate: int | None = None
    expiry_ms: int | None = None
    resumed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """By row: not visible before, its topic is paused by now, it would be visible too late."""

    slots_ms: Int64s
    is_refused: Flags
    is_expired: Flags


@dataclass(slots=True)
class _Slots:
    """The next free slot of a topic with a rate, and the latest due time that has one."""

    next_ms: float = 0.0
    due_ms: int = -1


class Road:
    """The rules of a store, and who must wait for them; for the gate it stands for its laggards."""

    def __init__(
        self,
        timeline: Timeline,
        gate: Gate,
        laggards: Laggards,
        name_of: Callable[[int], tuple[str, int]],
    ) -> None:
        self._timeline = timeline
        self._gate = gate
        self._laggards = laggards
        self._name_of = name_of
        self._rules: dict[str, RoadRule] = {}
        self._slots: dict[str, _Slots] = {}
        self._slots_before: dict[str, _Slots] = {}
        self._expiries: dict[str, int] = {}
        self._look_ms = -1
        self._now_ms = 0
        self._changes = 0

    @property
    def rules(self) -> Mapping[str, RoadRule]:
        return self._rules

    def set(self, rules: Mapping[str, RoadRule], now_ms: int) -> None:
        """Let these rules hold, and no others."""
        before = self._rules
        self._rules = {name: rule for name, rule in rules.items() if rule != RoadRule()}
        self._expiries = {
            name: rule.expiry_ms for name, rule in self._rules.items() if rule.expiry_ms is not None
        }
        kept = self._slots
        self._slots = {
            name: kept[name]
            if name in kept and before[name].rate == rule.rate
            else self._slots_at_gate(name, rule.rate, now_ms)
            for name, rule in self._rules.items()
            if rule.rate is not None
        }
        self._look_ms = -1
        self._changes += 1
        self.hold(now_ms)

    def _slots_at_gate(self, name: str, rate: int, now_ms: int) -> _Slots:
        """Where slots begin, or go on after a restart: a second behind what may have been shown,
        and behind what stands at the gate."""
        rows = self.at_gate(name)
        gate_ms = int(rows.visible_ms.max(initial=0)) + 1000 / rate
        return _Slots(max(now_ms + 1000.0, gate_ms), int(rows.due_ms.max(initial=-1)))

    def free_slots(self, name: str, now_ms: int) -> None:
        """Give slots anew: those that a topic's messages had are not taken any more."""
        rate = self._rules[name].rate if name in self._rules else None
        if rate is not None:
            self._slots[name] = self._slots_at_gate(name, rate, now_ms)
            self._look_ms = -1

    def at_gate(self, name: str) -> GateRows:
        """What stands at the gate and was sent to a topic."""
        rows = self._gate.rows()
        number = self._timeline.topics.number_of(name)
        return rows.take(np.flatnonzero(self._topics_at_gate(rows) == number))

    def _topics_at_gate(self, rows: GateRows) -> Int32s:
        """The number of each row's topic; of one that the timeline has forgotten, the topic that
        it goes to."""
        topics = self._topics_of(rows.origin)
        unknown = np.flatnonzero(topics < 0)
        if len(unknown):
            numbers, inverse = np.unique(rows.queue[unknown], return_inverse=True)
            known = [
                self._timeline.topics.number_of(self._name_of(number)[0])
                for number in numbers.tolist()
            ]
            topics[unknown] = np.array(known, dtype=np.int32)[inverse]
        return topics

    def _topics_of(self, origins: Int64s) -> Int32s:
        """The number of the topic that each was sent to; -1: not known."""
        units = self._timeline.find(origins)
        topics = np.full(len(origins), -1, dtype=np.int32)
        order = np.argsort(units.seq)
        at = np.searchsorted(units.seq[order], origins)
        known = at < len(order)
        known[known] = units.seq[order][at[known]] == origins[known]
        topics[known] = units.topic[order][at[known]]
        return topics

    # Who may be carried over

    def hold(self, now_ms: int) -> None:
        """Let the timeline know who may be carried over now."""
        if not self._rules:
            self._timeline.held = NOTHING
            return
        if self._look_ms <= now_ms < self._look_ms + LOOK_MS:
            return
        self._look_ms = now_ms
        limits: dict[int, Key] = {}
        for name, rule in self._rules.items():
            number = self._timeline.topics.number_of(name)
            if rule.is_paused:
                limits[number] = (-1, -1)
            elif rule.rate is not None:
                limits[number] = self._limit(number, rule.rate, self._slots[name], now_ms)
        self._timeline.held = self._timeline.held.changed(limits)

    def _limit(self, topic: int, rate: int, slots: _Slots, now_ms: int) -> Key:
        """The last message of a topic that finds a slot."""
        until_ms = now_ms + AHEAD_MS
        gap_ms = 1000 / rate
        first_ms = max(slots.next_ms, float(now_ms))
        count = max(math.floor((until_ms - first_ms) / gap_ms) + 1, 0)
        return self._timeline.key_of(topic, count, until_ms)

    # When they become visible

    def stamp(self, origins: Int64s, due_ms: Int64s, now_ms: int) -> Stamped:
        """Put rows, in due order, into their slots."""
        stamped = Stamped(
            slots_ms=np.zeros(len(origins), dtype=np.int64),
            is_refused=np.zeros(len(origins), dtype=np.bool_),
            is_expired=np.zeros(len(origins), dtype=np.bool_),
        )
        self._slots_before = {name: replace(slots) for name, slots in self._slots.items()}
        topics = self._topics_of(origins)
        for name, rule in self._rules.items():
            own = np.flatnonzero(topics == self._timeline.topics.number_of(name))
            if not len(own):
                continue
            if rule.is_paused:
                stamped.is_refused[own] = True
                continue
            visible_ms = np.maximum(due_ms[own], now_ms)
            latest_ms = due_ms[own] + (_NEVER if rule.expiry_ms is None else rule.expiry_ms)
            if rule.rate is not None:
                rows = (origins[own], due_ms[own], visible_ms, latest_ms)
                stamped.slots_ms[own] = self._placed(name, rule.rate, *rows)
            visible_ms = np.maximum(visible_ms, stamped.slots_ms[own])
            stamped.is_expired[own] = visible_ms > latest_ms
        self._look_ms = -1
        return stamped

    def undo(self) -> None:
        """What was stamped last was not appended: its slots are free again."""
        self._slots, self._slots_before = self._slots_before, {}

    def _placed(  # noqa: PLR0913 - a row's times, side by side
        self,
        name: str,
        rate: int,
        origins: Int64s,
        due_ms: Int64s,
        visible_ms: Int64s,
        latest_ms: Int64s,
    ) -> Int64s:
        """The slots of rows; such as would be too late take nobody's."""
        slots, gap_ms = self._slots[name], 1000 / rate
        placed = due_ms.copy()
        is_early = due_ms < slots.due_ms
        at_gate = self.at_gate(name) if bool(is_early.any()) else GateRows.empty()
        is_early &= due_ms < at_gate.due_ms.max(initial=-1)
        behind, early = np.flatnonzero(~is_early), np.flatnonzero(is_early)
        if len(behind):
            earliest_ms = np.maximum(visible_ms[behind], slots.next_ms)
            times, slots.next_ms = _one_by_one(earliest_ms, latest_ms[behind], gap_ms)
            placed[behind] = times
            in_time = behind[times <= latest_ms[behind]]
            slots.due_ms = max(slots.due_ms, int(due_ms[in_time].max(initial=-1)))
        if len(early):
            placed[early] = _among(at_gate, origins[early], due_ms[early])
            in_time = early[np.maximum(placed, visible_ms)[early] <= latest_ms[early]]
            slots.next_ms += len(in_time) * gap_ms
        return placed

    # What is too late

    def overdue_expired(self, now_ms: int) -> Int64s:
        """Numbers that have expired by now: pending ones, and such as stand at the gate."""
        found = [np.empty(0, dtype=np.int64)]
        if not self._expiries:
            return found[0]
        for name, expiry_ms in self._expiries.items():
            number = self._timeline.topics.number_of(name)
            found.append(self._timeline.pending_before(number, now_ms - expiry_ms))
        rows = self._gate.rows()
        if len(rows):
            found.append(rows.origin[self._is_expired(rows, now_ms)])
        return np.unique(np.concatenate(found))

    def _is_expired(self, rows: GateRows, now_ms: int) -> Flags:
        expired = np.zeros(len(rows), dtype=np.bool_)
        late = np.flatnonzero(rows.due_ms < now_ms - min(self._expiries.values()))
        if not len(late):
            return expired
        topics = self._topics_at_gate(rows.take(late))
        for name, expiry_ms in self._expiries.items():
            own = late[topics == self._timeline.topics.number_of(name)]
            expired[own] = rows.due_ms[own] < now_ms - expiry_ms
        return expired

    def since_ms(self, topic: str, due_ms: Int64s, visible_ms: Int64s) -> Int64s:
        """From when on rows of a topic count as late: what is held back by a rule is not."""
        rule = self._rules.get(topic)
        if rule is None:
            return due_ms
        return visible_ms if rule.rate is not None else np.maximum(due_ms, rule.resumed_ms)

    # For the gate: as laggards, and what has expired

    @property
    def version(self) -> int:
        return self._laggards.version + self._changes

    def __len__(self) -> int:
        return len(self._laggards) + len(self._expiries)

    def look(self, now_ms: int) -> None:
        """Know who is late by now."""
        self._now_ms = now_ms
        self._laggards.look(now_ms)

    def expire(self) -> None:
        """Something at the gate has expired and is gone: what stood behind it is free."""
        self._changes += 1

    def blocks(self, rows: GateRows) -> Flags:
        """Which rows must not be shown: they wait for somebody, or have expired."""
        blocked = self._laggards.blocks(rows)
        return blocked | self._is_expired(rows, self._now_ms) if self._expiries else blocked


def _one_by_one(
    earliest_ms: npt.NDArray[np.float64], latest_ms: Int64s, gap_ms: float
) -> tuple[Int64s, float]:
    """Times one gap apart for rows in this order, and the next free one.

    A row whose time is after its latest gets that time, and the one behind it may have it too.
    """
    steps = gap_ms * np.arange(len(earliest_ms))
    times = np.maximum.accumulate(earliest_ms - steps) + steps
    next_ms = float(times[-1]) + gap_ms
    if bool((times > latest_ms).any()):
        next_ms, rows = 0.0, zip(earliest_ms.tolist(), latest_ms.tolist(), strict=True)
        for row, (at_ms, end_ms) in enumerate(rows):
            times[row] = next_ms = max(at_ms, next_ms)
            next_ms += gap_ms if next_ms - _ROUNDING <= end_ms else 0.0
    return np.ceil(times - _ROUNDING).astype(np.int64), next_ms


def _among(at_gate: GateRows, origins: Int64s, due_ms: Int64s) -> Int64s:
    """When rows may become visible that are due among those at the gate: not before any that is due
    earlier. If others of their queue are held back for them, that is a time that has passed."""
    order = np.lexsort(
        (np.concatenate([at_gate.origin, origins]), np.concatenate([at_gate.due_ms, due_ms]))
    )
    placed = np.concatenate([at_gate.visible_ms, due_ms])
    placed[order] = np.maximum.accumulate(placed[order])
    return placed[len(at_gate) :]

"""All lanes, and where they stand beside the other protocol's offsets.

A group may change its clients from one protocol to the other, and back. What it has consumed is
therefore told both ways, and neither way skips a message that nobody has consumed:

    to the offsets      a lane's floor: everything before is done. From the first receive on, so a
                        group that only received and never acknowledged still begins there.
    from the offsets    an offset beyond the floor: clients of the other protocol have consumed up
                        to there, so what was held before it is done (`follow`).

Messages that 4.x clients refused wait in `%RETRY%group`, those of all topics in one queue. 5.x
clients receive by topic, so each topic has a lane of its own through that queue, which takes what
came from its topic (RETRY_TOPIC) and passes over the rest. A lane that meets a message of a topic
without a lane makes one that begins there; the offset of the retry queue is the lowest floor of
them all, and nothing is passed over for good.

An operator's reset begins anew elsewhere: with a new lane, so that receipts from before are void.

Any thread may call; the lock of a set of lanes is taken before the table's, never the other way
round.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.inflight.lane import ENTRY_SIZE, Lane
from dueline.broker.inflight.lane_set import LaneSet, QueueReader
from dueline.broker.inflight.log import (
    Change,
    LaneName,
    ReceiptLog,
    advance,
    drop,
    finish,
    hold,
    lane_change,
)
from dueline.budget import Budget
from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import check_topic

__all__ = ["LANE_COUNT_MAX", "Lanes"]

LANE_COUNT_MAX: Final = 200_000
LANES_SIZE_BYTES_MAX: Final = 256 << 20
"""Of all lanes, and of the messages that groups hold."""
_LANE_SET_SIZE: Final = 1_536
_LANE_SIZE: Final = 1_024

_Source = tuple[str, str, int]
"""Group, topic and queue that a lane reads."""


class Lanes:
    """Every lane by its number, and by group and topic."""

    def __init__(
        self, log: ReceiptLog, store: QueueReader, offsets: ConsumerOffsets | None
    ) -> None:
        self._log = log
        self._store = store
        self._offsets = offsets
        self._sets: dict[tuple[str, str], LaneSet] = {}
        self._lanes: dict[int, tuple[LaneSet, Lane]] = {}
        self._readers: dict[_Source, list[Lane]] = {}
        self._consumed: dict[_Source, int] = {}
        """Consumed by the other protocol, whatever the lanes say."""
        self._next_number = 0
        self.budget: Final = Budget("held messages", LANES_SIZE_BYTES_MAX)
        self._lock = threading.Lock()
        for lane, name in log.open():
            self._adopt(lane, name)
        if offsets is not None:
            self._tell_all(offsets)

    def _adopt(self, lane: Lane, name: LaneName) -> None:
        lane_set = self._sets.get((name.group, name.topic)) or self._new_set(name)
        topic, queue_id = lane_set.source(lane)
        end = self._store.offset_range(topic, queue_id)[1]
        # Messages that were received and are gone: only with `flush = async`. The queue hands out
        # their offsets again, so what is known about those is about other messages.
        if lane.cursor > end:
            lane.cursor = end
            for offset in [offset for offset in lane.entries if offset >= end]:
                lane.finish(offset)
        if (
            self._offsets is not None
            and self._offsets.get(name.group, topic).get(queue_id, 0) > end
        ):
            self._offsets.set(name.group, topic, {queue_id: end})
        replaced = lane_set.lanes.get(lane.queue_id)
        if replaced is not None:
            self._drop(lane_set, replaced)
        self._enter(lane_set, lane)
        self._next_number = max(self._next_number, lane.number + 1)

    def _tell_all(self, offsets: ConsumerOffsets) -> None:
        """Offsets are saved now and then, receipts at once: after a kill they know better."""
        for (group, topic, queue_id), lanes in self._readers.items():
            known = offsets.get(group, topic).get(queue_id)
            lowest = min(lane.published for lane in lanes)
            if known is None or known < lowest:
                offsets.set(group, topic, {queue_id: lowest})

    # Finding

    def known(self, group: str, topic: str) -> LaneSet | None:
        """The lanes of a group, if it has ever received something of the topic."""
        return self._sets.get((group, topic))

    def of(self, group: str, topic: str) -> LaneSet:
        lane_set = self._sets.get((group, topic))
        if lane_set is None:
            with self._lock:
                lane_set = self._sets.get((group, topic))
                if lane_set is None:
                    if not self.budget.has_room(_LANE_SET_SIZE):
                        raise self.budget.error(_LANE_SET_SIZE)
                    lane_set = self._new_set(LaneName(group=group, topic=topic))
        return lane_set

    def _new_set(self, name: LaneName) -> LaneSet:
        self.budget.add(_LANE_SET_SIZE + 2 * (len(name.group) + len(name.topic)))
        lane_set = self._sets[name.group, name.topic] = LaneSet(name, self._store, self._log.epoch)
        return lane_set

    def check_room(self) -> None:
        """Raises LimitExceeded if nobody can be given a message for want of memory."""
        if not self.budget.has_room(ENTRY_SIZE):
            raise self.budget.error(ENTRY_SIZE)

    def all(self) -> list[LaneSet]:
        with self._lock:
            return list(self._sets.values())

    def find(self, number: int) -> tuple[LaneSet, Lane] | None:
        return self._lanes.get(number)

    def find_by_queue(self, group: str, topic: str, queue_id: int) -> Lane | None:
        """A group's lane of a queue; nothing is made for those that have none."""
        lane_set = self._sets.get((group, topic))
        return lane_set.lanes.get(queue_id) if lane_set is not None else None

    def state(self) -> Iterator[Change]:
        """Everything anew, for a file that is rewritten."""
        with self._lock:
            lanes = list(self._lanes.values())
        for lane_set, lane in lanes:
            with lane_set.lock:
                yield lane_change(lane, lane_set.name)
                yield from [hold(lane, offset) for offset in lane.entries]

    def lane(self, lane_set: LaneSet, queue_id: int, *, cursor: int | None = None) -> Lane:
        """The lane of a queue, made if there is none.

        Args:
            cursor: where a new one begins; None: where the group stands.

        Raises:
            LimitExceeded: too many lanes.
        """
        found = lane_set.lanes.get(queue_id)
        if found is not None:
            return found
        with self._lock:
            # Who meets a message of another topic makes that topic's lane, under its own lock.
            found = lane_set.lanes.get(queue_id)
            if found is not None:
                return found
            lane = self._new(lane_set, queue_id, cursor)
            self._tell(_source(lane_set, lane))
            return lane

    def make_for_others(self, lane_set: LaneSet, lane: Lane, others: Mapping[str, int]) -> None:
        """Lanes for topics whose messages were met in the retry queue, by their first offset."""
        for topic, offset in others.items():
            try:
                check_topic(topic)
            except InvalidRequest:
                continue  # nobody can receive from such a topic
            self.lane(self.of(lane_set.name.group, topic), lane.queue_id, cursor=offset)

    def _new(self, lane_set: LaneSet, queue_id: int, cursor: int | None) -> Lane:
        if len(self._lanes) >= LANE_COUNT_MAX:
            raise LimitExceeded(
                f"receiving groups and queues: expected at most {LANE_COUNT_MAX}, found as many",
                limit=LANE_COUNT_MAX,
                found=len(self._lanes) + 1,
            )
        if not self.budget.has_room(_LANE_SIZE):
            raise self.budget.error(_LANE_SIZE)
        lane = Lane(number=self._next_number, queue_id=queue_id, cursor=0)
        lane.cursor = self._first_offset(lane_set, lane) if cursor is None else cursor
        self._next_number += 1
        # In the file before anybody can hold something by it.
        self._log.append([lane_change(lane, lane_set.name)])
        self._enter(lane_set, lane)
        return lane

    def _enter(self, lane_set: LaneSet, lane: Lane) -> None:
        lane.published = lane.floor
        self._lanes[lane.number] = (lane_set, lane)
        lane_set.lanes[lane.queue_id] = lane
        self.budget.add(_LANE_SIZE)
        lane.count_in(self.budget)
        self._readers.setdefault(_source(lane_set, lane), []).append(lane)

    def _drop(self, lane_set: LaneSet, lane: Lane) -> None:
        del self._lanes[lane.number]
        self.budget.give(_LANE_SIZE)
        lane.count_out()
        self._readers[_source(lane_set, lane)].remove(lane)

    def _first_offset(self, lane_set: LaneSet, lane: Lane) -> int:
        """Where a group begins: where it stood with another protocol; else as RocketMQ does, at
        the end of a queue, but at the beginning of one that has lost nothing yet.

        What waits in the group's own retry queue is the group's from the beginning."""
        topic, queue_id = lane_set.source(lane)
        start, end = self._store.offset_range(topic, queue_id)
        if self._offsets is not None:
            known = self._offsets.get(lane_set.name.group, topic).get(queue_id)
            if known is not None:
                return min(max(known, start), end)
        return start if lane.is_retry or start == 0 else end

    # The other protocol's offsets

    def follow(self, lane_set: LaneSet, lanes: Iterable[Lane]) -> None:
        """Take over what the other protocol has consumed; the lanes are locked."""
        if self._offsets is None:
            return
        tables: dict[str, dict[int, int]] = {}
        for lane in lanes:
            topic, queue_id = lane_set.source(lane)
            if topic not in tables:
                tables[topic] = self._offsets.get(lane_set.name.group, topic)
            known = tables[topic].get(queue_id)
            if known is not None and known > lane.floor:
                self._move(lane_set, lane, known)

    def _move(self, lane_set: LaneSet, lane: Lane, known: int) -> None:
        # An offset beyond the end is that of messages that are gone (see `_adopt`).
        target = min(known, self._store.offset_range(*lane_set.source(lane))[1])
        done = [offset for offset in lane.entries if offset < target]
        for offset in done:
            lane.finish(offset)
        lane.advance(target)
        self._log.append([*(finish(lane, offset) for offset in done), advance(lane)])
        with self._lock:
            source = _source(lane_set, lane)
            self._consumed[source] = max(self._consumed.get(source, 0), target)
        self._publish(lane_set, lane)

    def publish(self, lane_set: LaneSet, lanes: Iterable[Lane]) -> None:
        """Tell how far lanes are, where that has changed; they are locked."""
        for lane in lanes:
            if lane.floor != lane.published:
                self._publish(lane_set, lane)

    def _publish(self, lane_set: LaneSet, lane: Lane) -> None:
        with self._lock:
            lane.published = lane.floor
            self._tell(_source(lane_set, lane))

    def _tell(self, source: _Source) -> None:
        """Set a queue's offset; the table is locked."""
        if self._offsets is not None:
            group, topic, queue_id = source
            lowest = min(lane.published for lane in self._readers[source])
            offset = max(lowest, self._consumed.get(source, 0))
            self._offsets.set(group, topic, {queue_id: offset})

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Begin anew at other offsets, where the group has lanes: receipts from before are void."""
        lane_set = self._sets.get((group, topic))
        if lane_set is None:
            return
        with lane_set.lock:
            for queue_id, offset in offsets.items():
                lane = lane_set.lanes.get(queue_id)
                if lane is None:
                    continue
                with self._lock:
                    del lane_set.lanes[queue_id]
                    self._drop(lane_set, lane)
                    self._consumed.pop(_source(lane_set, lane), None)
                    self._new(lane_set, queue_id, offset)
        lane_set.wake()

    def forget(self, group: str) -> None:
        """A group is no more: its receipts are void, and it holds nothing."""
        for lane_set in [each for each in self.all() if each.name.group == group]:
            with lane_set.lock:
                for queue_id, lane in list(lane_set.lanes.items()):
                    with self._lock:
                        del lane_set.lanes[queue_id]
                        self._drop(lane_set, lane)
                        self._consumed.pop(_source(lane_set, lane), None)
                        self._log.append([drop(lane)])


def _source(lane_set: LaneSet, lane: Lane) -> _Source:
    return (lane_set.name.group, *lane_set.source(lane))

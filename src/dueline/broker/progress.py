"""How far consumer groups are: asked, committed, reset by an operator, and shown to people.

A group's offset in a queue is that of the next message it reads. Clients of all protocols share one
table (`dueline.broker.consumer_offsets`). Clients commit what they have consumed, which lies inside
the queue: an offset beyond its end would skip messages that are yet to come, so it is refused.

Times are when a message became visible; 0 where there is none. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dueline.admission import check_queue_id
from dueline.broker.consumer_groups import ConsumerGroups
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.groups import Groups
from dueline.broker.names import is_system_group
from dueline.broker.reading import Reading
from dueline.broker.topics import Topics
from dueline.errors import InvalidRequest

__all__ = ["Progress", "QueueLag", "QueueTimes"]

YOUNG_COUNT_MAX: Final = 300_000
"""A new group reads a queue that still has its first message, and no more than these, whole.

RocketMQ does so while the first message is in memory, whatever the group asks for.
"""

TO_END_MS: Final = -1
"""A reset to this time means the end of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLag:
    """How far a group is in a queue that ends at `end`."""

    offset: int
    end: int
    consumed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTimes:
    """The times of a queue's first, last, last consumed and next message."""

    first_ms: int
    last_ms: int
    consumed_ms: int
    next_ms: int


class Progress:
    """The verbs about offsets of groups."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        reading: Reading,
        topics: Topics,
        groups: Groups,
        consumer_groups: ConsumerGroups,
    ) -> None:
        self._offsets = offsets
        self._reading = reading
        self._topics = topics
        self._groups = groups
        self._consumer_groups = consumer_groups

    # Clients

    def offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where a group goes on; None if it has never committed."""
        return self._offsets.get(group, topic).get(queue_id)

    def first_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The same, with 0 for a group that is new to a young queue, which it reads whole."""
        offset = self.offset(group, topic, queue_id)
        if offset is None:
            start, end = self._reading.offset_range(topic, queue_id)
            if start == 0 and end <= YOUNG_COUNT_MAX:
                return 0
        return offset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A group has consumed all before an offset.

        Raises:
            NotFound: no such topic, or no such group where groups are not made by being used.
            InvalidRequest: no such queue, an offset outside of it, or the broker's own group.
        """
        self._consumer_groups.ensure(group)
        check_queue_id(topic, queue_id, self._topics.find(topic).queue_count)
        _, end = self._reading.offset_range(topic, queue_id)
        if not 0 <= offset <= end:
            raise InvalidRequest(
                f"offset of consumer group {group} in {topic}/{queue_id}: expected 0 to {end}, "
                f"found {offset}",
                what="offset",
                found=offset,
            )
        self._offsets.set(group, topic, {queue_id: offset})

    # Operators

    def reset(  # noqa: PLR0913 - whom, where and to what, mostly keyword-only
        self,
        group: str,
        topic: str,
        *,
        queue_id: int | None = None,
        offset: int | None = None,
        timestamp_ms: int = TO_END_MS,
        may_skip: bool = True,
    ) -> dict[int, int]:
        """Let a group go on from an offset or a time; returns where, on disk.

        Args:
            queue_id: None: all queues.
            may_skip: also forward.

        Raises:
            NotFound: no such topic or group.
            InvalidRequest: no such queue, or the broker's own group.
        """
        self._consumer_groups.ensure(group)
        count = self._topics.find(topic).read_queue_nums
        queue_ids: Iterable[int] = range(count)
        if queue_id is not None:
            check_queue_id(topic, queue_id, count)
            queue_ids = (queue_id,)
        known = {} if may_skip else self._offsets.get(group, topic)
        wanted = {}
        for each in queue_ids:
            target = self._target(topic, each, offset, timestamp_ms)
            wanted[each] = min(target, known.get(each, target))
        self._offsets.reset(group, topic, wanted)
        self._offsets.save()
        return wanted

    def _target(self, topic: str, queue_id: int, offset: int | None, timestamp_ms: int) -> int:
        start, end = self._reading.offset_range(topic, queue_id)
        if offset is not None:
            return min(max(offset, start), end)
        if timestamp_ms == TO_END_MS:
            return end
        return self._reading.offset_at(topic, queue_id, timestamp_ms)

    # Figures

    def topics_of(self, group: str) -> list[str]:
        """What a group has read, and what it subscribes to now."""
        found = set(self._offsets.topics_of(group))
        known = self._groups.get(group)
        if known is not None:
            found |= set(known.subscriptions)
        return sorted(topic for topic in found if self._topics.get(topic) is not None)

    def of_topic(self, group: str, topic: str) -> dict[int, QueueLag]:
        """How far a group is in each queue of a topic.

        Raises:
            NotFound: no such topic.
        """
        offsets = self._offsets.get(group, topic)
        found = {}
        for queue_id in range(self._topics.find(topic).queue_count):
            offset = offsets.get(queue_id, 0)
            found[queue_id] = QueueLag(
                offset=offset,
                end=self._reading.offset_range(topic, queue_id)[1],
                consumed_ms=self._reading.shown_ms(topic, queue_id, offset - 1),
            )
        return found

    def of_groups(self) -> Mapping[str, dict[str, dict[int, QueueLag]]]:
        """The same for every group of clients that has an offset: by group and topic."""
        groups = sorted({group for _, group in self._offsets.all() if not is_system_group(group)})
        return {
            group: {topic: self.of_topic(group, topic) for topic in self.topics_of(group)}
            for group in groups
        }

    def times(self, group: str, topic: str) -> dict[int, QueueTimes]:
        """Between which times the messages of each queue lie, and where the group is.

        Raises:
            NotFound: no such topic.
        """
        offsets = self._offsets.get(group, topic)
        found = {}
        for queue_id in range(self._topics.find(topic).queue_count):
            start, end = self._reading.offset_range(topic, queue_id)
            offset = offsets.get(queue_id, 0)
            first, last, consumed, following = (
                self._reading.shown_ms(topic, queue_id, at)
                for at in (start, end - 1, offset - 1, offset)
            )
            found[queue_id] = QueueTimes(
                first_ms=first, last_ms=last, consumed_ms=consumed, next_ms=following
            )
        return found

"""Topics and consumer groups as people look them up: by name, a page at a time, with figures.

A page is what comes after a name, so that a list can be walked while it changes: nothing that was
there all the time is left out or comes twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from dueline.broker.group_configs import GroupTable
from dueline.broker.groups import Groups, Member
from dueline.broker.measures import Measures
from dueline.broker.names import dead_topic, is_system_group, is_system_topic
from dueline.broker.progress import Progress
from dueline.broker.reading import Reading
from dueline.broker.topics import Topics
from dueline.errors import NotFound

__all__ = ["Directory", "GroupEntry", "GroupTopic", "Page", "TopicEntry", "page_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Names, and after which one the next page begins; None at the end."""

    names: Sequence[str]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """A topic; `first_ms` is when its oldest message that is kept became visible, `last_ms` when
    its last one did."""

    topic: str
    queue_count: int
    message_count: int
    pending_count: int
    first_ms: int | None
    last_ms: int | None
    groups: tuple[str, ...]
    is_internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTopic:
    """How far a group is in a topic."""

    topic: str
    lag: int
    consumed_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEntry:
    """A group, its clients that are here, and how far it is."""

    group: str
    retry_count_max: int
    dead_letter_count: int
    clients: tuple[Member, ...]
    topics: tuple[GroupTopic, ...]


def page_of(names: Sequence[str], *, after: str, count_max: int) -> Page:
    """The part of a sorted list that follows a name.

    >>> page_of(["a", "b", "c"], after="a", count_max=1)
    Page(names=['b'], next='b')
    >>> page_of(["a", "b", "c"], after="b", count_max=1)
    Page(names=['c'], next=None)
    """
    start = bisect_right(names, after) if after else 0
    end = start + count_max
    return Page(names=names[start:end], next=names[end - 1] if end < len(names) else None)


class Directory:
    """Lists of one broker; any thread may call."""

    def __init__(  # noqa: PLR0913 - the tables it reads, mostly keyword-only
        self,
        topics: Topics,
        groups: Groups,
        group_table: GroupTable,
        *,
        reading: Reading,
        progress: Progress,
        measures: Measures,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._group_table = group_table
        self._reading = reading
        self._progress = progress
        self._measures = measures

    # Topics

    def topic_names(self, *, contains: str = "", is_internal: bool = False) -> list[str]:
        """Of all topics, or of those that are not for retries, dead letters and the broker."""
        names = {*self._topics.names(), *self._measures.pending_by_topic()}
        return sorted(
            name for name in names if contains in name and (is_internal or not _is_internal(name))
        )

    def topic(self, name: str) -> TopicEntry:
        """One topic.

        Raises:
            NotFound: there is none.
        """
        config = self._topics.get(name)
        waiting = self._measures.pending_by_topic()
        if config is None and name not in waiting:
            self._topics.find(name)
        queue_count = config.queue_count if config is not None else 0
        ranges = [self._reading.offset_range(name, each) for each in range(queue_count)]
        places = [(queue_id, *each) for queue_id, each in enumerate(ranges) if each[0] < each[1]]
        firsts_ms = [self._reading.shown_ms(name, queue_id, start) for queue_id, start, _ in places]
        lasts_ms = [self._reading.shown_ms(name, queue_id, end - 1) for queue_id, _, end in places]
        return TopicEntry(
            topic=name,
            queue_count=queue_count,
            message_count=sum(end - start for start, end in ranges),
            pending_count=waiting.get(name, 0),
            first_ms=min(filter(None, firsts_ms), default=None),
            last_ms=max(filter(None, lasts_ms), default=None),
            groups=tuple(sorted(self._groups.consumer_groups_of(name))),
            is_internal=_is_internal(name),
        )

    # Groups

    def group_names(self, *, contains: str = "") -> list[str]:
        names = self._group_table.all().entries
        return sorted(name for name in names if contains in name and not is_system_group(name))

    def group(self, name: str) -> GroupEntry:
        """One group.

        Raises:
            NotFound: there is none.
        """
        config = self._group_table.get(name)
        if config is None or is_system_group(name):
            raise NotFound(
                f"consumer group {name[:200]}: expected one that exists, found none", what="group"
            )
        start, end = self._reading.offset_range(dead_topic(name), 0)
        return GroupEntry(
            group=name,
            retry_count_max=config.retry_max_times,
            dead_letter_count=end - start,
            clients=tuple(self._groups.members(name)),
            topics=tuple(self._place(name, topic) for topic in self._progress.topics_of(name)),
        )

    def _place(self, group: str, topic: str) -> GroupTopic:
        queues = self._progress.of_topic(group, topic).values()
        return GroupTopic(
            topic=topic,
            lag=sum(max(each.end - each.offset, 0) for each in queues),
            consumed_ms=max((each.consumed_ms for each in queues), default=0) or None,
        )


def _is_internal(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith("%")

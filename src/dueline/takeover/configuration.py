"""Topics, consumer groups and their offsets, from RocketMQ's configuration into ours.

RocketMQ's own topics and groups stay behind. What exists here already is kept and only made wide
enough: a topic gets the larger number of queues. A group goes on where it was; if it still has
messages to read here from before, it goes on there, and may see some that were taken over again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dueline.broker.config_table import Entry, entry_from_json
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.group_configs import GroupConfig, GroupTable
from dueline.broker.names import is_system_group, is_system_topic
from dueline.broker.topics import Permission, TopicConfig, Topics
from dueline.errors import InvalidRequest
from dueline.message import QUEUE_COUNT_MAX, check_topic
from dueline.store import Files, Store
from dueline.store.imports import ImportEntry
from dueline.takeover.rows import group_offsets, is_internal
from dueline.takeover.source import Source
from dueline.takeover.survey import QueueSpan

if TYPE_CHECKING:
    from dueline.takeover.moving import Moved

__all__ = ["Tables", "offset_here"]

E = TypeVar("E", bound=Entry)

_ROCKETMQ_TOPICS: Final = frozenset({"BenchmarkTest"})
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


class Tables:
    """The configuration of one source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def counts(self) -> tuple[int, int]:
        """How many topics and groups would be taken over."""
        return len(self._topics()), len(self._groups())

    def apply(
        self, store: Store, folder: Path, entry: ImportEntry, moved: Moved, *, files: Files
    ) -> None:
        """Set everything; on disk when it returns."""
        topics = Topics(store.path / "config" / "topics.json", files, clock=store.clock)
        widths: dict[str, int] = {}
        for topic, queue_id in store.queues():
            widths[topic] = max(queue_id + 1, widths.get(topic, 0))
        for config in self._topics():
            name = config.topic_name
            topics.put(_wider(config, topics.get(name), width=widths.get(name, 0)))
        topics.save()
        moved.topic_count = len(self._topics())
        groups = GroupTable(
            store.path / "config" / "subscriptionGroup.json", files, clock=store.clock
        )
        for group in self._groups():
            if groups.get(group.group_name) is None:
                groups.put(group)
        groups.save()
        moved.group_count = len(self._groups())
        offsets = ConsumerOffsets(folder / "consumerOffset.json", files)
        if entry.choice["messages"] != "none":
            self._set_offsets(offsets, entry, moved)
        offsets.save()

    def _set_offsets(self, here: ConsumerOffsets, entry: ImportEntry, moved: Moved) -> None:
        for topic, groups in group_offsets(self._source).items():
            for group, offsets in groups.items():
                queues = entry.queues.get(topic, {})
                if is_system_group(group) or is_internal(topic) or not _is_name(group):
                    continue
                known = here.get(group, topic)
                for queue_id, offset in offsets.items():
                    if str(queue_id) not in queues:
                        continue
                    _, first_here = queues[str(queue_id)]
                    if known.get(queue_id, first_here) < first_here:
                        moved.kept_offset_count += 1
                        continue
                    span = moved.survey.queues.get((topic, queue_id))
                    there = offset_here(offset, span, first_here)
                    here.set(group, topic, {queue_id: there})
                    moved.offset_count += 1

    def _topics(self) -> list[TopicConfig]:
        table = self._source.table("topics.json", "topicConfigTable") or {}
        found = [_config(TopicConfig, name, one, "topicName") for name, one in table.items()]
        return [
            config
            for config in found
            if not config.perm & Permission.INHERIT
            and not is_internal(config.topic_name)
            and not is_system_topic(config.topic_name)
            and config.topic_name not in _ROCKETMQ_TOPICS
            and not config.topic_name.endswith(_REPLY_SUFFIX)
            and _is_name(config.topic_name)
        ]

    def _groups(self) -> list[GroupConfig]:
        table = self._source.table("subscriptionGroup.json", "subscriptionGroupTable") or {}
        found = [_config(GroupConfig, name, one, "groupName") for name, one in table.items()]
        return [
            config
            for config in found
            if not is_system_group(config.group_name) and _is_name(config.group_name)
        ]


def offset_here(offset: int, span: QueueSpan | None, first_here: int) -> int:
    """Where a group goes on that stood at `offset` there; never behind what it has not read.

    Where messages of the queue are missing, nobody knows how many of them are before `offset`: the
    group then goes on as if all were, and may see as many again.
    """
    if span is None:
        return first_here
    if offset > span.last:
        return first_here + span.count
    return first_here + max(0, offset - span.first - span.missing_count)


def _wider(config: TopicConfig, existing: TopicConfig | None, *, width: int) -> TopicConfig:
    """A topic as it is here, or was there, with enough queues for both."""
    reads, writes = max(config.read_queue_nums, width), config.write_queue_nums
    if existing is not None:
        reads = max(reads, existing.read_queue_nums)
        writes = max(writes, existing.write_queue_nums)
    return replace(
        existing or config,
        read_queue_nums=min(reads, QUEUE_COUNT_MAX),
        write_queue_nums=min(writes, QUEUE_COUNT_MAX),
    )


def _config(kind: type[E], name: str, value: Any, field: str) -> E:
    """One entry of a table; the name in it is optional."""
    if isinstance(value, dict):
        value = {**value, field: value.get(field) or name}
    return entry_from_json(kind, value, f"configuration of {name}")


def _is_name(name: str) -> bool:
    try:
        check_topic(name)
    except InvalidRequest:
        return False
    return True

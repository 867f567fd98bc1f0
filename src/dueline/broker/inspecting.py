"""Everything that is known of one message: its state, its times, where it stands, who has read it.

A delayed message is found by key, unique id or offset id, also when it is done, as long as the
store remembers it. One that was never delayed is found in its topic, or by its offset id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.delayed import Delayed
from dueline.broker.delayed_states import states_of
from dueline.broker.names import is_system_group
from dueline.broker.reading import Reading
from dueline.errors import InvalidRequest, NotFound
from dueline.message import decode_properties, parse_message_id
from dueline.store import PendingMessage, Record
from dueline.store.pending import message_of

__all__ = ["Inspecting", "Place", "Story"]

COUNT_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where consumers find a message, and since when."""

    topic: str
    queue_id: int
    offset: int
    visible_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One message; `number` and `due_ms` are those of a delayed one."""

    number: int | None
    state: str
    topic: str
    queue_id: int
    unique_id: str
    properties: dict[str, str]
    born_ms: int
    accepted_ms: int
    due_ms: int | None
    place: Place | None
    readers: dict[str, bool]
    """By group: whether it is past the message."""
    body: bytes


class Inspecting:
    """Looks messages up; any thread may call."""

    def __init__(self, delayed: Delayed, reading: Reading, offsets: ConsumerOffsets) -> None:
        self._delayed = delayed
        self._reading = reading
        self._offsets = offsets

    def stories(self, name: str, *, topic: str | None = None) -> list[Story]:
        """The messages of this name, the newest first; none if there is none."""
        found = self._delayed.find(name)[:COUNT_MAX]
        stories = [
            self._delayed_story(each, state)
            for each, state in zip(found, states_of(found), strict=True)
            if topic in (None, each.topic)
        ]
        known = {story.place for story in stories if story.place is not None}
        others = [self._story(record) for record in self._records(name, topic)]
        return stories + [other for other in others if other.place not in known]

    def _records(self, name: str, topic: str | None) -> list[Record]:
        """Visible messages, whether they were delayed or not."""
        if topic is not None:
            return self._reading.by_key(topic, name, count_max=COUNT_MAX)
        try:
            _, position = parse_message_id(name)
            return [self._reading.by_position(position)]
        except (InvalidRequest, NotFound):
            return []

    def _delayed_story(self, message: PendingMessage, state: str) -> Story:
        record = message.record
        place = self._place(message) if state == "delivered" else None
        plain = message_of(record)
        return Story(
            number=message.seq,
            state=state,
            topic=message.topic,
            queue_id=message.queue_id,
            unique_id=message.unique_id,
            properties=dict(plain.properties),
            born_ms=record.born_ms,
            accepted_ms=record.store_ms,
            due_ms=message.due_ms,
            place=place,
            readers=self._readers(place),
            body=record.body,
        )

    def _story(self, record: Record) -> Story:
        properties = decode_properties(record.properties)
        place = _place_of(record)
        return Story(
            number=record.seq,
            state="delivered",
            topic=place.topic,
            queue_id=place.queue_id,
            unique_id=properties.get("UNIQ_KEY", ""),
            properties=properties,
            born_ms=record.born_ms,
            accepted_ms=record.born_ms if record.seq is not None else record.store_ms,
            due_ms=record.store_ms if record.seq is not None else None,
            place=place,
            readers=self._readers(place),
            body=record.body,
        )

    def _place(self, message: PendingMessage) -> Place | None:
        """Where it was appended; None if the transform has sent it elsewhere."""
        for record in self._reading.by_key(message.topic, message.unique_id):
            if record.seq == message.seq:
                return _place_of(record)
        return None

    def _readers(self, place: Place | None) -> dict[str, bool]:
        if place is None:
            return {}
        return {
            group: offsets.get(place.queue_id, 0) > place.offset
            for (topic, group), offsets in sorted(self._offsets.all().items())
            if topic == place.topic and not is_system_group(group)
        }


def _place_of(record: Record) -> Place:
    return Place(
        topic=record.topic.decode("utf-8", "replace"),
        queue_id=record.queue_id,
        offset=record.queue_offset,
        visible_ms=record.store_ms,
    )

"""A group's dead letters: to read, and to send again.

What is sent again goes to the group alone, as one more attempt, a second later; or to its topic as
a new message, which every group of it reads. It stays in the list: a topic is a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dueline.admission import RESERVED_PROPERTIES
from dueline.broker import retries
from dueline.broker.group_configs import GroupTable
from dueline.broker.names import dead_topic
from dueline.broker.reading import Pull, Reading
from dueline.errors import NotFound
from dueline.message import Message, decode_properties
from dueline.store import Record
from dueline.store import record as records

__all__ = ["DeadLetters", "Letter", "Letters"]

RESEND_LEVEL: Final = 1
_KEPT_NAMES: Final = frozenset({"KEYS", "TAGS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter, at an offset of the group's; `topic` is the one that it was sent to."""

    offset: int
    unique_id: str
    topic: str
    keys: str
    attempts: int
    died_ms: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """Some dead letters, the newest first; before which offset there are more, or None."""

    letters: list[Letter]
    next: int | None


class DeadLetters:
    """The dead letters of one broker; any thread may call."""

    def __init__(self, reading: Reading, group_table: GroupTable) -> None:
        self._reading = reading
        self._group_table = group_table

    def newest(self, group: str, *, before: int | None, count_max: int) -> Letters:
        """What a group could not handle, before an offset of its dead letters.

        Raises:
            NotFound: no such group.
        """
        found, following = self._read(group, before=before, count_max=count_max)
        return Letters(letters=[_letter(record) for record in found], next=following)

    def _read(
        self, group: str, *, before: int | None, count_max: int
    ) -> tuple[list[Record], int | None]:
        self._group_table.existing(group)
        topic = dead_topic(group)
        start, end = self._reading.offset_range(topic, 0)
        end = end if before is None else min(end, before)
        offset = first = max(start, end - count_max)
        found: list[Record] = []
        while offset < end:
            pull = Pull(topic=topic, queue_id=0, count_max=end - offset, size_bytes_max=16 << 20)
            result = self._reading.pull(pull, offset).result
            if result.next_offset <= offset:
                break
            found += map(records.decode, result.records)
            offset = result.next_offset
        kept = [each for each in found if each.queue_offset < end]
        return kept[::-1], first if first > start else None

    def again(self, group: str, offset: int, *, is_to_topic: bool) -> Message:
        """The message that a dead letter comes again as.

        Raises:
            NotFound: no such group, or no dead letter there.
        """
        config = self._group_table.existing(group)
        found, _ = self._read(group, before=offset + 1, count_max=1)
        if not found or found[0].queue_offset != offset:
            raise NotFound(
                f"dead letter {offset} of {group}: expected one that is kept, found none; it may "
                "be too old",
                what="dead letter",
            )
        (record,) = found
        if is_to_topic:
            return _as_new(record)
        attempts_max = record.reconsume_times + 2
        return retries.refused(record, config, delay_level=RESEND_LEVEL, attempts_max=attempts_max)


def _letter(record: Record) -> Letter:
    properties = decode_properties(record.properties)
    return Letter(
        offset=record.queue_offset,
        unique_id=properties.get("UNIQ_KEY", ""),
        topic=_origin_of(record),
        keys=properties.get("KEYS", ""),
        attempts=record.reconsume_times,
        died_ms=record.store_ms,
        body=bytes(record.body),
    )


def _origin_of(record: Record) -> str:
    """The topic that a dead letter was sent to."""
    properties = decode_properties(record.properties)
    return properties.get("DLQ_ORIGIN_TOPIC", record.topic.decode("utf-8", "replace"))


def _as_new(record: Record) -> Message:
    """The same message as its sender would send it again."""
    properties = {
        name: value
        for name, value in decode_properties(record.properties).items()
        if name in _KEPT_NAMES or name not in RESERVED_PROPERTIES
    }
    return Message(topic=_origin_of(record), body=record.body, properties=properties)

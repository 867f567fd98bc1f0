"""What becomes of a message that a consumer refused: it comes again later, or goes to rest.

A refused record is sent anew to `%RETRY%group`, delayed by level 3 the first time, 4 the second and
so on, and its count of attempts goes up. After the group's maximum it goes to `%DLQ%group`, which
nobody consumes unless they ask for it. Both keep body, keys, tags and the unique id; the first
topic stays in RETRY_TOPIC, from where clients put it back before they show the message.

Pure functions: the caller sends what they return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dueline.message import Message, decode_properties, message_id
from dueline.messaging.names import dead_topic, retry_topic
from dueline.store import Record
from dueline.wire.admin_bodies import GroupConfig

__all__ = ["dead_letter", "is_dead", "refused"]

FIRST_LEVEL: Final = 3

_SCHEDULE_NAMES: Final = (
    "DELAY",
    "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS",
    "TIMER_DELIVER_MS",
    "TIMER_OUT_MS",
    "REAL_TOPIC",
    "REAL_QID",
)


def refused(
    record: Record, group: GroupConfig, *, delay_level: int = 0, attempts_max: int | None = None
) -> Message:
    """The message that takes a refused record's place.

    Args:
        delay_level: below 0: to the dead letters at once; 0: by the number of attempts.
        attempts_max: the client's own maximum; None: the group's.
    """
    limit = group.retry_max_times if attempts_max is None else attempts_max
    topic = record.topic.decode("ascii", "replace")
    properties = _plain(decode_properties(record.properties))
    properties.setdefault("RETRY_TOPIC", topic)
    origin = message_id(record.store_host, record.position)
    properties.setdefault("ORIGIN_MESSAGE_ID", origin)
    properties["WAIT"] = "false"
    again = Message(
        topic=retry_topic(group.group_name),
        body=record.body,
        queue_id=0,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times + 1,
    )
    if delay_level < 0 or is_dead(record.reconsume_times, limit):
        return dead_letter(again, group.group_name, origin_topic=topic, origin_id=origin)
    level = delay_level or FIRST_LEVEL + record.reconsume_times
    return replace(again, properties={**properties, "DELAY": str(level)})


def is_dead(attempts: int, attempts_max: int) -> bool:
    """Was a message tried often enough? A negative maximum means RocketMQ's default of 16."""
    return attempts >= (16 if attempts_max < 0 else attempts_max)


def dead_letter(
    message: Message, group: str, *, origin_topic: str | None = None, origin_id: str | None = None
) -> Message:
    """The same message, put to rest: not delayed, in the group's dead-letter topic."""
    properties = _plain(message.properties)
    if origin_topic is not None:
        properties.setdefault("DLQ_ORIGIN_TOPIC", properties.get("RETRY_TOPIC", origin_topic))
    if origin_id is not None:
        properties.setdefault("DLQ_ORIGIN_MESSAGE_ID", origin_id)
    return replace(message, topic=dead_topic(group), queue_id=0, properties=properties)


def _plain(properties: Mapping[str, str]) -> dict[str, str]:
    """Without what says when and where an earlier copy was delivered."""
    return {name: value for name, value in properties.items() if name not in _SCHEDULE_NAMES}

"""What becomes of a message that a consumer refused: it comes again later, or goes to rest.

A refused record is sent anew to `%RETRY%group`, delayed by level 3 the first time, 4 the second and
so on, and its count of attempts goes up. After the group's maximum it goes to `%DLQ%group`, which
nobody consumes unless they ask for it. Both keep body, keys, tags and the unique id; the first
topic stays in RETRY_TOPIC, from where clients put it back before they show the message.

Properties have a bound. Where a message leaves no room, what is only good to know is left out; one
that cannot come again with what it needs for that goes to rest, since a refusal would keep its
consumer busy with it for ever.

Pure functions: the caller sends what they return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dueline.broker.group_configs import GroupConfig
from dueline.broker.names import dead_topic, retry_topic
from dueline.message import (
    PROPERTIES_SIZE_MAX,
    Message,
    decode_properties,
    message_id,
    properties_size,
)
from dueline.schedule import WAITING_NAMES
from dueline.store import Record

__all__ = ["dead_letter", "dead_record", "is_dead", "refused"]

FIRST_LEVEL: Final = 3
ATTEMPT_MAX: Final = 2**31 - 1
"""Attempts are counted in 31 bits; senders may begin at any number."""

_UNIQUE_ID_SIZE: Final = len("UNIQ_KEY_") + 32 + 1


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
    origin = message_id(record.store_host, record.position)
    again = _copy(
        record, _plain(decode_properties(record.properties)), topic=retry_topic(group.group_name)
    )
    level = delay_level or FIRST_LEVEL + record.reconsume_times
    needed = {"RETRY_TOPIC": topic, **again.properties, "DELAY": str(level)}
    if (
        delay_level < 0
        or is_dead(record.reconsume_times, limit)
        or _room(needed, REAL_TOPIC=again.topic, REAL_QID="0") < 0
    ):
        extras = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": origin, "WAIT": "false"}
        last = replace(again, properties=_extended(again.properties, {}, **extras))
        return dead_letter(last, group.group_name, origin_topic=topic, origin_id=origin)
    stored = {"REAL_TOPIC": again.topic, "REAL_QID": "0"}
    properties = _extended(needed, stored, ORIGIN_MESSAGE_ID=origin, WAIT="false")
    return replace(again, properties=properties)


def is_dead(attempts: int, attempts_max: int) -> bool:
    """Was a message tried often enough? A negative maximum means RocketMQ's default of 16."""
    return attempts >= (16 if attempts_max < 0 else attempts_max)


def dead_letter(
    message: Message, group: str, *, origin_topic: str | None = None, origin_id: str | None = None
) -> Message:
    """The same message, put to rest: not delayed, in the group's dead-letter topic."""
    properties = _plain(message.properties)
    extras = {}
    if origin_topic is not None:
        extras["DLQ_ORIGIN_TOPIC"] = properties.get("RETRY_TOPIC", origin_topic)
    if origin_id is not None:
        extras["DLQ_ORIGIN_MESSAGE_ID"] = origin_id
    return replace(
        message,
        topic=dead_topic(group),
        queue_id=0,
        properties=_extended(properties, {}, **extras),
    )


def dead_record(
    record: Record, properties: Mapping[str, str], *, group: str, topic: str, attempt: int
) -> Message:
    """A record that was received `attempt` times in vain, put to rest."""
    message = _copy(record, properties, topic=topic, attempt=attempt)
    return dead_letter(message, group, origin_topic=topic, origin_id=properties.get("UNIQ_KEY"))


def _copy(
    record: Record, properties: Mapping[str, str], *, topic: str, attempt: int = 1
) -> Message:
    return Message(
        topic=topic,
        body=record.body,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        reconsume_times=min(record.reconsume_times + attempt, ATTEMPT_MAX),
    )


def _extended(
    properties: Mapping[str, str], stored: Mapping[str, str], **extras: str
) -> dict[str, str]:
    """The properties with as many more as there is room for beside what the store adds."""
    found = dict(properties)
    for name, value in extras.items():
        if _room({**found, name: value}, **stored) >= 0:
            found.setdefault(name, value)
    return found


def _room(properties: Mapping[str, str], **stored: str) -> int:
    """How many bytes are left beside what the store adds: these, and an id if there is none."""
    unique_id_size = 0 if properties.get("UNIQ_KEY") else _UNIQUE_ID_SIZE
    return PROPERTIES_SIZE_MAX - unique_id_size - properties_size({**properties, **stored})


def _plain(properties: Mapping[str, str]) -> dict[str, str]:
    """Without what says when and where an earlier copy was delivered."""
    return {name: value for name, value in properties.items() if name not in WAITING_NAMES}

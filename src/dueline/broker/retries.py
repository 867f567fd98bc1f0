"""Messages that a consumer could not handle: when they come again, and when no more.

Two kinds of consumers, one count of attempts:

    pull (4.x)                          the refused record is sent anew to `%RETRY%group`, delayed
                                        by level 3 the first time, 4 the second and so on
    receive and acknowledge (4.x POP,   the message stays where it is and becomes visible again
    5.x)                                after a pause; see `dueline.broker.inflight`

After the group's maximum either goes to `%DLQ%group`, which nobody consumes unless they ask for it.
Copies keep body, keys, tags and the unique id; the first topic stays in RETRY_TOPIC, from where
clients put it back before they show the message.

Properties have a bound. Where a message leaves no room, what is only good to know is left out; one
that cannot come again with what it needs for that becomes a dead letter, since a refusal would keep
its consumer busy with it for ever.

Pure functions: the caller sends what they return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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

__all__ = ["BACKOFF_MS", "RetryOptions", "dead_letter", "dead_record", "is_dead", "refused"]

FIRST_LEVEL: Final = 3
ATTEMPT_MAX: Final = 2**31 - 1
"""Attempts are counted in 31 bits; senders may begin at any number."""
RETRY_COUNT_DEFAULT: Final = 16
PAUSE_MS_MIN: Final = 1_000
BACKOFF_MS: Final = tuple(
    seconds * 1_000
    for seconds in (
        *(1, 5, 10, 30, 60, 120, 180, 240, 300, 360),
        *(420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200),
    )
)
"""How long a refused message stays away, by attempt; the last one counts for all further ones."""

_UNIQUE_ID_SIZE: Final = len("UNIQ_KEY_") + 32 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """How often and when messages in flight are handed out again."""

    attempt_count_max: int | None = None
    """None: a group's own (16 retries by default) and the first attempt."""
    backoff_ms: tuple[int, ...] = BACKOFF_MS

    def attempt_max(self, group: GroupConfig) -> int:
        """How often a message is handed to a group before it is a dead letter."""
        if self.attempt_count_max is not None:
            return self.attempt_count_max
        return retry_count_max(group.retry_max_times) + 1

    def pause_ms(self, attempt: int, attempt_max: int, *, asked_ms: int) -> int:
        """How long a message stays away that a consumer has refused.

        Args:
            asked_ms: what the consumer says. Some clients misread the backoff they were told;
                without one they would get the message again and again without a pause.
        """
        if attempt >= attempt_max:
            return 0  # dead: there is nothing to wait for
        if asked_ms >= PAUSE_MS_MIN:
            return asked_ms
        return self.backoff_ms[min(max(attempt, 1), len(self.backoff_ms)) - 1]


def refused(
    record: Record, group: GroupConfig, *, delay_level: int = 0, attempts_max: int | None = None
) -> Message:
    """The message that takes a refused record's place.

    Args:
        delay_level: below 0: to the dead letters at once; 0: by the number of attempts.
        attempts_max: the client's own maximum; None: the group's.
    """
    limit = group.retry_max_times if attempts_max is None else attempts_max
    properties = _plain(decode_properties(record.properties))
    topic = record.topic.decode("ascii", "replace")
    if topic == dead_topic(group.group_name):  # a dead letter comes again as what it was
        topic = properties.get("DLQ_ORIGIN_TOPIC", topic)
    origin = message_id(record.store_host, record.position)
    again = _copy(record, properties, topic=retry_topic(group.group_name))
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
    """Was a message tried often enough?"""
    return attempts >= retry_count_max(attempts_max)


def retry_count_max(configured: int) -> int:
    """How many retries a group has; a negative number means RocketMQ's default."""
    return RETRY_COUNT_DEFAULT if configured < 0 else configured


def dead_letter(
    message: Message, group: str, *, origin_topic: str | None = None, origin_id: str | None = None
) -> Message:
    """The same message, not delayed, in the group's dead-letter topic."""
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
    """A record that was received `attempt` times in vain, as a dead letter."""
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

"""Topic and group names that mean something by themselves.

RocketMQ's clients know these names, so they are not ours to choose: a group's retries wait in the
topic `%RETRY%group` and its dead letters in `%DLQ%group`; half messages and their outcomes have
topics of their own; a producer that finds no route for its topic asks for `TBW102`, whose
permission to inherit from it says that the broker creates topics by itself. Who may write
where is said by `dueline.admission`.
"""

from __future__ import annotations

from typing import Final

from dueline.admission import (
    CLOSED_TOPICS,
    DEAD_PREFIX,
    OUTCOME_TOPIC,
    RETRY_PREFIX,
    SELF_TEST_TOPIC,
    UNDECIDED_TOPIC,
)

__all__ = [
    "DEAD_PREFIX",
    "DEFAULT_TOPIC",
    "OUTCOME_TOPIC",
    "RETRY_PREFIX",
    "SELF_TEST_TOPIC",
    "TRANSACTION_GROUP",
    "UNDECIDED_TOPIC",
    "dead_topic",
    "group_of_retry",
    "is_system_group",
    "is_system_topic",
    "retry_topic",
]

DEFAULT_TOPIC: Final = "TBW102"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"

_SYSTEM_GROUPS: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        TRANSACTION_GROUP,
    }
)


def retry_topic(group: str) -> str:
    """Where a group's refused messages wait.

    >>> retry_topic("billing")
    '%RETRY%billing'
    """
    return RETRY_PREFIX + group


def dead_topic(group: str) -> str:
    """Where a group's messages go that were refused too often."""
    return DEAD_PREFIX + group


def group_of_retry(topic: str) -> str | None:
    """The group whose retry topic this is, if it is one."""
    return topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None


def is_system_topic(topic: str) -> bool:
    """Made by the broker; cannot be changed or deleted by a tool."""
    return topic in CLOSED_TOPICS or topic == DEFAULT_TOPIC


def is_system_group(group: str) -> bool:
    """RocketMQ's own groups, which exist everywhere."""
    return group in _SYSTEM_GROUPS

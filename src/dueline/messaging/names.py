"""Topic and group names that mean something by themselves.

RocketMQ's clients know these names, so they are not ours to choose: a group's retries wait in the
topic `%RETRY%group` and its dead letters in `%DLQ%group`; half messages and their outcomes have
topics of their own; a producer that finds no route for its topic asks for `TBW102`, whose
permission to inherit from it says that the broker creates topics by itself.
"""

from __future__ import annotations

from typing import Final

from dueline.message import CONTROL_TOPIC, HALF_TOPIC, LEVEL_TOPIC, TIMER_TOPIC

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
    "is_closed_to_senders",
    "is_system_group",
    "is_system_topic",
    "retry_topic",
]

RETRY_PREFIX: Final = "%RETRY%"
DEAD_PREFIX: Final = "%DLQ%"
DEFAULT_TOPIC: Final = "TBW102"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OUTCOME_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
UNDECIDED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"

_CLOSED: Final = frozenset(
    {
        LEVEL_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        CONTROL_TOPIC,
        OUTCOME_TOPIC,
        UNDECIDED_TOPIC,
        SELF_TEST_TOPIC,
        "OFFSET_MOVED_EVENT",
    }
)
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


def is_closed_to_senders(topic: str) -> bool:
    """Only the broker itself writes there."""
    return topic in _CLOSED


def is_system_topic(topic: str) -> bool:
    """Made by the broker; cannot be changed or deleted by a tool."""
    return topic in _CLOSED or topic == DEFAULT_TOPIC


def is_system_group(group: str) -> bool:
    """RocketMQ's own groups, which exist everywhere."""
    return group in _SYSTEM_GROUPS

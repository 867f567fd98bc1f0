"""Who may write where, and what a message may say of itself: the rules of every door.

A door is a way in: the 4.x protocol, the 5.x protocol, Flight (sends of the commands, rows of bulk
jobs, a DataFrame), the pipeline's sink (a transform may name any topic), an import. All of them ask
here, so that none lets in what another refuses:

    topic                                    4.x clients   other senders   pipeline, import
    an ordinary name                         yes           yes             yes
    %RETRY%group, %DLQ%group                 yes           no              yes
    the broker's own (`CLOSED_TOPICS`)       no            no              no

Consumers of the 4.x protocol send a message themselves that they could not give back; nobody else
has a reason to write what belongs to a consumer group. Delayed messages to such topics are
ordinary: a retry waits like any other message.

What a message says of itself in properties:

    BROKER_PROPERTIES      only the broker may say it. 4.x clients send whole messages again, with
                           all they had when they were received: there the names are dropped, since
                           they mean nothing any more. Everybody else is refused
    RESERVED_PROPERTIES    every name with a meaning of its own; users of 5.x clients may set none

`dueline.store.targets` has the same rules for columns of topics. Pure functions on strings.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from dueline.errors import InvalidRequest
from dueline.message import (
    CONTROL_TOPIC,
    HALF_TOPIC,
    LEVEL_TOPIC,
    QUEUE_ID_MAX,
    TIMER_TOPIC,
    check_topic,
)
from dueline.schedule import DELAY_NAMES, WAITING_NAMES

__all__ = [
    "BROKER_PROPERTIES",
    "BULK_PROPERTIES",
    "CLOSED_TOPICS",
    "DEAD_PREFIX",
    "OUTCOME_TOPIC",
    "RESERVED_PROPERTIES",
    "RETRY_PREFIX",
    "SELF_TEST_TOPIC",
    "UNDECIDED_TOPIC",
    "check_properties",
    "check_queue_id",
    "check_sender_target",
    "check_target",
    "drop_broker_properties",
    "is_closed",
    "is_target",
]

RETRY_PREFIX: Final = "%RETRY%"
DEAD_PREFIX: Final = "%DLQ%"
OUTCOME_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
UNDECIDED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"

CLOSED_TOPICS: Final = frozenset(
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
"""Only the broker itself writes there: a record in one of them is a word of its own."""

BROKER_PROPERTIES: Final = frozenset(
    {
        *(WAITING_NAMES - DELAY_NAMES),
        *("TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"),
        *("POP_CK", "1ST_POP_TIME"),
    }
)

_TRANSACTION: Final = "TRAN_MSG"
_TIMER_RECALL: Final = "TIMER_DEL_UNIQKEY"

BULK_PROPERTIES: Final = DELAY_NAMES | BROKER_PROPERTIES | {_TRANSACTION, _TIMER_RECALL}
"""What the map of properties of a bulk row cannot say: it is for columns, or for nobody, to say."""

_OTHER_NAMES: Final = """
    KEYS TAGS UNIQ_KEY WAIT CLUSTER MSG_REGION TRACE_ON RETRY_TOPIC ORIGIN_MESSAGE_ID RECONSUME_TIME
    MAX_RECONSUME_TIMES PGROUP __transactionId__ CHECK_IMMUNITY_TIME_IN_SECONDS
    TRANSACTION_CHECK_TIMES TRAN_PREPARED_QUEUE_OFFSET MIN_OFFSET MAX_OFFSET CONSUME_START_TIME
    INSTANCE_ID INNER_NUM INNER_BASE INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET __SHARDINGKEY
    TIMER_DELAY_LEVEL __STARTDELIVERTIME __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC
    DLQ_ORIGIN_MESSAGE_ID __CRC32# CORRELATION_ID REPLY_TO_CLIENT TTL MSG_TYPE ARRIVE_TIME
    PUSH_REPLY_TIME BUYER_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG EXTEND_UNIQ_INFO TRACE_CONTEXT
"""
RESERVED_PROPERTIES: Final = BULK_PROPERTIES | frozenset(_OTHER_NAMES.split())


def is_closed(topic: str) -> bool:
    """Is it a topic that only the broker writes to?"""
    return topic in CLOSED_TOPICS


def is_target(topic: str) -> bool:
    """Can a message be delivered to a topic of this name?"""
    try:
        check_target(topic)
    except InvalidRequest:
        return False
    return True


def check_target(topic: str) -> None:
    """Refuse names that no topic can have, and topics that are the broker's own.

    Raises:
        InvalidRequest: says which of the two.
    """
    check_topic(topic)
    if topic in CLOSED_TOPICS:
        raise InvalidRequest(
            f"topic {topic}: expected one for messages, found one that only the broker writes to",
            field="topic",
            what="closed topic",
            found=topic,
        )


@lru_cache(maxsize=1_024)  # few topics, and each of them often
def check_sender_target(topic: str) -> None:
    """The same for senders that are no 4.x clients, who also have no business in a group's topics.

    Raises:
        InvalidRequest: says why.
    """
    check_target(topic)
    if topic.startswith((RETRY_PREFIX, DEAD_PREFIX)):
        raise InvalidRequest(
            f"topic {topic}: expected one for messages, found one that belongs to a consumer "
            "group; the broker fills it",
            field="topic",
            what="closed topic",
            found=topic,
        )


def check_queue_id(topic: str, queue_id: int, queue_count: int = QUEUE_ID_MAX + 1) -> None:
    """Refuse queues that a topic does not have.

    Raises:
        InvalidRequest: says which there are.
    """
    if not 0 <= queue_id < queue_count:
        raise InvalidRequest(
            f"topic {topic}: queue id: expected 0 to {queue_count - 1}, found {queue_id}",
            field="queue_id",
            found=queue_id,
        )


def check_properties(names: Iterable[str]) -> None:
    """Refuse what a sender may not say.

    Raises:
        InvalidRequest: names the property.
    """
    for name in names:
        if name in BROKER_PROPERTIES or name in (_TRANSACTION, _TIMER_RECALL):
            raise InvalidRequest(
                f"property {name}: expected a name of yours, found one that only the broker and "
                "RocketMQ's clients set",
                field="properties",
                found=name,
            )


def drop_broker_properties(properties: dict[str, str]) -> None:
    """Leave out what was the broker's word when the message was received, for one sent again.

    Raises:
        InvalidRequest: the message is a request to recall another, which is done otherwise.
    """
    for name in BROKER_PROPERTIES:
        properties.pop(name, None)
    if _TIMER_RECALL in properties:
        raise InvalidRequest(
            f"property {_TIMER_RECALL}: expected a recall as a request of its own, found it as a "
            "message; use the client's recall",
            field="properties",
            found=_TIMER_RECALL,
        )

"""Messages that travel together: which may, and what the answer to them says of each.

RocketMQ has batches of ordinary messages only, and stores a delayed one of a batch as if it were
due now. Dueline takes batches whose messages say each when it is due. A client must know whom it
talks to: the id that Dueline gives a delayed message names the delay log, which RocketMQ's do not.

The answer to a batch names the due time of its first message. Those of the others follow from it,
since a batch has one kind of time: delays, times, or one level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dueline.client.cluster import TopicQueue
from dueline.client.values import Outgoing, Sent
from dueline.errors import InvalidRequest
from dueline.message import DELAY_LOG_MARK, parse_message_id
from dueline.recall_handle import RecallHandle, encode_handle
from dueline.times import duration_ms, future_ms
from dueline.wire.headers import StoredResponse

__all__ = ["batches_of", "is_in_delay_log", "sent_batch"]

BATCH_SIZE_BYTES_MAX: Final = 1 << 20
BATCH_COUNT_MAX: Final = 5_000
_OVERHEAD_BYTES: Final = 256
_NOW: Final = (False, False, None)


def batches_of(
    messages: Sequence[Outgoing],
    *,
    start: int = 0,
    takes_delayed: Callable[[str], bool] = lambda topic: False,
) -> list[list[int]]:
    """Places of messages that may travel together, in order, from `start` on.

    Args:
        takes_delayed: whether the brokers of a topic take batches of delayed messages.
    """
    found: list[list[int]] = []
    size_bytes, before = 0, None
    for place in range(start, len(messages)):
        message = messages[place]
        kind = _kind(message, takes_delayed)
        size_bytes += len(message.body) + _OVERHEAD_BYTES
        is_full = size_bytes > BATCH_SIZE_BYTES_MAX or (
            bool(found) and len(found[-1]) >= BATCH_COUNT_MAX
        )
        if found and kind is not None and kind == before and not is_full:
            found[-1].append(place)
        else:
            found.append([place])
            size_bytes = len(message.body) + _OVERHEAD_BYTES
        before = kind
    return found


def _kind(message: Outgoing, takes_delayed: Callable[[str], bool]) -> tuple[object, ...] | None:
    """What messages of one batch have in common; None: it goes alone."""
    time = (message.delay is not None, message.deliver_at is not None, message.delay_level)
    if message.has_own_time or (time != _NOW and not takes_delayed(message.topic)):
        return None
    return (message.topic, message.queue_id, *time)


def is_in_delay_log(offset_id: str) -> bool:
    """Is this the id that Dueline gives a delayed message?"""
    try:
        return bool(parse_message_id(offset_id)[1] & DELAY_LOG_MARK)
    except InvalidRequest:
        return False


def sent_batch(
    messages: Sequence[Outgoing],
    ids: Sequence[str],
    response: StoredResponse,
    *,
    queue: TopicQueue,
    now_ms: int,
) -> list[Sent]:
    """What the answer to a batch says of each of its messages."""
    offset_ids = response.msg_id.split(",")
    first_ms = _first_due_ms(response)
    sent = []
    for place, (message, unique_id) in enumerate(zip(messages, ids, strict=True)):
        offset_id = offset_ids[place] if place < len(offset_ids) else ""
        handle = None
        due_ms = _due_ms(message, messages[0], first_ms, now_ms)
        if due_ms is not None and is_in_delay_log(offset_id):
            handle = encode_handle(message.topic, queue.broker_name, due_ms, unique_id)
        sent.append(
            Sent(
                topic=message.topic,
                id=unique_id,
                offset_id=offset_id,
                queue_id=queue.queue_id,
                queue_offset=response.queue_offset + place,
                handle=handle,
            )
        )
    return sent


def _first_due_ms(response: StoredResponse) -> int | None:
    if not response.recall_handle:
        return None
    return RecallHandle.decode(response.recall_handle).due_ms


def _due_ms(message: Outgoing, first: Outgoing, first_ms: int | None, now_ms: int) -> int | None:
    """When a message is due, from when the first of its batch is."""
    if message.deliver_at is not None:
        return future_ms(message.deliver_at, now_ms)
    if first_ms is None or message.delay is None or first.delay is None:
        return first_ms
    return first_ms + duration_ms(message.delay) - duration_ms(first.delay)

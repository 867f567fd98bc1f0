"""Which messages travel together, and what the answer to a batch says of each."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from dueline.client.batches import batches_of, is_in_delay_log, sent_batch
from dueline.client.cluster import TopicQueue
from dueline.client.values import Outgoing
from dueline.wire.headers import StoredResponse

NOW_MS = 1_800_000_000_000
QUEUE = TopicQueue(topic="t", broker_name="b", queue_id=2)
IN_COMMIT_LOG = "7F00000100002A9F0000000000000100"
IN_DELAY_LOG = "7F00000100002A9F4000000000000100"


def make(**options: object) -> Outgoing:
    return Outgoing(topic="t", body=b"x", **options)  # type: ignore[arg-type]


def dueline(topic: str) -> bool:
    return True


def handle(due_ms: int) -> str:
    return base64.urlsafe_b64encode(f"v1 t b {due_ms} first".encode()).decode()


def test_delayed_messages_go_alone_unless_the_broker_is_known_to_take_them() -> None:
    messages = [make(delay="1h"), make(delay="2h"), make(delay="3h")]

    assert batches_of(messages) == [[0], [1], [2]]
    assert batches_of(messages, takes_delayed=dueline) == [[0, 1, 2]]
    assert batches_of(messages, start=1, takes_delayed=dueline) == [[1, 2]]


def test_a_batch_has_one_topic_queue_and_kind_of_time() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    messages = [
        *(make(), make(queue_id=1), make(queue_id=1, delay="1h"), make(queue_id=1, delay=5)),
        *(make(deliver_at=at), make(deliver_at="2031-01-01T00:00Z")),
        *(make(delay_level=3), make(delay_level=3), make(delay_level=4)),
        make(properties={"TIMER_DELAY_MS": "5"}),
    ]

    assert batches_of(messages, takes_delayed=dueline) == [
        *([0], [1], [2, 3], [4, 5], [6, 7], [8]),
        [9],  # what a property says is not looked at
    ]


def test_a_batch_is_bounded_in_bytes() -> None:
    messages = [Outgoing(topic="t", body=bytes(400_000)) for _ in range(5)]

    assert batches_of(messages) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("offset_id", "is_delayed"), [(IN_COMMIT_LOG, False), (IN_DELAY_LOG, True), ("", False)]
)
def test_ids_of_the_delay_log_are_told_apart(offset_id: str, is_delayed: bool) -> None:
    assert is_in_delay_log(offset_id) is is_delayed


def answered(messages: list[Outgoing], first_due_ms: int | None) -> list[int | None]:
    response = StoredResponse(
        msg_id=",".join([IN_DELAY_LOG] * len(messages)),
        queue_offset=7,
        recall_handle=None if first_due_ms is None else handle(first_due_ms),
    )
    ids = [f"id-{number}" for number in range(len(messages))]
    sent = sent_batch(messages, ids, response, queue=QUEUE, now_ms=NOW_MS)
    assert [each.id for each in sent] == ids
    assert [each.queue_offset for each in sent] == [7 + number for number in range(len(messages))]
    return [each.due_ms for each in sent]


def test_due_times_follow_from_the_first() -> None:
    delays = [make(delay=delay) for delay in ("1s", timedelta(seconds=3), 0.5)]

    assert answered(delays, NOW_MS + 1_004) == [NOW_MS + 1_004, NOW_MS + 3_004, NOW_MS + 504]
    assert answered([make(delay_level=3)] * 2, NOW_MS + 5) == [NOW_MS + 5] * 2


def test_named_times_need_no_first() -> None:
    at = datetime.fromtimestamp(NOW_MS / 1_000 + 60, UTC)

    assert answered([make(deliver_at=at), make(deliver_at=at)], None) == [NOW_MS + 60_000] * 2


def test_a_message_that_was_due_at_once_has_no_handle() -> None:
    response = StoredResponse(msg_id=f"{IN_COMMIT_LOG},{IN_COMMIT_LOG}", queue_offset=0)

    sent = sent_batch([make(), make()], ["a", "b"], response, queue=QUEUE, now_ms=NOW_MS)

    assert [each.handle for each in sent] == [None, None]

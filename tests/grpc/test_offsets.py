"""Pulling by offset, and the offsets of groups and queues."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller
from tests.waiting import wait_until

OK, BAD, ILLEGAL_POLLING, ILLEGAL_OFFSET = 20000, 40000, 40018, 40019
ILLEGAL_TOPIC, NOTHING, NO_OFFSET = 40002, 40401, 40404
BEGINNING, END, TIMESTAMP = 0, 1, 2


@pytest.fixture
def single(broker: TestBroker, topic: str) -> str:
    """A topic with one queue, so that a test knows the offsets."""
    broker.broker.topics.ensure(topic, queue_count=1)
    return topic


def at(topic: str, queue_id: int = 0) -> dict[str, Any]:
    return {"topic": {"name": topic}, "id": queue_id}


def pull(
    caller: Caller, topic: str, offset: int, **fields: Any
) -> tuple[int, list[bytes], int | None]:
    """The status code, the bodies, and where to go on."""
    request = {
        "group": {"name": "puller"},
        "message_queue": at(topic),
        "offset": offset,
        "batch_size": 2,
        **fields,
    }
    answers = list(caller.stream("PullMessage", **request))
    kinds = [each.WhichOneof("content") for each in answers]
    assert kinds[0] == "status"
    bodies = [each.message.body for each in answers if each.HasField("message")]
    following = answers[-1].next_offset if kinds[-1] == "next_offset" else None
    return answers[0].status.code, bodies, following


def get_offset(caller: Caller, topic: str, group: str) -> tuple[int, int]:
    answer = caller.call("GetOffset", group={"name": group}, message_queue=at(topic))
    return answer.status.code, answer.offset


def update_offset(caller: Caller, topic: str, group: str, offset: int) -> int:
    answer = caller.call(
        "UpdateOffset", group={"name": group}, message_queue=at(topic), offset=offset
    )
    return int(answer.status.code)


def query_offset(caller: Caller, topic: str, policy: int, **fields: Any) -> tuple[int, int]:
    answer = caller.call(
        "QueryOffset", message_queue=at(topic), query_offset_policy=policy, **fields
    )
    return answer.status.code, answer.offset


def test_pull_reads_on_from_the_offset_that_the_last_one_gave(caller: Caller, single: str) -> None:
    caller.send(single, *({"body": body} for body in (b"a", b"b", b"c")))

    assert pull(caller, single, 0) == (OK, [b"a", b"b"], 2)
    assert pull(caller, single, 2) == (OK, [b"c"], 3)
    assert pull(caller, single, 3) == (NOTHING, [], 3)


def test_pull_passes_over_what_its_filter_refuses(caller: Caller, single: str) -> None:
    for number, tag in enumerate(("no", "yes", "no")):
        caller.send(single, {"body": b"%d" % number, "system": {"tag": tag}})
    by_tag = {"filter_expression": {"type": 1, "expression": "yes"}}
    by_sql = {"filter_expression": {"type": 2, "expression": "TAGS = 'yes'"}}

    assert pull(caller, single, 0, **by_tag, batch_size=1) == (OK, [b"1"], 2)
    assert pull(caller, single, 0, **by_sql, batch_size=3) == (OK, [b"1"], 3)
    assert pull(caller, single, 2, **by_tag) == (NOTHING, [], 3)


def test_waiting_pull_is_woken_by_a_message(
    broker: TestBroker, caller: Caller, single: str
) -> None:
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(pull(caller, single, 0, long_polling_timeout={"seconds": 15}))
    )
    waiting.start()
    wait_until(lambda: len(broker.broker.reading.watches) > 0, what="a waiting pull")

    caller.send(single, {"body": b"news"})
    waiting.join()

    assert found == [(OK, [b"news"], 1)]
    wait_until(lambda: len(broker.broker.reading.watches) == 0, what="no waiting pull")


@pytest.mark.parametrize(
    ("offset", "code", "following"), [(7, ILLEGAL_OFFSET, 1), (-1, 40019, None)]
)
def test_pull_outside_of_the_queue_is_told_where_to_go(
    caller: Caller, single: str, offset: int, code: int, following: int | None
) -> None:
    caller.send(single, {})

    assert pull(caller, single, offset) == (code, [], following)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"batch_size": 0}, BAD),
        ({"message_queue": {"topic": {"name": "a b"}}}, ILLEGAL_TOPIC),
        ({"long_polling_timeout": {"seconds": 3_600}}, ILLEGAL_POLLING),
    ],
)
def test_pull_that_cannot_be_is_refused(
    caller: Caller, single: str, fields: dict[str, Any], code: int
) -> None:
    assert pull(caller, single, 0, **fields) == (code, [], None)
    assert pull(caller, single, 0, message_queue=at(single, 9))[0] == BAD


def test_offset_of_a_group_is_what_it_said(caller: Caller, single: str) -> None:
    group = f"{single}-g"
    caller.send(single, {}, {})

    assert get_offset(caller, single, group) == (NO_OFFSET, 0)
    assert update_offset(caller, single, group, 2) == OK
    assert get_offset(caller, single, group) == (OK, 2)
    assert update_offset(caller, single, group, 3) == ILLEGAL_OFFSET
    assert update_offset(caller, single, group, -1) == ILLEGAL_OFFSET
    assert get_offset(caller, single, group) == (OK, 2)


def test_received_and_pulled_are_one_offset(caller: Caller, single: str) -> None:
    group = f"{single}-g"
    caller.send(single, {"body": b"a"}, {"body": b"b"})
    _, (first,) = caller.receive(single, group=group, batch_size=1)
    assert get_offset(caller, single, group) == (OK, 0)
    caller.ack(single, first, group=group)
    assert get_offset(caller, single, group) == (OK, 1)

    update_offset(caller, single, group, 2)

    assert caller.receive(single, group=group) == (NOTHING, [])


def test_queue_tells_its_beginning_its_end_and_its_times(
    broker: TestBroker, caller: Caller, single: str
) -> None:
    assert query_offset(caller, single, END) == (OK, 0)
    caller.send(single, {"body": b"a"})
    between_ms = broker.store.clock.now_ms() + 1
    wait_until(lambda: broker.store.clock.now_ms() > between_ms, what="another millisecond")
    caller.send(single, {"body": b"b"})
    moment = {"seconds": between_ms // 1_000, "nanos": between_ms % 1_000 * 1_000_000}

    assert query_offset(caller, single, BEGINNING) == (OK, 0)
    assert query_offset(caller, single, END) == (OK, 2)
    assert query_offset(caller, single, TIMESTAMP, timestamp=moment) == (OK, 1)
    assert query_offset(caller, single, TIMESTAMP, timestamp={"seconds": 0}) == (OK, 0)
    assert query_offset(caller, single, TIMESTAMP, timestamp={"seconds": 1 << 33}) == (OK, 2)
    assert query_offset(caller, single, TIMESTAMP) == (BAD, 0)
    assert query_offset(caller, single, 9, timestamp=moment) == (BAD, 0)

"""One receive: who may, what is found, when to look again, and what is given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.inflight.house import House, bodies
from tests.unit.broker.inflight.world import START_MS

from dueline.broker.inflight import Held, InvalidReceipt
from dueline.errors import InvalidRequest, NotFound, StoreClosed, Unavailable

HOUR_MS = 3_600_000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


# Who may


@pytest.mark.parametrize(
    "fields",
    [
        {"queue_id": 2},
        {"queue_id": -2},
        {"count_max": 0},
        {"invisible_ms": 0},
        {"invisible_ms": 12 * HOUR_MS + 1},
        {"invisible_ms": 5_000, "invisible_ms_min": 10_000},
        {"group": "a b"},
    ],
)
def test_request_that_cannot_be_is_refused(house: House, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        house.receive(**fields)


def test_unknown_topic_is_not_made(house: House) -> None:
    with pytest.raises(NotFound):
        house.receive(topic="unknown")

    assert house.broker.topics.get("unknown") is None


def test_closed_group_and_closed_topics_are_refused(house: House) -> None:
    closed = replace(house.broker.group_table.find("closed"), consume_enable=False)
    house.broker.group_table.put(closed)
    house.broker.topics.ensure("write-only", queue_count=1, perm=2)
    drained = house.broker.topics.ensure("drained", queue_count=1)
    house.broker.topics.put(replace(drained, read_queue_nums=0))
    house.broker.topics.ensure("RMQ_SYS_TRANS_HALF_TOPIC", queue_count=1)

    for field, name in (
        ("group", "closed"),
        ("topic", "write-only"),
        ("topic", "drained"),
        ("topic", "RMQ_SYS_TRANS_HALF_TOPIC"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            house.receive(**{field: name})
        assert caught.value.details["what"] == "permission"


# Looking


def test_look_takes_what_is_wanted_up_to_the_bound(house: House) -> None:
    house.send(*map(str, range(40)))

    assert bodies(house.take(count_max=3)) == ["0", "1", "2"]
    assert len(house.take(count_max=1_000)) == 32
    assert house.take(queue_id=1) == []


def test_failure_of_a_look_comes_as_its_answer(house: House) -> None:
    house.broker.inflight.close()
    house.send("a")
    answers: list[list[Held] | BaseException] = []

    house.receive().look(answers.append)

    assert isinstance(answers[0], StoreClosed)


def test_retries_of_4x_clients_are_received_by_those_who_ask_for_them(house: House) -> None:
    receive = house.receive(with_retries=True)
    assert house.look(receive) == []
    house.broker.topics.ensure("%RETRY%g", queue_count=1)
    house.send("refused", topic="%RETRY%g", RETRY_TOPIC="t")

    assert house.take() == []
    assert bodies(house.look(receive)) == ["refused"]


# Waiting


def test_receive_is_over_when_its_time_is(house: House) -> None:
    assert house.receive().is_over
    receive = house.receive(wait_ms=5_000)
    assert not receive.is_over

    house.now_s += 5

    assert receive.is_over


def test_nobody_waits_longer_than_a_minute(house: House) -> None:
    assert house.receive(wait_ms=HOUR_MS).wait_s() == 60
    assert house.receive(wait_ms=-1).is_over


def test_receive_that_gives_up_its_place_is_over(house: House) -> None:
    receive = house.receive(wait_ms=5_000)

    receive.give_up()

    assert receive.is_over


def test_receive_is_over_when_the_broker_stops(house: House) -> None:
    receive = house.receive(wait_ms=5_000)
    woken: list[int] = []
    receive.watch(lambda: woken.append(1))

    house.broker.refuse()

    assert receive.is_over
    assert woken


def test_next_look_is_when_a_message_becomes_visible_again(house: House) -> None:
    house.send("a")
    house.take(invisible_ms=3_000)
    receive = house.receive(wait_ms=20_000)
    assert house.look(receive) == []

    assert receive.wait_s() == 3
    house.clock.advance(3_000)
    assert bodies(house.look(receive)) == ["a"]


def test_watch_tells_of_messages_retries_and_changes_once_each(house: House) -> None:
    house.broker.topics.ensure("%RETRY%g", queue_count=1)
    house.send("held")
    (held,) = house.take()
    receive = house.receive(wait_ms=5_000, with_retries=True)
    woken: list[str] = []

    receive.watch(lambda: woken.append("message"))
    house.send("new")
    receive.watch(lambda: woken.append("retry"))
    house.send("again", topic="%RETRY%g")
    receive.watch(lambda: woken.append("change"))
    house.receiving.extend("g", "t", held.receipt, 0)

    assert woken == ["message", "retry", "change"]
    receive.unwatch()
    house.send("nobody listens")
    assert len(woken) == 3
    assert len(house.broker.reading.watches) == 0


# Giving back


def test_cancelled_receive_gives_back_what_it_found(house: House) -> None:
    house.send("a", "b")
    receive = house.receive()
    assert len(house.look(receive)) == 2

    receive.cancel()

    assert [(held.record.body, held.attempt) for held in house.take()] == [(b"a", 1), (b"b", 1)]


def test_cancelled_while_it_looks_gives_back_what_it_finds(house: House) -> None:
    house.send("a")
    receive = house.receive()

    receive.cancel()
    house.look(receive)

    assert [held.attempt for held in house.take()] == [1]


def test_cancel_takes_nothing_from_those_who_acknowledged_or_received_since(house: House) -> None:
    house.send("a", "b")
    receive = house.receive(invisible_ms=1_000)
    first, _ = house.look(receive)
    house.broker.inflight.acknowledge("g", "t", first.receipt, lambda error: None)
    house.clock.advance(1_000)
    (again,) = house.take()

    receive.cancel()

    assert house.take() == []
    assert again.attempt == 2


def test_what_has_no_room_in_an_answer_comes_at_once(house: House) -> None:
    house.send("a", "b")
    receive = house.receive()
    _, second = house.look(receive)

    receive.give_back([second])

    assert bodies(house.take()) == ["b"]


# Dead letters


def exhaust(house: House) -> None:
    """Two attempts in vain, as many as there are."""
    for _ in range(2):
        house.take(invisible_ms=1_000)
        house.clock.advance(1_000)


def test_after_the_last_attempt_a_message_is_a_dead_letter(house: House) -> None:
    house.send("bad", UNIQ_KEY="u")
    exhaust(house)
    house.send("good")

    assert bodies(house.take()) == ["good"]

    ((record, properties),) = house.stored("%DLQ%g")
    assert (record.body, properties["DLQ_ORIGIN_TOPIC"]) == (b"bad", "t")
    assert properties["DLQ_ORIGIN_MESSAGE_ID"] == "u"
    house.clock.advance(HOUR_MS)
    assert bodies(house.take()) == ["good"]
    assert house.broker.topics.has_saved("%DLQ%g")


@pytest.mark.parametrize("is_at_once", [True, False])
def test_dead_letter_that_cannot_be_written_stays_and_is_tried_again(
    house: House, is_at_once: bool
) -> None:
    house.send("bad")
    exhaust(house)
    house.send("good")
    if is_at_once:
        house.send_error = Unavailable("no room")
    else:
        house.result_error = Unavailable("no room")

    assert bodies(house.take()) == ["good"]

    house.send_error = house.result_error = None
    assert house.stored("%DLQ%g") == []
    house.clock.advance(HOUR_MS)
    house.take(count_max=1)
    house.take(count_max=1)
    assert [record.body for record, _ in house.stored("%DLQ%g")] == [b"bad"]


# Receipts


def test_refused_message_pauses_by_its_attempt_unless_the_consumer_says_how_long(
    house: House,
) -> None:
    def next_ms() -> int:
        found = house.broker.inflight.next_visible_ms("g", "t")
        assert found is not None
        return found - START_MS

    house.send("a")
    (held,) = house.take()

    receipt = house.receiving.refuse("g", "t", held.receipt, 0)
    assert next_ms() == 1_000
    receipt = house.receiving.refuse("g", "t", receipt, 7_000)
    assert next_ms() == 7_000
    receipt = house.receiving.extend("g", "t", receipt, 5)
    assert next_ms() == 5
    house.clock.advance(5)
    (last,) = house.take()
    house.receiving.refuse("g", "t", last.receipt, 7_000)
    assert next_ms() == 5  # dead: nothing to wait for


@pytest.mark.parametrize("invisible_ms", [-1, 12 * HOUR_MS + 1])
def test_duration_that_cannot_be_is_refused(house: House, invisible_ms: int) -> None:
    house.send("a")
    (held,) = house.take()

    for change in (house.receiving.extend, house.receiving.refuse):
        with pytest.raises(InvalidRequest, match="invisible duration"):
            change("g", "t", held.receipt, invisible_ms)


def test_forwarded_message_is_a_dead_letter_and_done(house: House) -> None:
    house.send("bad")
    (held,) = house.take()
    answers: list[BaseException | None] = []

    house.receiving.forward("g", "t", held.receipt, answers.append)
    house.broker.inflight.flush()

    assert answers == [None]
    assert [record.body for record, _ in house.stored("%DLQ%g")] == [b"bad"]
    with pytest.raises(InvalidReceipt):
        house.receiving.forward("g", "t", held.receipt, answers.append)

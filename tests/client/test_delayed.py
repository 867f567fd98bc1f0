"""Messages that wait, by key or id: found, counted, moved, delivered now, taken back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.remoting.serving import RunningBroker

from dueline.client import (
    AsyncProducer,
    Changed,
    Outcome,
    Outgoing,
    Producer,
    Reader,
    State,
)
from dueline.clock import system_time_ms
from dueline.errors import InvalidRequest, LimitExceeded

CANCELLED = Changed(outcome=Outcome.CANCELLED, count=1)
MOVED = Changed(outcome=Outcome.RESCHEDULED, count=1)
UNKNOWN = Changed(outcome=Outcome.UNKNOWN, count=0)


def test_a_message_is_found_by_key_and_by_id(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        sent = producer.send("orders", b"17", keys=["order-17", "customer-4"], delay="1h")

        for name in (sent, sent.id, "order-17", "customer-4"):
            (found,) = producer.find(name)
            assert (found.id, found.topic, found.state) == (sent.id, "orders", State.PENDING)
            assert found.keys == ("order-17", "customer-4")
            assert (found.due_ms, found.body_size_bytes) == (sent.due_ms, 2)
        assert producer.find("order-18") == []


_DAY = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


@pytest.mark.parametrize(
    "times",
    [
        [{"delay": timedelta(minutes=1 + number)} for number in range(200)],
        [{"deliver_at": _DAY + timedelta(minutes=number)} for number in range(200)],
        [{"delay_level": 17}] * 200,
    ],
    ids=["delays", "times", "levels"],
)
def test_a_batch_of_delayed_messages_says_of_each_when_it_is_due(
    broker: RunningBroker, times: list[dict[str, Any]]
) -> None:
    messages = [
        Outgoing(topic="orders", body=b"%d" % number, keys=f"k{number}", **time)
        for number, time in enumerate(times)
    ]
    with Producer(broker.name_server) as producer:
        sent = producer.send_many(messages)

        found = [producer.find(f"k{number}") for number in range(200)]
        assert producer.cancel(sent[150]) == CANCELLED

    assert [each.due_ms for (each,) in found] == [each.due_ms for each in sent]
    assert [each.id for (each,) in found] == [each.id for each in sent]
    assert len({each.offset_id for each in sent}) == 200


def test_one_bad_message_does_not_refuse_its_batch(broker: RunningBroker) -> None:
    delays = ["1h", "2h", "9999w", "3h"]
    with Producer(broker.name_server) as producer:
        results = producer.send_each(
            [Outgoing(topic="orders", body=b"x", keys="k", delay=delay) for delay in delays]
        )

        assert [isinstance(each, InvalidRequest) for each in results] == [False, False, True, False]
        assert len(producer.find("k")) == 3


def test_a_key_takes_back_all_its_messages(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send_many(
            [Outgoing(topic="orders", body=b"x", keys="order-17", delay="1h") for _ in range(3)]
        )

        changed = producer.cancel("order-17")

        assert changed == Changed(outcome=Outcome.CANCELLED, count=3)
        assert changed
        assert [each.state for each in producer.find("order-17")] == [State.CANCELLED] * 3
        assert producer.cancel("order-17") == Changed(outcome=Outcome.CANCELLED, count=0)
        assert producer.cancel("order-18") == UNKNOWN
        assert not producer.cancel("order-18")


def test_a_message_is_moved_and_says_so(broker: RunningBroker) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    with Producer(broker.name_server) as producer:
        sent = producer.send("orders", b"17", keys="order-17", delay="1h")

        assert producer.reschedule("order-17", deliver_at=at) == MOVED
        newest, oldest = producer.find("order-17")
        assert (newest.due_ms, newest.state) == (int(at.timestamp() * 1_000), State.PENDING)
        assert (oldest.due_ms, oldest.state) == (sent.due_ms, State.MOVED)
        before_ms = system_time_ms()
        assert producer.reschedule(sent, delay="2h") == MOVED
        assert producer.find(sent)[0].due_ms >= before_ms + 7_200_000


def test_a_message_can_be_delivered_now(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        sent = producer.send("orders", b"17", delay="1h")

        assert producer.deliver_now(sent) == MOVED
        with Reader(broker.name_server, "orders") as reader:
            assert reader.receive().id == sent.id
        assert producer.cancel(sent.id) == Changed(outcome=Outcome.DELIVERED, count=0)
        assert producer.find(sent)[0].state is State.DELIVERED


def test_what_waits_is_counted(broker: RunningBroker) -> None:
    async def run() -> None:
        async with AsyncProducer(broker.name_server) as producer:
            first = await producer.send("orders", b"1", delay="1h")
            await producer.send("orders", b"2", delay="2h")
            await producer.send("reminders", b"3", delay="3h")

            everything, orders = await producer.pending(), await producer.pending("orders")

            assert (everything.count, everything.next_due_ms) == (3, first.due_ms)
            assert everything.by_topic == {"orders": 2, "reminders": 1}
            assert orders.count == 2
            assert (await producer.pending("unknown")).count == 0

    asyncio.run(run())


def test_mistakes_are_refused_in_words(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("orders", b"17", keys="order-17", delay="1h")

        with pytest.raises(InvalidRequest, match="expected one of delay and deliver_at"):
            producer.reschedule("order-17")
        with pytest.raises(InvalidRequest, match="deliver_at: expected a time to come"):
            producer.reschedule("order-17", deliver_at=datetime(2020, 1, 1, tzinfo=UTC))
        with pytest.raises(InvalidRequest, match="expected a key or an id"):
            producer.find("order 17")
        with pytest.raises(LimitExceeded, match="delay_max"):
            producer.reschedule("order-17", delay=timedelta(days=40_000))
        assert producer.find("order-17")[0].state is State.PENDING

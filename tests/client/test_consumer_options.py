"""A consumer's options: where it starts, how long it waits, how many messages at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from tests.remoting.serving import RunningBroker
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import AsyncConsumer, BatchHandler, Consumer, Outgoing, Producer, Received
from dueline.clock import system_time_ms
from dueline.errors import InvalidRequest


def test_a_batch_handler_gets_several_messages_in_order(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send_many(
            [Outgoing(topic="orders", body=b"%d" % each, queue_id=0) for each in range(40)]
        )
    batches: list[list[bytes]] = []

    def handle(messages: Sequence[Received]) -> None:
        batches.append([message.body for message in messages])

    with Consumer(
        broker.name_server, "orders", "billing", BatchHandler(handle, count_max=8), concurrency=1
    ):
        wait_until(lambda: sum(map(len, batches)) == 40, what="all messages")

    assert max(map(len, batches)) == 8
    assert [body for batch in batches for body in batch] == [b"%d" % each for each in range(40)]


def test_a_refused_batch_comes_again_whole(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send_many(
            [Outgoing(topic="orders", body=b"%d" % each, queue_id=0) for each in range(3)]
        )
    seen: list[tuple[bytes, int]] = []

    def handle(messages: Sequence[Received]) -> None:
        seen.extend((message.body, message.attempt) for message in messages)
        if not messages[0].attempt:
            raise ValueError("not today")

    with Consumer(broker.name_server, "orders", "billing", BatchHandler(handle), backoff=["1s"]):
        wait_until(lambda: len(seen) == 6, what="second attempts")

    assert sorted(seen) == sorted(
        (b"%d" % each, attempt) for each in range(3) for attempt in (0, 1)
    )


def test_the_backoff_says_how_long_until_the_next_attempt(broker: RunningBroker) -> None:
    times_ms: list[int] = []

    def handle(message: Received) -> None:
        times_ms.append(system_time_ms())
        if message.attempt < 2:
            raise ValueError("not yet")

    with Producer(broker.name_server) as producer:
        producer.send("orders", b"17")
    # The broker of the tests has levels of 1 s to 16 s; left to it, the first wait were 3 s.
    with Consumer(broker.name_server, "orders", "billing", handle, backoff=["1s", 1.5]):
        wait_until(lambda: len(times_ms) == 3, what="three attempts")

    assert times_ms[1] - times_ms[0] >= 1_000
    assert times_ms[2] - times_ms[1] >= 2_000


def test_a_group_starts_where_it_is_told_to(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("orders", b"old", queue_id=0)
        clock_ms = broker.clock.now_ms()
        wait_until(lambda: broker.clock.now_ms() > clock_ms, what="a millisecond")
        between = datetime.fromtimestamp(broker.clock.now_ms() / 1_000, UTC)
        producer.send("orders", b"new", queue_id=0)
        from_time: list[bytes] = []
        with Consumer(
            broker.name_server,
            "orders",
            "from-time",
            lambda message: from_time.append(message.body),
            start=between,
        ):
            wait_until(lambda: bool(from_time), what="a message")
        from_end: list[bytes] = []
        started = threading.Event()

        async def handle(message: Received) -> None:
            from_end.append(message.body)
            started.set()

        with Consumer(broker.name_server, "orders", "from-end", handle, start="end"):
            wait_until(
                lambda: len(broker.offsets.get("from-end", "orders")) == 4,
                what="a start in each queue",
            )
            producer.send("orders", b"last", queue_id=0)
            assert started.wait(PATIENCE_S)

    assert from_time == [b"new"]
    assert from_end == [b"last"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "concurrency: expected 1 or more, found 0"),
        ({"attempts_max": -1}, "attempts_max: expected 0 or more, found -1"),
        ({"backoff": ["soon"]}, "duration: expected number and unit .* found 'soon'"),
        ({"start": "later"}, "start: expected start, end or a time; .* found 'later'"),
    ],
)
def test_mistakes_are_refused_in_words(options: dict[str, object], words: str) -> None:
    async def make() -> None:
        AsyncConsumer("127.0.0.1:1", "orders", "billing", print, **options)  # type: ignore[arg-type]

    with pytest.raises(InvalidRequest, match=words):
        asyncio.run(make())


def test_a_consumer_waits_for_a_topic_that_is_not_there_yet(broker: RunningBroker) -> None:
    bodies: list[bytes] = []

    with (
        Consumer(broker.name_server, "later", "early", lambda message: bodies.append(message.body)),
        Producer(broker.name_server) as producer,
    ):
        producer.send("later", b"first")
        wait_until(lambda: bodies == [b"first"], what="the first message of the topic")

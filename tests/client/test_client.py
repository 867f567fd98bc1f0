"""The Python client against a broker: sent, delayed, cancelled, read, consumed, refused."""

from __future__ import annotations

import asyncio
import errno
import inspect
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from tests.ports import free_ports
from tests.remoting.serving import RunningBroker
from tests.waiting import PATIENCE_S, wait_until

from dueline import client
from dueline.broker import BrokerOptions
from dueline.broker.topics import TopicOptions
from dueline.client import (
    AsyncConsumer,
    AsyncProducer,
    AsyncReader,
    AsyncSimpleConsumer,
    Consumer,
    Outgoing,
    Producer,
    Reader,
    SimpleConsumer,
)
from dueline.client.values import Received
from dueline.clock import system_time_ms
from dueline.errors import InvalidRequest, NotFound, OutcomeUnknown, Unavailable
from dueline.testing import FaultyFiles


def test_public_names() -> None:
    assert client.__all__ == [
        "AsyncConsumer",
        "AsyncProducer",
        "AsyncReader",
        "AsyncSimpleConsumer",
        "BatchHandler",
        "Changed",
        "ClientTls",
        "Consumer",
        "Credentials",
        "Outcome",
        "Outgoing",
        "Pending",
        "Producer",
        "Reader",
        "Received",
        "Scheduled",
        "Sent",
        "SimpleConsumer",
        "State",
        "Taken",
    ]


def test_the_blocking_clients_have_all_methods_of_the_asyncio_ones() -> None:
    pairs = (
        (Producer, AsyncProducer),
        (Reader, AsyncReader),
        (Consumer, AsyncConsumer),
        (SimpleConsumer, AsyncSimpleConsumer),
    )
    for blocking, asynchronous in pairs:
        names = {
            name
            for name, value in inspect.getmembers(asynchronous, inspect.iscoroutinefunction)
            if not name.startswith("_")
        }
        assert names <= set(dir(blocking))
        for name in names:
            ours, theirs = getattr(blocking, name), getattr(asynchronous, name)
            assert inspect.signature(ours) == inspect.signature(theirs)
            assert (ours.__doc__, inspect.iscoroutinefunction(ours)) == (theirs.__doc__, False)
        assert list(inspect.signature(blocking).parameters) == list(
            inspect.signature(asynchronous).parameters
        )


def test_a_wrong_argument_is_told_where_it_is_given() -> None:
    with pytest.raises(TypeError, match="retries"):
        Producer("127.0.0.1:1", retries=3)  # type: ignore[call-arg]


def test_what_is_sent_is_read_as_it_was_sent(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        sent = producer.send(
            "orders", b"17", tag="new", keys=["k1", "k2"], properties={"a": "b"}, queue_id=2
        )
        with Reader(broker.name_server, "orders") as reader:
            found = reader.receive()

    assert (found.body, found.tag, found.keys) == (b"17", "new", ("k1", "k2"))
    assert found.properties["a"] == "b"
    assert (found.id, found.queue_id, found.queue_offset) == (sent.id, 2, 0)
    assert sent.handle is None


def test_delays_are_waited_for(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("orders", b"first")
        with Reader(broker.name_server, "orders", start="end") as reader:
            start_ms = system_time_ms()
            producer.send("orders", b"level", delay_level=1)
            producer.send("orders", b"delay", delay=timedelta(milliseconds=400))
            producer.send(
                "orders", b"time", deliver_at=datetime.now(UTC) + timedelta(milliseconds=700)
            )
            arrived = {}
            for _ in range(3):
                body = reader.receive().body
                arrived[body] = system_time_ms()

    assert list(arrived) == [b"delay", b"time", b"level"]
    for body, delay_ms in ((b"delay", 400), (b"time", 700), (b"level", 1_000)):
        assert arrived[body] >= start_ms + delay_ms


def test_threads_share_a_producer(broker: RunningBroker) -> None:
    bodies = [[b"%d-%d" % (thread, number) for number in range(20)] for thread in range(8)]

    with Producer(broker.name_server) as producer, ThreadPoolExecutor(8) as threads:

        def send_all(mine: list[bytes]) -> list[str]:
            return [producer.send("orders", body).id for body in mine]

        ids = [each for sent in threads.map(send_all, bodies) for each in sent]

    assert len(set(ids)) == 160
    with Reader(broker.name_server, "orders") as reader:
        found = {message.id: message.body for message in islice(reader, 160)}
    assert [found[each] for each in ids] == [body for mine in bodies for body in mine]


FORKING = """
import os, sys
from dueline.client import Producer
from dueline.errors import InvalidRequest

with Producer(sys.argv[1]) as producer:
    producer.send("orders", b"17")
    child = os.fork()
    if child == 0:
        try:
            producer.send("orders", b"18")
        except InvalidRequest as error:
            print(error, flush=True)
    else:
        os.waitpid(child, 0)
        producer.send("orders", b"19")
"""


def test_a_forked_process_is_told_to_make_its_own_and_does_not_disturb_its_parent(
    broker: RunningBroker,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, broker.name_server],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "after a fork, make a client of its own" in done.stdout
    assert (done.stderr, done.returncode) == ("", 0)
    with Reader(broker.name_server, "orders") as reader:
        assert {message.body for message in islice(reader, 2)} == {b"17", b"19"}


def test_cancelled_message_never_comes(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        cancelled = producer.send("orders", b"no", delay=timedelta(seconds=1))
        producer.send("orders", b"yes", delay=timedelta(seconds=1.2))
        late = producer.send("orders", b"late", delay=timedelta(milliseconds=1))

        assert producer.cancel(cancelled)
        with Reader(broker.name_server, "orders") as reader:
            found = [reader.receive().body for _ in range(2)]
        assert not producer.cancel(late)
        with pytest.raises(InvalidRequest):
            producer.cancel(producer.send("orders", b"now"))

    assert found == [b"late", b"yes"]


def test_many_are_sent_in_batches_with_delayed_ones_between(broker: RunningBroker) -> None:
    messages = [
        Outgoing(
            topic="orders",
            body=b"%d" % number,
            delay=timedelta(milliseconds=200) if number % 10 == 0 else None,
        )
        for number in range(200)
    ]
    with Producer(broker.name_server) as producer:
        sent = producer.send_many(messages)
        with Reader(broker.name_server, "orders") as reader:
            found = {reader.receive().id for _ in range(200)}

    assert len({each.id for each in sent}) == 200
    assert found == {each.id for each in sent}
    assert [each.handle is not None for each in sent] == [n % 10 == 0 for n in range(200)]


@pytest.mark.parametrize(
    "options",
    [
        {"delay": timedelta(1), "delay_level": 1},
        {"deliver_at": datetime(2027, 1, 1)},  # noqa: DTZ001 - that is the mistake
        {"queue_id": 99},
        {"delay": timedelta(seconds=-1)},
        {"delay": -1},
        {"delay": "soon"},
        {"delay": True},
        {"delay_level": -1},
        {"deliver_at": datetime(2001, 1, 1, tzinfo=UTC)},
        {"deliver_at": 1_800_000_000},
        {"keys": ["order 17"]},
        {"keys": [17]},
        {"keys": ""},
        {"body": "text"},
        {"body": 17},
    ],
)
def test_mistakes_are_told_before_anything_is_sent(
    broker: RunningBroker, options: dict[str, object]
) -> None:
    with Producer(broker.name_server) as producer, pytest.raises(InvalidRequest):
        producer.send(**{"topic": "orders", "body": b"x", **options})  # type: ignore[arg-type]

    assert broker.broker.meter.figures().sent_count == 0


@pytest.mark.parametrize("delay", [3600, 3600.0, timedelta(hours=1), "1h", "PT1H"])
def test_a_delay_may_be_said_in_any_way_that_has_one_meaning(
    broker: RunningBroker, delay: float | timedelta | str
) -> None:
    before_ms = system_time_ms()
    with Producer(broker.name_server) as producer:
        sent = producer.send("orders", b"x", delay=delay, keys="order-17")
    after_ms = system_time_ms()

    assert sent.due_ms is not None
    assert before_ms + 3_600_000 <= sent.due_ms <= after_ms + 3_600_000
    (found,) = broker.broker.delayed.find("order-17")
    assert found.unique_id == sent.id


def test_a_client_is_used_inside_with_and_nowhere_else(broker: RunningBroker) -> None:
    producer, reader = Producer(broker.name_server), Reader(broker.name_server, "orders")

    with pytest.raises(InvalidRequest, match=r"inside `with Producer.*not entered"):
        producer.send("orders", b"x")
    with pytest.raises(InvalidRequest, match=r"inside `with Reader.*not entered"):
        reader.receive()
    with producer:
        producer.send("orders", b"x")
        with pytest.raises(InvalidRequest, match="one `with` at a time"):
            producer.__enter__()
    with pytest.raises(InvalidRequest, match=r"inside `with Producer.*closed"):
        producer.send("orders", b"x")


def test_an_asyncio_client_is_used_inside_async_with(broker: RunningBroker) -> None:
    async def misuse() -> None:
        with pytest.raises(InvalidRequest, match="inside `async with`"):
            await AsyncProducer(broker.name_server).send("orders", b"x")
        with pytest.raises(InvalidRequest, match="inside `async with`"):
            await AsyncReader(broker.name_server, "orders").receive()

    asyncio.run(misuse())


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [(Producer, ()), (Reader, ("orders",)), (Consumer, ("orders", "billing", print))],
)
def test_unknown_options_are_told_at_once(kind: type, arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="retrys"):
        kind("127.0.0.1:9876", *arguments, retrys=3)


def test_refusals_are_errors_of_their_kind(tmp_path: Path) -> None:
    options = BrokerOptions(topics=TopicOptions(auto_create=False))
    with (
        RunningBroker(tmp_path, rules=options) as broker,
        Producer(broker.name_server) as producer,
        pytest.raises(NotFound),
    ):
        producer.send("orders", b"x")


def test_nobody_there_is_unavailable() -> None:
    (port,) = free_ports(1)
    with (
        Producer(f"127.0.0.1:{port}", timeout_s=1.0) as producer,
        pytest.raises(Unavailable, match=str(port)),
    ):
        producer.send("orders", b"x")


def test_refused_at_the_second_attempt_is_not_known_after_the_first(tmp_path: Path) -> None:
    files = FaultyFiles()
    with (
        RunningBroker(tmp_path, files=files, may_fail=True) as broker,
        Producer(broker.name_server, attempts_max=2) as producer,
    ):
        producer.send("orders", b"first")
        files.fail("sync", errno.EIO, path_part="commitlog")

        with pytest.raises(OutcomeUnknown, match="it may be there"):
            producer.send("orders", b"second")
        with pytest.raises(Unavailable):  # the store has closed, and a new message is not there
            producer.send("orders", b"third")

        wait_until(lambda: broker.failures, what="the broker to notice")


def test_handlers_get_every_message_and_refused_ones_again(broker: RunningBroker) -> None:
    seen: list[tuple[bytes, int]] = []
    lock = threading.Lock()

    def handle(message: Received) -> None:
        with lock:
            seen.append((message.body, message.attempt))
        if message.body == b"bad" and message.attempt == 0:
            raise ValueError("not this time")

    with Producer(broker.name_server) as producer:
        producer.send("orders", b"good")
        with Consumer(broker.name_server, "orders", "g", handle, attempts_max=1):
            producer.send("orders", b"bad")
            wait_until(lambda: (b"bad", 1) in seen, what="the second attempt")

    assert sorted(seen) == [(b"bad", 0), (b"bad", 1), (b"good", 0)]


def test_last_attempt_is_followed_by_the_dead_letters(broker: RunningBroker) -> None:
    def refuse(message: Received) -> None:
        raise ValueError("never")

    with Producer(broker.name_server) as producer:
        producer.send("orders", b"bad", tag="t")
        with Consumer(broker.name_server, "orders", "g", refuse, attempts_max=0):
            wait_until(lambda: broker.store.offset_range("%DLQ%g", 0)[1], what="a dead letter")
    with Reader(broker.name_server, "%DLQ%g") as reader:
        letter = reader.receive()

    assert (letter.body, letter.tag, letter.topic) == (b"bad", "t", "orders")


def test_a_consumer_can_be_used_again(broker: RunningBroker) -> None:
    handled: list[bytes] = []
    consumer = Consumer(
        broker.name_server, "orders", "billing", lambda message: handled.append(message.body)
    )

    def has(count: int) -> bool:
        return len(handled) == count

    with Producer(broker.name_server) as producer:
        for count in (1, 2):
            producer.send("orders", b"%d" % count)
            with consumer:
                wait_until(partial(has, count), what="the message")

    assert handled == [b"1", b"2"]


def test_group_shares_the_queues(broker: RunningBroker) -> None:
    names = broker.name_server
    first: list[bytes] = []
    second: list[bytes] = []
    sent = [b"start"]
    with Producer(names) as producer:
        producer.send("orders", b"start")

        def both_have_received() -> bool:
            sent.append(b"%d" % len(sent))
            producer.send("orders", sent[-1])
            return bool(first and second)

        with (
            Consumer(names, "orders", "g", lambda message: first.append(message.body)),
            Consumer(names, "orders", "g", lambda message: second.append(message.body)),
        ):
            wait_until(both_have_received, what="both to receive")
            wait_until(lambda: set(first + second) == set(sent), what="all to be received")


def test_next_consumer_goes_on_where_the_last_one_left(broker: RunningBroker) -> None:
    names = broker.name_server
    seen: list[bytes] = []
    with Producer(names) as producer:
        for number in range(8):
            producer.send("orders", b"%d" % number)
        with Consumer(names, "orders", "g", lambda message: seen.append(message.body)):
            wait_until(lambda: len(seen) == 8, what="eight messages")
        producer.send("orders", b"last")
        with Consumer(names, "orders", "g", lambda message: seen.append(message.body)):
            wait_until(lambda: b"last" in seen, what="the last message")

    assert sorted(seen) == [*(b"%d" % number for number in range(8)), b"last"]


def test_asyncio_twins(broker: RunningBroker) -> None:
    async def run() -> list[bytes]:
        found: asyncio.Queue[bytes] = asyncio.Queue()

        async def handle(message: Received) -> None:
            await found.put(message.body)

        async with (
            asyncio.timeout(PATIENCE_S),
            AsyncProducer(broker.name_server) as producer,
        ):
            await producer.send("orders", b"one")
            async with AsyncConsumer(broker.name_server, "orders", "g", handle):
                await producer.send("orders", b"two", delay=timedelta(milliseconds=100))
                return [await found.get(), await found.get()]

    assert asyncio.run(run()) == [b"one", b"two"]


def test_tags_select(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        for tag in ("red", "green", "blue"):
            producer.send("orders", tag.encode(), tag=tag)
    with Reader(broker.name_server, "orders", tags="red || blue") as reader:
        found = {reader.receive().body for _ in range(2)}

    assert found == {b"red", b"blue"}

"""Sent with one protocol, received with the other: 4.x and 5.x clients on one `dueline serve`."""

from __future__ import annotations

import gzip
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.grpc.calls import Caller
from tests.interop import grpc_tour
from tests.interop.clients import Client
from tests.interop.live import Live
from tests.interop.processes import Event, Process
from tests.waiting import wait_until

from dueline.clock import Clock

COUNT = 3
LARGE = 5_000
"""4.x producers compress bodies of 4 KiB and more."""
OK, GZIP = 20000, 2

Five = Callable[..., Process]


@pytest.fixture
def four(live: Live, tmp_path: Path) -> Client:
    return Client(kind="java49", name_server=live.server.name_server, folder=tmp_path)


@pytest.fixture
def five(live: Live, tmp_path: Path) -> Five:
    """The 5.x Python client: `five("receive", topic, group=…)`."""

    def start(side: str, topic: str, *, count: int = COUNT, **options: object) -> Process:
        program = str(grpc_tour.HERE / "grpc_python" / "cross.py")
        command = [str(grpc_tour.python_client()), program, side, live.endpoint, topic]
        command += ["--count", str(count)]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        return Process(command, cwd=tmp_path, environment={"HOME": str(tmp_path)})

    return start


@pytest.fixture
def topic(live: Live) -> str:
    name = f"cross-{uuid.uuid4().hex[:12]}"
    live.server.create_topic(name)
    return name


def bodies(prefix: str, size: int = 0) -> list[str]:
    return [f"{prefix}-{number}".ljust(size, ".") for number in range(COUNT)]


def test_level_3_of_a_4x_producer_reaches_a_5x_consumer(
    live: Live, four: Client, five: Five, topic: str
) -> None:
    with five("receive", topic) as consumer:
        consumer.wait_events("ready")
        before_ms = Clock().now_ms()
        sent = four.send(topic=topic, count=COUNT, level=3, body="four")
        received = consumer.wait_events("received", COUNT)

    assert len(sent) == COUNT
    assert sorted(event["body"] for event in received) == bodies("four")
    assert min(event["now_ms"] for event in received) >= before_ms + live.server.level_ms(3)


def test_delayed_message_of_a_5x_producer_reaches_a_4x_consumer(
    four: Client, five: Five, topic: str
) -> None:
    with four.start("consume", topic=topic, group="four") as consumer:
        consumer.wait_events("ready")
        with five("send", topic, delay_s=3) as producer:
            sent = {event["body"]: event["due_ms"] for event in producer.wait_events("sent", COUNT)}
        received = consumer.wait_events("received", COUNT)

    assert sorted(event["body"] for event in received) == sorted(sent)
    for event in received:
        assert event["at"] >= sent[event["body"]]


# Groups that change their clients


def was_refused(event: Event) -> bool:
    """It comes again, so the broker knows that it was refused."""
    return int(event["attempt"]) > 0


def wait_left(consumer: Process) -> None:
    """It stops as it should, and says how far it has come."""
    consumer.end_input()
    consumer.wait_events("stopped")


def consumed(live: Live, topic: str, group: str) -> int:
    """How many messages a group has consumed, as both protocols say it."""
    with Caller(live.endpoint) as caller:
        queues = ({"topic": {"name": topic}, "id": queue_id} for queue_id in range(4))
        return sum(
            caller.call("GetOffset", group={"name": group}, message_queue=queue).offset
            for queue in queues
        )


def test_refused_by_4x_clients_comes_to_the_5x_clients_that_replace_them(
    live: Live, four: Client, five: Five, topic: str
) -> None:
    group = f"{topic}-g"
    live.server.create_topic(f"%RETRY%{group}", queue_count=1)  # found at once, not in 20 seconds
    with four.start("consume", topic=topic, group=group, failures=99) as consumer:
        consumer.wait_events("ready")
        four.send(topic=topic, count=COUNT, body="four")
        consumer.wait_events("received", COUNT, of=was_refused)
        wait_left(consumer)

    with five("receive", topic, group=group, count=99) as consumer:
        # A 4.x client that stops between sending a refused message back and saying how far it has
        # come leaves both the message and its copy: each comes, some perhaps more than once.
        wait_until(
            lambda: {event["body"] for event in consumer.events("received")} >= {*bodies("four")},
            what="every message",
        )
        received = consumer.events("received")

    assert {event["body"] for event in received} == {*bodies("four")}
    assert {event["topic"] for event in received} == {topic}
    assert min(event["attempt"] for event in received) >= 2


def test_unfinished_by_5x_clients_comes_to_the_4x_clients_that_replace_them(
    four: Client, five: Five, topic: str
) -> None:
    group = f"{topic}-g"
    with five("send", topic) as producer:
        producer.wait_events("sent", COUNT)
    with five("hold", topic, group=group) as consumer:
        consumer.wait_events("received", COUNT)

    with four.start("consume", topic=topic, group=group) as consumer:
        received = consumer.wait_events("received", COUNT)

    assert sorted(event["body"] for event in received) == bodies("five")


def test_group_that_goes_there_and_back_gets_nothing_twice(
    live: Live, four: Client, five: Five, topic: str
) -> None:
    group = f"{topic}-g"
    seen: Counter[str] = Counter()
    with five("receive", topic, group=group) as consumer:
        consumer.wait_events("ready")
        four.send(topic=topic, count=COUNT, body="first")
        seen.update(event["body"] for event in consumer.wait_events("received", COUNT))
    with four.start("consume", topic=topic, group=group) as consumer:
        four.send(topic=topic, count=COUNT, body="second")
        seen.update(event["body"] for event in consumer.wait_events("received", COUNT))
        wait_until(lambda: consumed(live, topic, group) == 2 * COUNT, what="a commit")
    with five("receive", topic, group=group) as consumer:
        four.send(topic=topic, count=COUNT, body="third")
        seen.update(event["body"] for event in consumer.wait_events("received", COUNT))

    assert seen == Counter([*bodies("first"), *bodies("second"), *bodies("third")])


# Compressed bodies


@pytest.mark.parametrize("method", ["", "ZLIB", "LZ4", "ZSTD"])
def test_large_body_of_a_4x_producer_is_readable_for_5x_clients(
    live: Live, four: Client, five: Five, topic: str, method: str
) -> None:
    options = {"compress": method} if method else {}
    # The 4.9 client has no choice of methods, the 5.x client of the same protocol has.
    producer = replace(four, kind="java5") if method else four
    producer.send(topic=topic, count=COUNT, body="four", body_size=LARGE, **options)

    with five("receive", topic, group=f"{topic}-g") as consumer:
        received = consumer.wait_events("received", COUNT)

    assert sorted(event["body"] for event in received) == bodies("four", LARGE)


@pytest.mark.parametrize("kind", ["java49", "java5", "go"])
def test_zipped_body_of_a_5x_producer_is_readable_for_4x_clients(
    live: Live, topic: str, tmp_path: Path, kind: str
) -> None:
    """No official client zips what it sends; the protocol lets them."""
    consumer = Client(kind=kind, name_server=live.server.name_server, folder=tmp_path)
    with Caller(live.endpoint) as caller:
        for body in bodies("five", LARGE):
            zipped = {"body": gzip.compress(body.encode()), "system": {"body_encoding": GZIP}}
            assert caller.send(topic, zipped).status.code == OK

    with consumer.start("consume", topic=topic, group=f"{topic}-g") as consuming:
        received = consuming.wait_events("received", COUNT)

    assert sorted(event["body"] for event in received) == bodies("five", LARGE)


# Namespaces


def test_clients_of_one_namespace_meet_whatever_their_protocol(
    four: Client, five: Five, topic: str
) -> None:
    with five("receive", topic, namespace="ns1", group="meeting") as inside:
        inside.wait_events("ready")
        four.send(topic=topic, count=COUNT, body="four", namespace="ns1")
        received = inside.wait_events("received", COUNT)
    with four.start("consume", topic=topic, group="meeting4", namespace="ns1") as consumer:
        with five("send", topic, namespace="ns1") as producer:
            producer.wait_events("sent", COUNT)
        found = consumer.wait_events("received", 2 * COUNT)

    assert sorted(event["body"] for event in received) == bodies("four")
    assert {event["topic"] for event in received} == {topic}
    assert sorted(event["body"] for event in found) == [*bodies("five"), *bodies("four")]
    assert {event["topic"] for event in found} == {topic}


def test_refused_in_a_namespace_comes_to_5x_clients_of_the_namespace(
    live: Live, four: Client, five: Five, topic: str
) -> None:
    group, where = f"{topic}-g", {"namespace": "ns1"}
    live.server.create_topic(f"%RETRY%ns1%{group}", queue_count=1)
    with four.start("consume", topic=topic, group=group, failures=99, **where) as consumer:
        consumer.wait_events("ready")
        four.send(topic=topic, count=1, body="inside", **where)
        four.send(topic=topic, count=1, body="outside")
        consumer.wait_events("received", 1, of=was_refused)
        wait_left(consumer)

    with five("receive", topic, group=group, count=1, **where) as consumer:
        (received,) = consumer.wait_events("received", 1)

    assert received["body"] == "inside-0"
    assert received["attempt"] >= 2

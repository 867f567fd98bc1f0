"""Kombu's verbs on a broker in this process: the transport that Celery uses, without workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer, Message, Queue
from kombu.exceptions import OperationalError
from tests.remoting.serving import RunningBroker
from tests.unit.store.recording import make_record
from tests.waiting import PATIENCE_S

from dueline.celery import Feed, keys_of, payload_of
from dueline.client import Producer, Taken
from dueline.client.values import received
from dueline.message import encode_properties


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One for all tests: each has a queue of its own."""
    folder: Path = tmp_path_factory.mktemp("broker")
    with RunningBroker(folder, is_compiled=False) as running:
        yield running


@pytest.fixture
def connection(server: RunningBroker) -> Iterator[Connection]:
    with Connection(f"dueline://{server.name_server}") as made:
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).removeprefix("test_")


def publish(connection: Connection, name: str, *bodies: object) -> None:
    with connection.Producer() as producer:
        for body in bodies:
            producer.publish({"n": body}, routing_key=name, declare=[Queue(name, routing_key=name)])


def consumer(connection: Connection, name: str, prefetch: int = 0) -> tuple[Consumer, list[Any]]:
    """A consumer, and the messages that it gets."""
    found: list[Message] = []
    channel = connection.channel()
    made = Consumer(channel, [Queue(name, routing_key=name)], on_message=found.append)
    if prefetch:
        made.qos(prefetch_count=prefetch)
    made.consume()
    return made, found


def drain(connection: Connection, found: list[Message], count: int) -> list[object]:
    while len(found) < count:
        connection.drain_events(timeout=PATIENCE_S)
    return sorted(message.payload["n"] for message in found)


def test_what_is_published_is_delivered_and_gone_when_acknowledged(
    connection: Connection, name: str
) -> None:
    publish(connection, name, 1, 2)
    taking, found = consumer(connection, name)

    assert drain(connection, found, 2) == [1, 2]
    for message in found:
        assert not message.delivery_info.get("redelivered")
        message.ack()
    taking.channel.close()
    _, again = consumer(connection, name)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.1)
    assert again == []


def test_a_worker_gets_no_more_than_it_has_room_for(connection: Connection, name: str) -> None:
    publish(connection, name, 1, 2, 3)
    _, found = consumer(connection, name, prefetch=2)
    drain(connection, found, 2)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.1)

    found[0].ack()

    assert drain(connection, found, 3) == [1, 2, 3]


def test_a_task_that_is_requeued_comes_again_and_says_so(connection: Connection, name: str) -> None:
    publish(connection, name, 1)
    _, found = consumer(connection, name)
    drain(connection, found, 1)

    found[0].requeue()

    drain(connection, found, 2)
    assert found[1].delivery_info["redelivered"]


def test_a_task_that_is_rejected_is_dropped(connection: Connection, name: str) -> None:
    publish(connection, name, 1)
    taking, found = consumer(connection, name)
    drain(connection, found, 1)

    found[0].reject()

    taking.channel.close()
    consumer(connection, name)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.1)


def test_what_a_closed_channel_had_comes_again(connection: Connection, name: str) -> None:
    publish(connection, name, 1)
    taking, found = consumer(connection, name)
    drain(connection, found, 1)

    taking.channel.close()

    _, again = consumer(connection, name)
    assert drain(connection, again, 1) == [1]


def test_what_is_no_task_is_given_back_and_the_next_one_comes(
    connection: Connection, server: RunningBroker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(server.name_server) as producer:
        producer.send(name, b"hello", queue_id=0)
    released: list[str] = []
    session = connection.transport.session
    release = session.release

    def note(feed: Feed, taken: Taken) -> None:
        released.append(taken.message.id)
        release(feed, taken)

    session.release = note
    publish(connection, name, 7)
    _, found = consumer(connection, name)

    assert drain(connection, found, 1) == [7]
    while not released:
        connection.transport._deliver_ready()
    assert "no task" in caplog.text


def test_one_message_is_got_at_once_or_none(connection: Connection, name: str) -> None:
    publish(connection, name, 7)
    queue = Queue(name, routing_key=name)(connection.default_channel)

    got = queue.get(no_ack=True)

    assert got is not None
    assert got.payload == {"n": 7}
    assert queue.get(no_ack=True) is None


def test_purging_says_how_many_there_were(connection: Connection, name: str) -> None:
    publish(connection, name, *range(40))  # more than are taken at a time
    queue = Queue(name, routing_key=name)(connection.default_channel)

    assert (queue.purge(), queue.purge()) == (40, 0)


def test_news_make_the_pipe_readable_until_they_are_looked_at(server: RunningBroker) -> None:
    with Connection(f"dueline://{server.name_server}") as connection:
        session = connection.transport.session
        for _ in range(100_000):  # more than a pipe holds: nobody is kept
            session._tell()
        assert os.read(session.fileno, 1) == b"\0"

        session.clear_news()

        with pytest.raises(BlockingIOError):
            os.read(session.fileno, 1)


def test_a_forked_process_leaves_its_parent_s_session_alone(server: RunningBroker) -> None:
    with Connection(f"dueline://{server.name_server}") as connection:
        session = connection.transport.session
        session._pid += 1
        session.close()
        session._pid -= 1

        session.check()
        session.close()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:1;127.0.0.1:2"])
def test_no_broker_is_an_error_that_celery_tries_again_after(address: str) -> None:
    connection = Connection(f"dueline://{address}")

    with pytest.raises(OperationalError, match=r"127\.0\.0\.1:[12]"):
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
    connection.release()


@pytest.mark.parametrize(
    ("task_id", "keys"),
    [("a-1", ["a-1"]), ("a 1", []), (" a", []), ("", []), (None, []), (7, [])],
)
def test_a_task_is_found_by_its_id_if_it_can_be_a_key(task_id: object, keys: list[str]) -> None:
    assert keys_of(task_id) == keys


def taken(body: bytes, *, due_ms: int | None = None, attempt: int = 0) -> Taken:
    properties = {} if due_ms is None else {"TIMER_OUT_MS": str(due_ms)}
    record = make_record(
        body=body, reconsume_times=attempt, properties=encode_properties(properties)
    )
    return Taken(message=received(record), broker_name="b", receipt="r 1")


ETA = "2027-01-01T00:00:00+00:00"
ETA_MS = 1_798_761_600_000
TASK = b'{"properties": {"delivery_info": {}}, "headers": {"eta": "%s"}}' % ETA.encode()


@pytest.mark.parametrize(
    ("due_ms", "eta"), [(ETA_MS, ETA), (None, ETA), (ETA_MS - 1, None), (ETA_MS + 1, None)]
)
def test_a_task_that_was_moved_is_not_kept_for_its_eta(due_ms: int | None, eta: object) -> None:
    assert payload_of(taken(TASK, due_ms=due_ms))["headers"]["eta"] == eta


def test_a_delivery_has_a_tag_of_its_own_and_says_whether_it_is_the_first() -> None:
    first, second = payload_of(taken(TASK)), payload_of(taken(TASK, attempt=1))

    assert first["properties"]["delivery_tag"].endswith("/r 1")
    assert "redelivered" not in first["properties"]["delivery_info"]
    assert second["properties"]["delivery_info"]["redelivered"]

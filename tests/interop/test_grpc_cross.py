"""Sent with one protocol, received with the other: 4.x Java and 5.x Python on one broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import grpc_tour
from tests.interop.clients import Client
from tests.interop.processes import Process

from dueline.config import load
from dueline.server.broker import Broker
from dueline.store.restore import carry

COUNT = 3
LEVEL_3_MS = 10_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with every port, and due messages carried over here instead of by Spark."""
    free = "127.0.0.1:0"
    flags = {
        "data": str(tmp_path_factory.mktemp("cross")),
        "store.commit_segment_size": "16MiB",
        "store.delay_segment_size": "16MiB",
        **{f"listen.{name}": free for name in ("flight", "name_server", "remoting", "grpc")},
    }
    running = Broker(load(environ={}, flags=flags).config)
    running.start()
    stopping = threading.Event()

    def carry_over() -> None:
        while not stopping.wait(0.05):
            until_ms = running.clock.now_ms() + 2_000
            corner = running.store.next_corner(until_ms=until_ms, row_count_max=1_000)
            window = running.store.window(corner)
            if len(window):
                running.store.deliver([carry(running.store.read_window(window))])

    carrier = threading.Thread(target=carry_over)
    carrier.start()
    yield running
    stopping.set()
    carrier.join()
    running.stop()


@pytest.fixture
def java(broker: Broker, tmp_path: Path) -> Client:
    listener = broker.remoting_options.name_server
    assert listener is not None
    name_server = f"127.0.0.1:{listener.port}"
    return Client(kind="java49", name_server=name_server, folder=tmp_path)


def python(side: str, broker: Broker, topic: str, folder: Path) -> Process:
    program = str(grpc_tour.HERE / "grpc_python" / "cross.py")
    endpoint = f"127.0.0.1:{broker.grpc.port}"
    command = [str(grpc_tour.python_client()), program, side, endpoint, topic, str(COUNT)]
    return Process(command, cwd=folder, environment={"HOME": str(folder)})


def test_level_3_of_a_4x_producer_reaches_a_5x_consumer(
    broker: Broker, java: Client, tmp_path: Path
) -> None:
    with python("receive", broker, "four-to-five", tmp_path) as consumer:
        consumer.wait_events("ready")
        before_ms = broker.clock.now_ms()
        sent = java.send(topic="four-to-five", count=COUNT, level=3, body="four")
        received = consumer.wait_events("received", COUNT)

    assert len(sent) == COUNT
    assert sorted(event["body"] for event in received) == [f"four-{n}" for n in range(COUNT)]
    assert min(event["now_ms"] for event in received) >= before_ms + LEVEL_3_MS


def test_delayed_message_of_a_5x_producer_reaches_a_4x_consumer(
    broker: Broker, java: Client, tmp_path: Path
) -> None:
    topic = "five-to-four"
    broker.messaging.topics.ensure(topic, queue_count=4)
    with java.start("consume", topic=topic, group="four") as consumer:
        consumer.wait_events("ready")
        with python("send", broker, topic, tmp_path) as producer:
            sent = {event["body"]: event["due_ms"] for event in producer.wait_events("sent", COUNT)}
        received = consumer.wait_events("received", COUNT)

    assert sorted(event["body"] for event in received) == sorted(sent)
    for event in received:
        assert event["at"] >= sent[event["body"]]

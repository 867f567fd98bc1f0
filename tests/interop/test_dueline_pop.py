"""POP consumption by a real 5.x client: the broker is told to have a group pop a topic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.interop import toolchain
from tests.interop.clients import Client
from tests.interop.processes import Process
from tests.interop.remoting import Connection
from tests.interop.servers import Server

from dueline.wire import RequestCode

PROGRAM = Path(__file__).parent / "pop" / "PopConsumer.java"


@pytest.mark.parametrize("mode", ["POP", "PULL"])
def test_client_that_lets_the_broker_divide_gets_everything(
    server: Server, java5: Client, topic: str, group: str, mode: str
) -> None:
    wanted = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": 0}
    with Connection(server.broker) as connection:
        answer = connection.call(
            RequestCode.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(wanted).encode()
        )
    assert answer.code == 0

    with _consumer(server, java5.folder, topic, group) as consumer:
        consumer.wait_events("ready")
        java5.send(topic=topic, count=8, body="good")
        java5.send(topic=topic, count=4, body="later", level=2)
        java5.send(topic=topic, body="bad")
        consumer.wait_events("received", of=lambda e: e["attempt"] == 1)
        consumer.wait_events("received", 14)
        received = consumer.events("received")

    bodies = sorted((event["body"], event["attempt"]) for event in received)
    assert bodies == [
        ("bad-0", 0),
        ("bad-0", 1),
        *((f"good-{number}", 0) for number in range(8)),
        *((f"later-{number}", 0) for number in range(4)),
    ]
    assert {event["isPopped"] for event in received} == {mode == "POP"}
    for event in received:
        if event["body"].startswith("later"):
            assert event["at"] >= event["bornAt"] + server.level_ms(2)


def _consumer(server: Server, folder: Path, topic: str, group: str) -> Process:
    return Process(
        [
            "java",
            "-Xmx160m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Duser.home={folder}",
            f"-Drocketmq.client.logRoot={folder / 'logs'}",
            "-cp",
            toolchain.class_path("java5"),
            str(PROGRAM),
            server.name_server,
            topic,
            group,
        ],
        cwd=folder,
        environment={"HOME": str(folder)},
    )

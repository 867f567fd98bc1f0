"""A consumer that refuses: retries with growing delays, then the dead-letter topic."""

from __future__ import annotations

import itertools

import pytest
from tests.interop.clients import Client
from tests.interop.servers import Server

# The first retry waits as long as delay level 3, the next one level 4.
FIRST_RETRY_LEVEL = 3


@pytest.fixture(autouse=True)
def _retry_topic(server: Server, group: str) -> None:
    """The broker makes it when the group appears, but Go's client looks only every half minute."""
    server.create_topic(f"%RETRY%{group}", queue_count=1)


def test_refused_message_comes_again_later(
    server: Server, client: Client, topic: str, group: str
) -> None:
    with client.start("consume", topic=topic, group=group, failures=2) as consumer:
        consumer.wait_events("ready")
        (sent,) = client.send(topic=topic, tag="retry", key="k")
        consumer.wait_events("received", of=lambda e: not e["isRefused"])
        received = consumer.events("received")

    assert [e["attempt"] for e in received] == [0, 1, 2]
    assert {e["id"] for e in received} == {sent["id"]}
    assert {e["topic"] for e in received} == {topic}
    assert {e["tags"] for e in received} == {"retry"}
    for before, after in itertools.pairwise(received):
        waited_ms = server.level_ms(FIRST_RETRY_LEVEL + before["attempt"])
        assert after["at"] >= before["at"] + waited_ms


def test_message_refused_too_often_goes_to_the_dead_letter_topic(
    client: Client, topic: str, group: str
) -> None:
    with client.start(
        "consume", topic=topic, group=group, failures=99, max_reconsume=1
    ) as consumer:
        consumer.wait_events("ready")
        (sent,) = client.send(topic=topic, body="bad")
        received = consumer.wait_events("received", 2)
        assert [e["attempt"] for e in received] == [0, 1]

        dead = f"%DLQ%{group}"
        client_of_dead = Client(kind="java5", name_server=client.name_server, folder=client.folder)
        with client_of_dead.start("consume", topic=dead, group=f"{group}-dead") as reader:
            (letter,) = reader.wait_events("received")

    assert letter["body"] == "bad-0"
    assert letter["id"] == sent["id"]
    assert letter["properties"]["RETRY_TOPIC"] == topic

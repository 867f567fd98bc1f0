"""Transactional messages of the Java clients."""

from __future__ import annotations

from tests.interop.clients import Client


def test_committed_messages_are_received(java: Client, topic: str, group: str) -> None:
    with (
        java.start("consume", topic=topic, group=group) as consumer,
        java.start(
            "transact", topic=topic, group=f"{group}-producer", count=3, outcome="commit"
        ) as producer,
    ):
        sent = producer.wait_events("sent", 3)
        received = consumer.wait_events("received", 3)

    assert sorted(e["id"] for e in received) == sorted(e["id"] for e in sent)
    assert {e["topic"] for e in received} == {topic}


def test_rolled_back_messages_are_not_received(java: Client, topic: str, group: str) -> None:
    with java.start(
        "transact",
        topic=topic,
        group=f"{group}-producer",
        count=3,
        outcome="rollback",
        # Apache may ask once more before it has noted the first answer.
        check="rollback",
    ) as producer:
        producer.wait_events("ready")
        java.send(topic=topic, body="after", count=4)

        with java.start("consume", topic=topic, group=group) as consumer:
            received = consumer.wait_events("received", 4)

    # One message after the others on each queue: what came before it would have been seen.
    assert sorted(e["body"] for e in received) == [f"after-{i}" for i in range(4)]


def test_undecided_message_is_asked_for_and_then_received(
    java: Client, topic: str, group: str
) -> None:
    with (
        java.start("consume", topic=topic, group=group) as consumer,
        java.start(
            "transact", topic=topic, group=f"{group}-producer", outcome="unknown", check="commit"
        ) as producer,
    ):
        (sent,) = producer.wait_events("sent")
        checked = producer.wait_events("checked")
        (received,) = consumer.wait_events("received")

    assert checked[0]["id"] == sent["id"]
    assert checked[0]["topic"] == topic
    assert received["id"] == sent["id"]

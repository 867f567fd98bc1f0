"""Delayed messages of real clients: not early, not lost, and as they were sent."""

from __future__ import annotations

import pytest
from tests.interop.clients import Client
from tests.interop.servers import Server

from dueline.clock import system_time_ms


@pytest.mark.parametrize("level", [1, 3])
def test_level_is_waited_for(
    server: Server, client: Client, topic: str, group: str, level: int
) -> None:
    with client.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("ready")
        sent = client.send(topic=topic, count=4, level=level, tag="later", key="k", body="later")

        received = consumer.wait_events("received", 4)

    assert sorted(e["id"] for e in received) == sorted(e["id"] for e in sent)
    for event in received:
        assert event["at"] >= event["bornAt"] + server.level_ms(level)
        assert event["topic"] == topic
        assert event["tags"] == "later"
        assert event["attempt"] == 0
    assert sorted(e["body"] for e in received) == [f"later-{i}" for i in range(4)]


def test_shorter_delay_overtakes_a_longer_one(client: Client, topic: str, group: str) -> None:
    with client.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("ready")
        client.send(topic=topic, count=3, level="5,1,0")

        received = consumer.wait_events("received", 3)

    # By the time of the queue, not of the arrival: a client may begin with one queue late.
    received.sort(key=lambda event: event["storedAt"])
    assert [e["body"] for e in received] == ["message-2", "message-1", "message-0"]


def test_delayed_message_goes_to_the_queue_that_the_send_named(
    client: Client, topic: str, group: str
) -> None:
    sent = client.send(topic=topic, count=4, level=1)

    with client.start("consume", topic=topic, group=group) as consumer:
        received = consumer.wait_events("received", 4)

    assert {e["id"]: e["queue"] for e in received} == {e["id"]: e["queue"] for e in sent}


@pytest.mark.parametrize("option", ["delay_ms", "delay_sec", "deliver_ms"])
def test_any_delay_is_waited_for(java5: Client, topic: str, group: str, option: str) -> None:
    deliver_ms = system_time_ms() + 6_000
    value = {"delay_ms": 2_500, "delay_sec": 2, "deliver_ms": deliver_ms}[option]
    with java5.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("ready")
        sent = java5.send(topic=topic, count=3, **{option: value})

        received = consumer.wait_events("received", 3)

    assert sorted(e["id"] for e in received) == sorted(e["id"] for e in sent)
    for event in received:
        due = {
            "delay_ms": event["bornAt"] + 2_500,
            "delay_sec": event["bornAt"] + 2_000,
            "deliver_ms": deliver_ms,
        }[option]
        assert event["at"] >= due


def test_recalled_message_is_never_received(java5: Client, topic: str, group: str) -> None:
    with java5.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("ready")
        (recalled,) = java5.send(topic=topic, delay_ms=15_000, body="recalled")
        (kept,) = java5.send(topic=topic, delay_ms=17_000, body="kept")

        answer = java5.run("recall", topic=topic, handle=recalled["handle"])
        received = consumer.wait_events("received")

    assert [e["id"] for e in answer if e["event"] == "recalled"] == [recalled["id"]]
    assert [e["id"] for e in received] == [kept["id"]]


def test_bad_handle_is_refused(java5: Client, topic: str) -> None:
    with java5.start("recall", topic=topic, handle="bm90IGEgaGFuZGxl") as process:
        process.finish()
        (error,) = process.events("error")

    assert error["code"] != 0
    assert not process.events("recalled")

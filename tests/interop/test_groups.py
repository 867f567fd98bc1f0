"""Consumers that share a group share the queues, and take over from one that dies."""

from __future__ import annotations

from tests.interop.clients import Client
from tests.waiting import wait_until


def test_survivor_takes_over_the_queues_of_a_killed_consumer(
    client: Client, topic: str, group: str
) -> None:
    with (
        client.start("consume", topic=topic, group=group) as victim,
        client.start("consume", topic=topic, group=group) as survivor,
    ):
        for consumer in (victim, survivor):
            consumer.wait_events("ready")

        def both_have_received() -> bool:
            client.send(topic=topic, count=8, body="shared")
            return bool(victim.events("received") and survivor.events("received"))

        wait_until(both_have_received, what="both consumers to receive")
        victim.kill()
        sent = client.send(topic=topic, count=8, body="after")
        wanted = {event["id"] for event in sent}

        survivor.wait_events("received", 8, of=lambda event: event["id"] in wanted)

    queues = {e["queue"] for e in survivor.events("received") if e["id"] in wanted}
    assert queues == {0, 1, 2, 3}


def test_offsets_survive_a_consumer_that_leaves_in_order(
    client: Client, topic: str, group: str
) -> None:
    first = client.send(topic=topic, count=8, body="first")
    with client.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("received", 8)
        consumer.end_input()
        consumer.finish()

    second = client.send(topic=topic, count=8, body="second")
    with client.start("consume", topic=topic, group=group) as consumer:
        received = consumer.wait_events("received", 8)

    assert not {e["id"] for e in received} & {e["id"] for e in first}
    assert {e["id"] for e in received} == {e["id"] for e in second}

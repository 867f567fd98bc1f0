"""Real clients send in every way and receive what was sent."""

from __future__ import annotations

import pytest
from tests.interop.clients import Client
from tests.interop.processes import Event
from tests.interop.servers import Server


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_what_is_sent_is_received(
    server: Server, client: Client, topic: str, group: str, mode: str
) -> None:
    if mode == "batch" and client.kind == "java5" and not server.is_5x:
        pytest.skip("a 4.x broker gives every message of a 5.x client's batch the id of the batch")
    with client.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("ready")
        sent = client.send(topic=topic, count=8, mode=mode, tag="TagA", key="order-1", body="hi")

        received = consumer.wait_events("received", 8)

    assert len(sent) == 8
    if not (server.name == "dueline" and client.kind == "go" and mode == "batch"):
        # Go gives the messages of a batch no ids; Dueline gives them some, Apache shows offset ids.
        assert sorted(e["id"] for e in received) == sorted(e["id"] for e in sent)
    assert sorted(e["body"] for e in received) == [f"hi-{i}" for i in range(8)]
    assert {e["tags"] for e in received} == {"TagA"}
    assert {e["keys"].strip() for e in received} == {"order-1"}
    assert {e["properties"]["index"] for e in received} == {str(i) for i in range(8)}


def test_large_bodies_survive_the_clients_compression(
    client: Client, topic: str, group: str
) -> None:
    client.send(topic=topic, body_size=20_000, body="large")

    with client.start("consume", topic=topic, group=group) as consumer:
        (received,) = consumer.wait_events("received")

    assert received["body"] == "large-0" + "." * (20_000 - len("large-0"))


def test_sends_spread_over_the_queues_and_offsets_count_up(client: Client, topic: str) -> None:
    sent = client.send(topic=topic, count=8)

    by_queue: dict[int, list[int]] = {}
    for event in sent:
        assert event["status"] == "SEND_OK"
        by_queue.setdefault(event["queue"], []).append(event["queueOffset"])
    assert set(by_queue) == {0, 1, 2, 3}
    assert all(offsets == [0, 1] for offsets in by_queue.values())


def test_tag_expression_selects(client: Client, topic: str, group: str) -> None:
    for tag in ("red", "green", "blue"):
        client.send(topic=topic, tag=tag, body=tag, count=2)

    with client.start("consume", topic=topic, group=group, expression="red || blue") as consumer:
        received = consumer.wait_events("received", 4)

    assert sorted(e["body"] for e in received) == ["blue-0", "blue-1", "red-0", "red-1"]


@pytest.mark.parametrize("failures", [0, 1])
def test_orderly_consumer_keeps_the_order_of_each_queue(
    client: Client, topic: str, group: str, failures: int
) -> None:
    with client.start(
        "consume", topic=topic, group=group, mode="orderly", failures=failures
    ) as consumer:
        consumer.wait_events("ready")
        client.send(topic=topic, count=12, mode="ordered", orders=2)
        consumer.wait_events("received", 12, of=lambda e: not e["isRefused"])
        received = consumer.events("received")

    for order in (0, 1):
        queue = [e for e in received if int(e["properties"]["index"]) % 2 == order]
        assert len({e["queue"] for e in queue}) == 1
        assert _indexes(queue, is_refused=False) == list(range(order, 12, 2))
        assert len(_indexes(queue, is_refused=True)) == failures * 6


def test_broadcasting_gives_every_consumer_every_message(
    client: Client, topic: str, group: str
) -> None:
    other = Client(kind=client.kind, name_server=client.name_server, folder=client.folder / "other")
    other.folder.mkdir()
    options = {"topic": topic, "group": group, "mode": "broadcasting"}
    with client.start("consume", **options) as one, other.start("consume", **options) as two:
        one.wait_events("ready")
        two.wait_events("ready")
        sent = client.send(topic=topic, count=8)

        received = [consumer.wait_events("received", 8) for consumer in (one, two)]

    for events in received:
        assert sorted(e["id"] for e in events) == sorted(e["id"] for e in sent)


def test_pull_consumer_finds_the_messages(
    server: Server, java: Client, topic: str, group: str
) -> None:
    if java.kind == "java5" and not server.is_5x:
        pytest.skip("a 4.x broker does not know a 5.x client's pull (361)")
    sent = java.send(topic=topic, count=8)

    events = java.run("pull", topic=topic, group=group, count=8)

    received = [e for e in events if e["event"] == "received"]
    assert sorted(e["id"] for e in received) == sorted(e["id"] for e in sent)


def _indexes(events: list[Event], *, is_refused: bool) -> list[int]:
    return [int(e["properties"]["index"]) for e in events if e["isRefused"] == is_refused]

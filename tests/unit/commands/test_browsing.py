from tests.unit.commands.conftest import Run

from dueline.commands.browsing import Span, delivered, waiting
from dueline.flight.client import FlightClient
from dueline.message import Message
from dueline.server.process import BrokerProcess

DUE_MS = 4_102_444_800_000  # 2100-01-01 00:00 UTC


def put_waiting(broker: BrokerProcess, topic: str, count: int) -> None:
    for number in range(count):
        properties = {"TIMER_DELIVER_MS": str(DUE_MS + 1000 * (count - number)), "KEYS": "k"}
        broker.store.put(Message(topic=topic, body=str(number).encode(), properties=properties))


def test_what_waits_is_in_due_order_of_one_topic_or_all(broker: BrokerProcess) -> None:
    put_waiting(broker, "a", 5)
    put_waiting(broker, "b", 5)

    with FlightClient(broker.address) as client:
        every = waiting(client, topic=None, key=None, limit=6)
        one = waiting(client, topic="b", key=None, limit=3)
        by_key = waiting(client, topic="a", key="k", limit=2)

    assert [each.due_ms - DUE_MS for each in every] == [1000, 1000, 2000, 2000, 3000, 3000]
    assert [(each.topic, each.message.body) for each in one] == [
        ("b", b"4"),
        ("b", b"3"),
        ("b", b"2"),
    ]
    assert [(each.topic, each.message.body) for each in by_key] == [("a", b"4"), ("a", b"3")]


def test_the_first_of_a_span_or_the_last_of_a_topic(broker: BrokerProcess) -> None:
    for number in range(6):
        broker.store.put(Message(topic="t", body=str(number).encode()))

    with FlightClient(broker.address) as client:
        first = delivered(client, "t", Span(queue_id=0, offset=1), limit=2)
        last = delivered(client, "t", Span(), limit=2)
        none = delivered(client, "t", Span(queue_id=0, offset=6), limit=2)

    assert [each.queue_offset for each in first] == [1, 2]
    assert [each.queue_offset for each in last] == [4, 5]
    assert none == []


def test_the_list_says_what_waits(broker: BrokerProcess, run: Run) -> None:
    put_waiting(broker, "a", 3)

    assert len(run("pending", "--list", "--limit", "2").lines) == 1 + 2
    assert len(run("pending", "--list", "--key", "k", "--json").lines) == 3
    assert run("pending", "--list", "--topic", "b", "--json").out == ""
    assert run("pending", "--list", "--key", "nobody").code == 1
    assert run("pending", "--list", "--limit", "0").code == 2

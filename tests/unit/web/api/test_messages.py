import base64

import pytest
from tests.unit.server.local import visible_bodies
from tests.unit.web.local import Site

from dueline.server.process import BrokerProcess


def test_a_message_is_sent_and_looked_up(site: Site, broker: BrokerProcess) -> None:
    sent = site.ask(
        "POST",
        "/api/v1/messages",
        {
            "topic": "orders",
            "body": "pay",
            "keys": ["order/1"],
            "tag": "t",
            "delay": "30m",
            "properties": {"customer": "7"},
        },
    ).json

    (found,) = site.get("/api/v1/messages/order%2F1").json["messages"]

    assert found["unique_id"] == sent["unique_id"]
    assert (found["state"], found["topic"], found["tag"]) == ("pending", "orders", "t")
    assert found["properties"]["customer"] == "7"
    assert base64.b64decode(found["body"]) == b"pay"
    assert found["due_ms"] == sent["due_ms"]
    assert 0 <= found["accepted_ms"] - (sent["due_ms"] - 1_800_000) < 60_000


def test_a_message_for_now_is_there_at_once(site: Site, broker: BrokerProcess) -> None:
    data = base64.b64encode(b"\xff\x00").decode()
    site.ask("POST", "/api/v1/messages", {"topic": "a", "body_base64": data, "queue_id": 1})

    assert site.get("/api/v1/messages/nobody?topic=a").status == 404
    assert broker.store.offset_range("a", 1) == (0, 1)


def test_messages_without_a_queue_take_turns(site: Site, broker: BrokerProcess) -> None:
    for body in "abcd":
        assert site.ask("POST", "/api/v1/messages", {"topic": "t", "body": body}).status == 200

    bodies = [visible_bodies(broker, "t", queue_id) for queue_id in range(4)]
    assert sorted(bodies) == [["a"], ["b"], ["c"], ["d"]]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"body": None}, "one of body and body_base64, found neither"),
        ({"body_base64": "YQ=="}, "one of body and body_base64, found both"),
        ({"body": None, "body_base64": "?"}, "body_base64"),
        ({"delay": "soon"}, "duration: expected number and unit"),
        ({"delay": "1m", "delay_level": 3}, "found several"),
        ({"deliver_at": "2001-01-01T00:00Z"}, "deliver_at"),
        ({"deliver_at": "some day"}, "some day"),
        ({"queue_id": -1}, "queue_id: expected 0 or more"),
        ({"queue_id": 99}, "99"),
        ({"properties": {"REAL_TOPIC": "x"}}, "REAL_TOPIC"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "SCHEDULE_TOPIC_XXXX"),
        ({"topic": ""}, "topic"),
        ({"keys": ["a", 1]}, "keys"),
    ],
)
def test_what_cannot_be_sent_is_refused(
    site: Site, broker: BrokerProcess, fields: dict[str, object], said: str
) -> None:
    answer = site.ask("POST", "/api/v1/messages", {"topic": "t", "body": "x", **fields})

    assert answer.status == 400, answer.text
    assert said in answer.json["message"]
    assert broker.store.pending_count() == 0

import json

import pytest
from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess


def listed(run: Run, *words: str) -> dict[str, dict[str, object]]:
    rows = [json.loads(line) for line in run("topics", "--json", *words).lines]
    return {row["topic"]: row for row in rows}


def test_topics_are_listed_with_what_they_hold(broker: BrokerProcess, run: Run) -> None:
    for number in range(3):
        broker.store.put(Message(topic="orders", queue_id=number, body=b"x"))
    broker.store.put(Message(topic="orders", body=b"x", properties={"TIMER_DELAY_MS": "60000"}))
    run("topics", "create", "orders", "--queues", "8")

    found = listed(run)
    ran = run("topics")

    assert list(found) == ["orders"]
    assert [
        found["orders"][name] for name in ("queue_count", "message_count", "pending_count")
    ] == [*(8, 3, 1)]
    assert ran.lines[0].split() == ["TOPIC", "QUEUES", "MESSAGES", "PENDING", "LAST", "MESSAGE"]
    assert ran.lines[1].split()[:4] == ["orders", "8", "3", "1"]
    assert "TBW102" in listed(run, "--all")


@pytest.mark.usefixtures("broker")
def test_a_topic_is_created_changed_and_deleted(run: Run) -> None:
    created = run("topics", "create", "orders")
    before = listed(run)
    changed = run("topics", "--json", "create", "orders", "--queues", "8")
    after = listed(run)
    deleted = run("topics", "delete", "orders", "--json")

    assert (created.code, created.out) == (0, "topic orders has 4 queues on each broker\n")
    assert before["orders"]["queue_count"] == 4
    assert json.loads(changed.out) == {"topic": "orders", "queue_count": 8}
    assert after["orders"]["queue_count"] == 8
    assert json.loads(deleted.out) == {"topic": "orders", "is_deleted": True}
    assert listed(run) == {}


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("delete", "orders"), "topic orders: expected one that exists, found none"),
        (("delete", "TBW102"), "TBW102"),
        (("create", "no spaces"), "topic"),
        (("create", "orders", "--queues", "0"), "--queues: expected 1 or more, found 0"),
        (("--name-server", "127.0.0.1:1"), "127.0.0.1:1"),
        (("creat", "orders"), "invalid choice: 'creat'"),
    ],
)
def test_mistakes_are_told(run: Run, words: tuple[str, ...], text: str) -> None:
    ran = run("topics", *words)

    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err

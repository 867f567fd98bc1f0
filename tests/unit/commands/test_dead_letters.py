import json

import pytest
from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess


@pytest.fixture
def failed(broker: BrokerProcess) -> BrokerProcess:
    """Three dead letters of `billing`, as the broker makes them."""
    broker.broker.consumer_groups.ensure("billing")
    broker.broker.topics.ensure("%DLQ%billing", queue_count=1)
    for number in range(3):
        properties = {"KEYS": f"k{number}", "DLQ_ORIGIN_TOPIC": "orders"}
        message = Message(
            topic="%DLQ%billing",
            body=f"body {number}".encode(),
            properties=properties,
            reconsume_times=16,
        )
        broker.store.put(message)
    return broker


@pytest.mark.usefixtures("failed")
def test_dead_letters_are_listed(run: Run) -> None:
    ran = run("dead-letters", "billing")
    newest = [
        json.loads(line) for line in run("dead-letters", "billing", "--json", "--limit", "2").lines
    ]

    assert ran.lines[0].split() == ["DIED", "ID", "TOPIC", "ATTEMPTS", "KEYS", "BODY"]
    assert [line.split()[-5:] for line in ran.lines[1:]] == [
        ["orders", "16", f"k{number}", "body", str(number)] for number in range(3)
    ]
    assert [(each["body"], each["topic"], each["attempts"]) for each in newest] == [
        ("body 1", "orders", 16),
        ("body 2", "orders", 16),
    ]


@pytest.mark.parametrize(
    ("words", "count", "code"),
    [
        (("--resend", "k1"), 1, 0),
        (("--resend", "k1", "k2"), 2, 0),
        (("--resend", "k1", "nobody"), 1, 1),
        (("--resend-all",), 3, 0),
    ],
)
def test_dead_letters_wait_for_their_group_again(
    failed: BrokerProcess, run: Run, words: tuple[str, ...], count: int, code: int
) -> None:
    ran = run("dead-letters", "billing", *words)

    assert ran.code == code
    assert ran.out.startswith(f"sent again to billing: {count} message")
    assert ("nobody: unknown" in ran.err) == (code == 1)
    assert failed.store.survey().pending_by_topic() == {"%RETRY%billing": count}


@pytest.mark.usefixtures("broker")
def test_a_group_without_dead_letters_and_none_at_all(broker: BrokerProcess, run: Run) -> None:
    broker.broker.consumer_groups.ensure("billing")

    assert run("dead-letters", "billing").out == "billing: no dead letters\n"
    unknown = run("dead-letters", "biling")
    assert unknown.code == 2
    assert "consumer group biling: expected one that exists, found none" in unknown.err
    assert run("dead-letters", "billing", "--limit", "0").code == 2


def test_dead_letters_go_to_their_topic_as_new_messages(failed: BrokerProcess, run: Run) -> None:
    ran = run("dead-letters", "billing", "--resend", "k1", "--to-topic")

    assert (ran.code, ran.out) == (0, "sent again to topics: 1 message\n")
    (found,) = (json.loads(line) for line in run("messages", "orders", "--json").lines)
    assert (found["body"], found["keys"]) == ("body 1", ["k1"])
    assert "DLQ_ORIGIN_TOPIC" not in found["properties"]
    assert failed.store.pending_count() == 0
    assert "--to-topic: expected --resend" in run("dead-letters", "billing", "--to-topic").err

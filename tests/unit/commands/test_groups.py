import json

import pytest
from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess

TOO_FAR = "2020-01-01T00:00"


@pytest.fixture
def reading(broker: BrokerProcess) -> BrokerProcess:
    """`billing` has read 2 of 6 messages in queue 0 and none of 4 in queue 1."""
    for number in range(10):
        message = Message(topic="orders", queue_id=int(number >= 6), body=b"x")
        broker.store.put(message)
    broker.broker.progress.commit("billing", "orders", 0, 2)
    return broker


def offsets(run: Run) -> dict[int, int]:
    (group,) = (json.loads(line) for line in run("groups", "--json", "--group", "billing").lines)
    places = [place for place in group["places"] if place["topic"] == "orders"]
    return {place["queue_id"]: place["offset"] for place in places if place["end"]}


@pytest.mark.usefixtures("reading")
def test_groups_are_listed_with_their_lag(run: Run) -> None:
    ran = run("groups")
    queues = run("groups", "--group", "billing", "--queues")
    (found,) = (json.loads(line) for line in run("groups", "--json", "--group", "billing").lines)

    (line,) = (line for line in ran.lines if line.startswith("billing"))
    assert ran.lines[0].split() == ["GROUP", "TOPIC", "LAG", "CLIENTS", "LAST", "CONSUMED"]
    assert line.split()[:4] == ["billing", "orders", "8", "0"]
    assert queues.lines[1].split() == ["billing", "orders", "dueline", "0", "2", "6", "4"]
    assert (found["group"], found["clients"]) == ("billing", [])
    assert sum(place["lag"] for place in found["places"]) == 8


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--to", "start"), {0: 0, 1: 0}),
        (("--to", "end"), {0: 6, 1: 4}),
        (("--to", TOO_FAR), {0: 0, 1: 0}),
        (("--to", "3", "--queue", "1"), {0: 2, 1: 3}),
        (("--to", "end", "--queue", "1"), {0: 2, 1: 4}),
    ],
)
def test_a_group_goes_on_elsewhere(
    run: Run, words: tuple[str, ...], expected: dict[int, int]
) -> None:
    ran = run("groups", "reset", "billing", "orders", *words)

    assert (ran.code, ran.err) == (0, "")
    assert f"billing: goes on at orders/1@{expected[1]}" in ran.lines
    assert offsets(run) == expected


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--group", "biling"), "consumer group biling: expected one that exists, found none"),
        (("reset", "biling", "orders", "--to", "end"), "consumer group biling: expected one"),
        (("reset", "billing", "order", "--to", "end"), "order"),
        (("reset", "billing", "orders", "--to", "3"), "--to: expected --queue with an offset"),
        (("reset", "billing", "orders", "--to", "soon"), "soon"),
        (("reset", "billing", "orders", "--to", "end", "--queue", "99"), "99"),
        (("reset", "billing", "orders"), "required: --to"),
    ],
)
def test_mistakes_are_told_and_change_nothing(run: Run, words: tuple[str, ...], text: str) -> None:
    ran = run("groups", *words)

    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err
    assert offsets(run)[0] == 2
    assert "biling" not in run("groups").out

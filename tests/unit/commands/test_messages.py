import json
import time
from collections.abc import Iterator

import pytest
from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess

DUE_MS = 4_102_444_800_000  # 2100-01-01 00:00 UTC


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def filled(broker: BrokerProcess) -> BrokerProcess:
    """Ten messages in two queues, and three that wait, the last one first."""
    for number in range(10):
        message = Message(
            topic="orders",
            queue_id=number % 2,
            body=f"body {number}".encode(),
            properties={"KEYS": f"k{number}"},
        )
        broker.store.put(message)
    for number in range(3):
        properties = {"TIMER_DELIVER_MS": str(DUE_MS - number), "KEYS": f"w{number} w"}
        body = f"waits {number}".encode()
        broker.store.put(Message(topic="orders", body=body, properties=properties))
    return broker


def bodies(out: str) -> list[str]:
    return [json.loads(line)["body"] for line in out.splitlines()]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ((), range(10)),
        (("--queue", "1", "--limit", "3"), (5, 7, 9)),
        (("--queue", "1"), (1, 3, 5, 7, 9)),
        (("--queue", "1", "--offset", "2"), (5, 7, 9)),
        (("--queue", "1", "--offset", "2", "--limit", "1"), (5,)),
        (("--queue", "0", "--since", "2020-01-01T00:00", "--limit", "2"), (0, 2)),
        (("--until", "2020-01-01T00:00"), ()),
    ],
)
def test_delivered_messages_are_browsed(
    run: Run, words: tuple[str, ...], numbers: tuple[int, ...]
) -> None:
    ran = run("messages", "orders", "--json", *words)

    assert ran.code == 0
    assert sorted(bodies(ran.out)) == [f"body {number}" for number in numbers]


@pytest.mark.usefixtures("filled")
def test_pending_messages_are_browsed_in_due_order(run: Run) -> None:
    ran = run("messages", "orders", "--pending", "--limit", "2")
    found = [json.loads(line) for line in run("messages", "orders", "--pending", "--json").lines]

    assert [line.split()[0] for line in ran.lines] == ["DUE", "2099-12-31", "2099-12-31"]
    assert "waits 2" in ran.lines[1]
    assert [(each["body"], each["due_ms"]) for each in found] == [
        ("waits 2", DUE_MS - 2),
        ("waits 1", DUE_MS - 1),
        ("waits 0", DUE_MS),
    ]
    assert {(each["topic"], each["queue_id"]) for each in found} == {("orders", 0)}
    assert run("messages", "other", "--pending", "--json").out == ""


def test_a_body_cannot_forge_a_line_and_programs_get_its_bytes(
    broker: BrokerProcess, run: Run
) -> None:
    broker.store.put(Message(topic="t", body=b"a\nb \x1b[2J"))
    broker.store.put(Message(topic="t", body=b"\xff\x00"))

    shown = run("messages", "t")
    text, data = (json.loads(line) for line in run("messages", "t", "--json").lines)

    assert len(shown.lines) == 3
    assert r"a\nb \x1b[2J" in shown.lines[1]
    assert text["body"] == "a\nb \x1b[2J"
    assert data["body_base64"] == "/wA="


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--limit", "0"), "--limit: expected 1 or more, found 0"),
        (("--offset", "3"), "--offset: expected --queue with it"),
        (("--pending", "--queue", "1"), "--pending: expected none of --queue"),
        (("--since", "soon"), "soon"),
        (("--broker", "127.0.0.1:1"), "127.0.0.1:1: expected an answer, found none"),
    ],
)
def test_mistakes_are_told(run: Run, words: tuple[str, ...], text: str) -> None:
    ran = run("messages", "orders", *words)

    assert ran.code == 2
    assert text in ran.err

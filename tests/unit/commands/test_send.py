import re

import pytest
from tests.unit.commands.conftest import Run

from dueline.server.process import BrokerProcess
from dueline.store import record as records


def visible(
    broker: BrokerProcess, topic: str = "orders", queue_id: int = 0
) -> list[records.Record]:
    result = broker.store.read(topic, queue_id, 0, count_max=1000)
    return [records.decode(view) for view in result.records]


def test_a_message_without_a_time_is_visible_now(broker: BrokerProcess, run: Run) -> None:
    ran = run("send", "orders", "hello", "--tag", "new", "--property", "a=b=c", "--queue", "2")

    (record,) = visible(broker, queue_id=2)
    assert ran.code == 0
    assert ran.out.endswith("visible now\n")
    assert record.body == b"hello"
    assert b"TAGS\x01new" in record.properties
    assert b"a\x01b=c" in record.properties


@pytest.mark.parametrize(
    ("words", "delay_ms"),
    [(("--delay", "1h"), 3_600_000), (("--level", "3"), 10_000)],
)
def test_a_delayed_message_waits(
    broker: BrokerProcess, run: Run, words: tuple[str, ...], delay_ms: int
) -> None:
    before_ms = broker.clock.now_ms()
    ran = run("send", "orders", "x", "--key", "k1", "--key", "k2", *words)
    after_ms = broker.clock.now_ms()

    (found,) = broker.store.find_delayed("k2")
    assert before_ms + delay_ms <= found.due_ms <= after_ms + delay_ms
    assert found.unique_id == ran.out.split()[0]
    assert re.search(r"  due \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+ \(in ", ran.out)
    assert visible(broker) == []


def test_a_time_is_a_promise_to_the_millisecond(broker: BrokerProcess, run: Run) -> None:
    run("send", "orders", "x", "--key", "k", "--at", "2100-01-01T00:00:00.123Z")

    assert broker.store.find_delayed("k")[0].due_ms == 4_102_444_800_123


def test_a_time_in_the_past_is_refused(broker: BrokerProcess, run: Run) -> None:
    ran = run("send", "orders", "x", "--at", "2001-01-01")

    assert ran.code == 2
    assert "expected a time to come, found 2001-01-01" in ran.err
    assert broker.broker.meter.figures().sent_count == 0


def test_many_messages_are_numbered(broker: BrokerProcess, run: Run) -> None:
    ran = run("send", "orders", "n{n}", "--key", "k{n}", "--count", "2500")

    bodies = [record.body for record in visible(broker)]
    assert bodies[:3] == [b"n1", b"n2", b"n3"]
    assert broker.store.offset_range("orders", 0) == (0, 2500)
    assert len(ran.lines) == 11
    assert ran.lines[-1] == "2500 of 2500 messages accepted"
    assert len(broker.store.query("orders", "k2500")) == 1


@pytest.mark.parametrize("words", [("--delay", "1h"), ("--level", "18"), ("--at", "2090-01-01")])
def test_many_delayed_messages_are_each_told_their_time(
    broker: BrokerProcess, run: Run, words: tuple[str, ...]
) -> None:
    ran = run("send", "orders", "n{n}", "--count", "3", *words)

    assert len(ran.lines) == 3
    for line in ran.lines:
        unique_id, _, rest = line.partition("  ")
        assert rest.startswith("due ")
        assert len(broker.store.find_delayed(unique_id)) == 1


def test_a_single_message_is_sent_as_it_is(broker: BrokerProcess, run: Run) -> None:
    run("send", "orders", "{n}")

    assert visible(broker)[0].body == b"{n}"


def test_refused_messages_are_told_with_the_reason(broker: BrokerProcess, run: Run) -> None:
    ran = run("send", "no good topic", "x")

    assert ran.code == 1
    assert "message 1 refused: topic: expected" in ran.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--delay", "soon"), "duration: expected number and unit"),
        (("--at", "soon"), "expected a date and time such as"),
        (("--level", "0"), "level: expected 1 or more, found 0"),
        (("--level", "19"), "level: expected 1 to 18 (the broker has 1s 5s"),
        (("--count", "0"), "count: expected 1 or more, found 0"),
        (("--property", "x"), "--property: expected name=value, found 'x'"),
        (("--name-server", "nowhere"), "address: expected host:port"),
        (("--name-server", "127.0.0.1:1"), "is it running"),
    ],
)
def test_mistakes_are_one_line_with_what_was_expected(
    broker: BrokerProcess, run: Run, words: tuple[str, ...], text: str
) -> None:
    ran = run("send", "orders", "x", *words)

    assert ran.code == 2
    assert text in ran.err
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("dueline send: ")


def test_only_one_time_may_be_given(run: Run) -> None:
    ran = run("send", "orders", "x", "--delay", "1s", "--level", "1")

    assert ran.code == 2
    assert "not allowed with" in ran.err

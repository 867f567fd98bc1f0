import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.commands.conftest import Run
from tests.unit.server.local import carry
from tests.waiting import wait_until

from dueline.message import Message
from dueline.server.process import BrokerProcess


def put(broker: BrokerProcess, body: str, **properties: str) -> None:
    broker.store.put(Message(topic="orders", body=body.encode(), properties=properties))


def test_messages_are_printed_with_their_place_and_labels(broker: BrokerProcess, run: Run) -> None:
    put(broker, "hello", KEYS="k1 k2", TAGS="new")

    ran = run("tail", "orders", "--from", "start", "--count", "1")

    assert ran.code == 0
    assert "  orders/0@0  not delayed  key=k1 k2  tag=new  hello\n" in ran.out


def test_a_delayed_message_is_printed_with_its_lateness(broker: BrokerProcess, run: Run) -> None:
    put(broker, "later", TIMER_DELAY_MS="100")
    carry(broker.store)

    ran = run("tail", "orders", "--count", "1", "--json", "--from", "start")

    message = json.loads(ran.out)
    assert message["late_ms"] == message["came_ms"] - message["due_ms"]
    assert message["late_ms"] >= 0
    assert message["visible_ms"] >= message["due_ms"]
    assert (message["topic"], message["queue_id"], message["offset"]) == ("orders", 0, 0)


def test_an_old_message_is_as_late_as_it_was_then(broker: BrokerProcess, run: Run) -> None:
    broker.store.put(
        Message(topic="orders", body=b"x", properties={"TIMER_DELAY_MS": "10", "KEYS": "k"})
    )
    run("tail", "orders", "--timeout", "100ms", "--count", "1")  # until it is due
    carry(broker.store)
    run("tail", "orders", "--timeout", "50ms", "--count", "1")  # until that was a while ago

    message = json.loads(run("tail", "orders", "--from", "start", "--count", "1", "--json").out)

    assert message["late_ms"] == message["visible_ms"] - message["due_ms"]
    assert message["came_ms"] == message["visible_ms"]


def test_the_end_is_where_it_begins_by_default(broker: BrokerProcess, run: Run) -> None:
    put(broker, "before")

    ran = run("tail", "orders", "--count", "1", "--timeout", "50ms")

    assert (ran.code, ran.out) == (1, "")


def test_a_group_goes_on_where_it_left_off(broker: BrokerProcess, run: Run) -> None:
    for number in range(5):
        put(broker, f"n{number}")
    words = ("tail", "orders", "--group", "g", "--from", "start", "--json")

    first = run(*words, "--count", "2")
    second = run(*words, "--count", "3")

    assert [json.loads(line)["body"] for line in first.lines] == ["n0", "n1"]
    assert [json.loads(line)["body"] for line in second.lines] == ["n2", "n3", "n4"]


def test_bytes_that_are_no_text_are_shown(broker: BrokerProcess, run: Run) -> None:
    broker.store.put(Message(topic="orders", body=b"\xff\x00a"))

    assert "\\xff" in run("tail", "orders", "--from", "start", "--count", "1").out


@pytest.mark.parametrize(
    ("words", "text"),
    [(("--count", "0"), "count: expected 1"), (("--timeout", "5"), "duration: expected")],
)
def test_mistakes_are_told(
    broker: BrokerProcess, run: Run, words: tuple[str, ...], text: str
) -> None:
    ran = run("tail", "orders", *words)

    assert (ran.code, text in ran.err) == (2, True)


def test_a_level_is_late_by_what_it_took_beyond_its_time(broker: BrokerProcess, run: Run) -> None:
    run("send", "orders", "x", "--level", "1")
    carry(broker.store)

    message = json.loads(run("tail", "orders", "--from", "start", "--count", "1", "--json").out)

    assert message["due_ms"] == message["born_ms"] + 1_000
    assert message["late_ms"] == message["came_ms"] - message["due_ms"] >= 0


def test_a_time_that_is_up_is_an_exit_code(broker: BrokerProcess, run: Run) -> None:
    put(broker, "x")
    words = ("tail", "orders", "--from", "start", "--timeout", "300ms")

    assert run(*words).code == 1
    assert run(*words, "--count", "2").code == 1
    assert run(*words, "--count", "1").code == 0


def test_a_topic_that_does_not_exist_is_waited_for(broker: BrokerProcess, run: Run) -> None:
    with ThreadPoolExecutor(1) as threads:
        tail = threads.submit(run, "tail", "new", "--count", "1", "--timeout", "60s")
        wait_until(lambda: broker.remoting.hubs[1].channels, "the reader")
        broker.store.put(Message(topic="new", body=b"first"))
        ran = tail.result()

    assert (ran.code, ran.out.endswith("new/0@0  not delayed  first\n")) == (0, True)
    assert "topic new does not exist yet" in ran.err


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_escapes_of_a_producer_do_not_reach_the_terminal(
    broker: BrokerProcess, run: Run, flags: tuple[str, ...]
) -> None:
    put(broker, "\x1b[2J\x9b31mbody\nforged", KEYS="\x1b]0;owned\x07", TAGS="\x1b[8m")

    ran = run("tail", "orders", "--from", "start", "--count", "1", *flags)

    assert len(ran.lines) == 1
    assert ran.lines[0].isprintable()
    if flags:
        assert json.loads(ran.out)["body"] == "\x1b[2J\x9b31mbody\nforged"

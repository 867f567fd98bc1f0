from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess


def test_each_key_has_a_definite_answer(broker: BrokerProcess, run: Run) -> None:
    broker.store.put(
        Message(topic="t", body=b"x", properties={"KEYS": "a", "TIMER_DELAY_MS": "60000"})
    )
    broker.store.put(Message(topic="t", body=b"x", properties={"KEYS": "b"}))

    ran = run("cancel", "a", "b", "nobody")

    assert ran.code == 1
    assert ran.lines == [
        "a: cancelled; it will not be delivered",
        "b: too late: it was delivered already",
        "nobody: unknown: no delayed message has this id or key",
    ]
    assert broker.store.pending_count() == 0


def test_all_cancelled_is_success_also_the_second_time(broker: BrokerProcess, run: Run) -> None:
    put = broker.store.put(Message(topic="t", body=b"x", properties={"TIMER_DELAY_MS": "60000"}))

    assert run("cancel", put.unique_id).code == 0
    assert run("cancel", put.unique_id).code == 0


def test_without_a_broker_it_says_so(run: Run) -> None:
    ran = run("cancel", "a", "--broker", "127.0.0.1:1")

    assert ran.code == 2
    assert "127.0.0.1:1: expected an answer, found none" in ran.err


def test_a_key_of_several_says_how_many(broker: BrokerProcess, run: Run) -> None:
    for topic in ("t", "t", "other"):
        broker.store.put(
            Message(topic=topic, body=b"x", properties={"KEYS": "k", "TIMER_DELAY_MS": "60000"})
        )

    assert run("cancel", "k").lines == ["k: cancelled 3 messages; they will not be delivered"]
    assert run("cancel", "k").lines == ["k: cancelled before; it will not be delivered"]

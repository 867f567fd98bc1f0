from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess


def put(broker: BrokerProcess, key: str) -> None:
    broker.store.put(
        Message(topic="t", body=b"x", properties={"KEYS": key, "TIMER_DELAY_MS": "60000"})
    )


def test_messages_move_to_a_time(broker: BrokerProcess, run: Run) -> None:
    put(broker, "a")
    put(broker, "b")

    ran = run("reschedule", "a", "b", "--at", "2100-01-01T12:00Z")

    assert ran.code == 0
    assert ran.lines[0].startswith("a: now due 2100-01-0")
    assert broker.store.next_due_ms() == 4_102_488_000_000
    assert broker.store.pending_count() == 2


def test_a_delay_counts_from_now_by_the_brokers_clock(broker: BrokerProcess, run: Run) -> None:
    put(broker, "a")
    before_ms = broker.clock.now_ms()

    run("reschedule", "a", "--delay", "2h")

    due_ms = broker.store.next_due_ms()
    assert due_ms is not None
    assert before_ms + 7_200_000 <= due_ms <= broker.clock.now_ms() + 7_200_000


def test_a_time_in_the_past_is_refused(broker: BrokerProcess, run: Run) -> None:
    put(broker, "a")
    due_ms = broker.store.next_due_ms()

    ran = run("reschedule", "a", "--at", "2001-01-01")

    assert ran.code == 2
    assert "expected a time to come, found 2001-01-01" in ran.err
    assert broker.store.next_due_ms() == due_ms


def test_what_cannot_be_moved_is_told(broker: BrokerProcess, run: Run) -> None:
    put(broker, "a")
    broker.store.cancel("a")

    ran = run("reschedule", "a", "nobody", "--delay", "1h")

    assert ran.code == 1
    assert ran.lines == [
        "a: cancelled; it will not be delivered",
        "nobody: unknown: no delayed message has this id or key",
    ]


def test_a_time_is_required(run: Run) -> None:
    ran = run("reschedule", "a")

    assert ran.code == 2
    assert "one of the arguments --delay --at --now --shift is required" in ran.err

import json
import re
import time
from collections.abc import Iterator

import pytest
from tests.unit.commands.conftest import Run
from tests.waiting import wait_until

from dueline.message import Message
from dueline.server.process import BrokerProcess

START_MS = 4_102_444_800_000  # 2100-01-01 00:00 UTC


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def filled(broker: BrokerProcess) -> BrokerProcess:
    """At 00:00 one, at 00:01 two, at 05:00 three, on the next day four."""
    times_ms = [0] + 2 * [60_000] + 3 * [5 * 3_600_000] + 4 * [86_400_000]
    for number, time_ms in enumerate(times_ms):
        properties = {"TIMER_DELIVER_MS": str(START_MS + time_ms), "KEYS": f"k{number}"}
        topic = "a" if number % 2 else "b"
        broker.store.put(Message(topic=topic, body=b"x", properties=properties))
    return broker


def bars(out: str) -> dict[str, tuple[int, int]]:
    """Label -> (count, length of the bar)."""
    rows = re.findall(r"^(2100[-0-9: ]+?)  +(\d+)  (█+)$", out, re.M)
    return {label: (int(count), len(bar)) for label, count, bar in rows}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("step", "counts"),
    [
        ("day", {"2100-01-01": 6, "2100-01-02": 4}),
        ("hour", {"2100-01-01 00:00": 3, "2100-01-01 05:00": 3, "2100-01-02 00:00": 4}),
        (
            "minute",
            {
                "2100-01-01 00:00": 1,
                "2100-01-01 00:01": 2,
                "2100-01-01 05:00": 3,
                "2100-01-02 00:00": 4,
            },
        ),
    ],
)
def test_the_chart_counts_by_step(run: Run, step: str, counts: dict[str, int]) -> None:
    ran = run("pending", "--by", step)

    rows = bars(ran.out)
    assert {label: count for label, (count, _) in rows.items()} == counts
    longest = max(rows.values())
    assert longest[1] == max(length for _, length in rows.values())
    assert ran.lines[0] == "waiting: 10"
    assert "topics: b 5, a 5" in ran.out or "topics: a 5, b 5" in ran.out
    assert "next due 2100-01-01 00:00:00.000 UTC" in ran.out


@pytest.mark.usefixtures("filled")
def test_one_topic_can_be_chosen(run: Run) -> None:
    ran = run("pending", "--by", "day", "--topic", "a")

    assert ran.lines[0] == "waiting for a: 5"
    assert sum(count for count, _ in bars(ran.out).values()) == 5


@pytest.mark.usefixtures("filled")
def test_programs_get_json(run: Run) -> None:
    counts = json.loads(run("pending", "--by", "hour", "--json").out)

    assert counts["count"] == 10
    assert counts["buckets"] == {
        str(START_MS): 3,
        str(START_MS + 5 * 3_600_000): 3,
        str(START_MS + 86_400_000): 4,
    }


def test_many_minutes_are_put_together_unless_asked_for(broker: BrokerProcess, run: Run) -> None:
    for minute in range(100):
        time_ms = START_MS + 60_000 * minute
        properties = {"TIMER_DELIVER_MS": str(time_ms)}
        broker.store.put(Message(topic="a", body=b"x", properties=properties))

    assert [count for count, _ in bars(run("pending").out).values()] == [60, 40]
    by_minute = run("pending", "--by", "minute").out
    assert len(bars(by_minute)) == 60
    assert "… and 40 in 40 later steps" in by_minute


@pytest.mark.usefixtures("broker")
def test_nothing_waits(run: Run) -> None:
    ran = run("pending")

    assert (ran.code, ran.out) == (0, "waiting: 0\n")


def test_what_is_overdue_is_so_long_ago(broker: BrokerProcess, run: Run) -> None:
    broker.store.put(Message(topic="t", body=b"x", properties={"TIMER_DELAY_MS": "600"}))

    def lines() -> list[str]:
        return [line for line in run("pending").lines if line.endswith(" ago)")]

    (line,) = wait_until(lines, "the due time")
    assert line.startswith("next due ")


def test_one_message_is_looked_up(filled: BrokerProcess, run: Run) -> None:
    filled.store.cancel("k4")

    waiting, cancelled = run("pending", "--key", "k3"), run("pending", "--key", "k4")

    assert waiting.code == 0
    assert "a/0  due 2100-01-01 05:00:00.000 UTC  pending  keys=k3" in waiting.out
    assert "cancelled" in cancelled.out
    assert json.loads(run("pending", "--key", "k3", "--json").out)[0]["state"] == "pending"


def test_a_message_that_was_moved_is_not_cancelled(filled: BrokerProcess, run: Run) -> None:
    filled.store.reschedule("k3", filled.clock.now_ms() + 3_600_000)

    found = json.loads(run("pending", "--key", "k3", "--json").out)
    assert [each["state"] for each in found] == ["pending", "moved"]

    filled.store.cancel("k3")

    found = json.loads(run("pending", "--key", "k3", "--json").out)
    assert [each["state"] for each in found] == ["cancelled", "moved"]


@pytest.mark.usefixtures("broker")
def test_an_unknown_key_is_told(run: Run) -> None:
    ran = run("pending", "--key", "nobody")

    assert ran.code == 1
    assert "unknown" in ran.out


def test_escapes_of_a_producer_do_not_reach_the_terminal(broker: BrokerProcess, run: Run) -> None:
    properties = {"TIMER_DELIVER_MS": str(START_MS), "KEYS": "k \x1b[2J\x9b31m"}
    broker.store.put(Message(topic="a", body=b"x", properties=properties))

    ran = run("pending", "--key", "k")

    assert ran.code == 0
    assert all(line.isprintable() for line in ran.lines)
    assert r"\x1b[2J\x9b31m" in ran.out

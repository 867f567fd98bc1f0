import json

from tests.unit.commands.conftest import Run
from tests.unit.server.local import carry

from dueline.message import Message
from dueline.server.broker import Broker


def test_figures_for_people(broker: Broker, run: Run) -> None:
    broker.store.put(Message(topic="t", body=b"x"))
    broker.store.put(Message(topic="t", body=b"x", properties={"TIMER_DELAY_MS": "3600000"}))

    ran = run("stats")

    rows = {line[:12].strip(): line[12:] for line in ran.lines}
    assert ran.code == 0
    assert rows["pending"].startswith("1, and 0 carried over")
    assert rows["sent"] == "2 (1 delayed), 0 refused"
    assert rows["pipeline"] == "off, never asked for work"
    assert rows["lateness"].startswith("nothing became visible in the last minute")
    assert "(in 59 m" in rows["next due"] or "(in 1 h" in rows["next due"]


def test_figures_for_programs(broker: Broker, run: Run) -> None:
    broker.store.put(Message(topic="t", body=b"x", properties={"TIMER_DELAY_MS": "1"}))
    run("tail", "t", "--timeout", "20ms", "--count", "1")
    carry(broker.store)

    figures = json.loads(run("stats", "--json").out)

    assert (figures["delivered"], figures["lateness"]["count"]) == (1, 1)
    assert figures["lateness"]["late_ms_max"] == figures["lateness"]["max_ms"] > 0
    assert "p99" in run("stats").out


def test_a_clock_that_stands_still_is_said_first(broker: Broker, run: Run) -> None:
    assert "CLOCK" not in run("stats").out

    broker.store.clock.raise_floor(broker.store.clock.now_ms() + 8 * 3_600_000)

    assert run("stats").lines[0].startswith("CLOCK       stands still for 7 h 59 m")
    assert json.loads(run("stats", "--json").out)["clock_ahead_ms"] > 7 * 3_600_000

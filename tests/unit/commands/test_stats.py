import json

from tests.unit.commands.conftest import Run
from tests.unit.server.local import carry

from dueline.message import Message
from dueline.server.process import BrokerProcess
from dueline.spark.delivery import complain


def test_figures_for_people(broker: BrokerProcess, run: Run) -> None:
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


def test_figures_for_programs(broker: BrokerProcess, run: Run) -> None:
    broker.store.put(Message(topic="t", body=b"x", properties={"TIMER_DELAY_MS": "1"}))
    run("tail", "t", "--timeout", "20ms", "--count", "1")
    carry(broker.store)

    figures = json.loads(run("stats", "--json").out)

    assert (figures["delivered"], figures["lateness"]["count"]) == (1, 1)
    assert figures["lateness"]["late_ms_max"] == figures["lateness"]["max_ms"] > 0
    assert "p99" in run("stats").out


def test_what_is_overdue_is_said_with_the_oldest_and_the_last_trouble(
    broker: BrokerProcess, run: Run
) -> None:
    properties = {"TIMER_DELAY_MS": "1000", "KEYS": "order-17"}
    oldest = broker.store.put(Message(topic="orders", body=b"x", properties=properties))
    broker.store.put(Message(topic="t", body=b"x", properties={"TIMER_DELAY_MS": "2000"}))
    broker.store.put(Message(topic="t", body=b"x", properties={"TIMER_DELAY_MS": "3600000"}))
    assert "OVERDUE" not in run("stats").out
    broker.store.clock.raise_floor(broker.store.clock.now_ms() + 200_000)
    broker.pipeline.failed("KeyError: 'paid', at mytx.py:5")

    ran = run("stats")
    figures = json.loads(run("stats", "--json").out)

    rows = {line[:12].strip(): line[12:] for line in ran.lines}
    assert rows["OVERDUE"] == (
        f"2, the oldest for 3 m 19 s: {oldest.unique_id} (keys order-17), topic orders"
    )
    assert rows["next due"].endswith("(3 m 19 s ago)")
    assert rows["TROUBLE"].endswith("ago: KeyError: 'paid', at mytx.py:5")
    assert figures["overdue"] == 2
    assert figures["oldest_overdue"]["unique_id"] == oldest.unique_id
    assert figures["driver"]["error"] == "KeyError: 'paid', at mytx.py:5"


def test_a_pipeline_elsewhere_is_not_off(broker: BrokerProcess, run: Run) -> None:
    broker.pipeline.asked(is_transformed=False)

    rows = {line[:12].strip(): line[12:] for line in run("stats").lines}

    assert rows["pipeline"].startswith("elsewhere, asked for work ")


def test_a_pipeline_elsewhere_says_what_went_wrong_until_it_has_finished_a_batch(
    broker: BrokerProcess, run: Run
) -> None:
    broker.pipeline.asked(is_transformed=False)

    complain(f"127.0.0.1:1, {broker.address}", "KeyError: 'paid', at mytx.py:5")

    rows = {line[:12].strip(): line[12:] for line in run("stats").lines}
    assert rows["TROUBLE"].endswith("ago: KeyError: 'paid', at mytx.py:5")
    assert rows["pipeline"].startswith("elsewhere, asked for work ")
    broker.pipeline.committed()
    assert "TROUBLE" not in run("stats").out


def test_a_clock_that_stands_still_is_said_first(broker: BrokerProcess, run: Run) -> None:
    assert "CLOCK" not in run("stats").out

    broker.store.clock.raise_floor(broker.store.clock.now_ms() + 8 * 3_600_000)

    assert run("stats").lines[0].startswith("CLOCK       stands still for 7 h 59 m")
    assert json.loads(run("stats", "--json").out)["clock_ahead_ms"] > 7 * 3_600_000


def test_who_was_limited_is_said_the_most_often_first(broker: BrokerProcess, run: Run) -> None:
    assert "\nlimited" not in run("stats").out
    for number in range(7):
        for _ in range(number + 1):
            broker.broker.quotas.note_limited(f"user u{number}")

    rows = {line[:12].strip(): line[12:] for line in run("stats").lines}
    figures = json.loads(run("stats", "--json").out)

    assert rows["limited"].startswith("user u6 7 times, user u5 6 times, ")
    assert rows["limited"].endswith(", and 2 more")
    assert figures["limited"]["user u0"] == 1

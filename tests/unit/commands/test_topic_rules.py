"""`dueline topics pause`, `resume`, `rate`, `expiry`, `rules`."""

from __future__ import annotations

import json

import pytest
from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess
from dueline.store.road import RoadRule


def test_rules_are_set_shown_and_taken_away(broker: BrokerProcess, run: Run) -> None:
    broker.store.put(Message(topic="mail", body=b"x", properties={"TIMER_DELAY_MS": "60000"}))

    run("topics", "pause", "mail")
    run("topics", "rate", "mail", "500")
    ran = run("topics", "expiry", "mail", "2h")

    assert ran.code == 0
    assert ran.lines[0].split() == ["TOPIC", "ROAD", "RATE", "EXPIRY", "PENDING", "HELD", "BACK"]
    assert ran.lines[1].split() == ["mail", "paused", "500/s", "2", "h", "1", "0"]
    assert broker.store.numbers.rules["mail"] == RoadRule(
        is_paused=True, rate=500, expiry_ms=7_200_000
    )
    ran = run("topics", "rules", "--json")
    assert json.loads(ran.out)["is_paused"] is True
    for words in (("resume", "mail"), ("rate", "mail", "off"), ("expiry", "mail", "off")):
        run("topics", *words)
    assert run("topics", "rules", "--json").out == ""


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("rate", "mail", "fast"), "rate: expected messages a second"),
        (("expiry", "mail", "soon"), "duration"),
        (("pause", "no topic"), "topic"),
    ],
)
def test_nonsense_is_refused(
    broker: BrokerProcess, run: Run, words: tuple[str, ...], reason: str
) -> None:
    ran = run("topics", *words)

    assert ran.code == 2
    assert reason in ran.err
